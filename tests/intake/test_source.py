"""Lists that are no file: standard input, a query, a DuckDB table, an object of a store."""

import io
import sys
from types import SimpleNamespace

import duckdb
import msgspec
import pytest

from firmlake.core.errors import CompanyListError, UsageError
from firmlake.core.settings import IntakeSettings, Settings
from firmlake.intake.company_list import read_company_list
from firmlake.intake.source import local_list

LIST = "land;kbo\nBE;0403227515\nBE;0403091220\n"


def numbers(source, sql="", settings=None, **options):
    with local_list(str(source), sql, settings or Settings(), **options) as path:
        return read_company_list(path).companies["company_number"].to_list()


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "crm.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE \"my customers\" AS SELECT 'BE' AS land, '0403227515' AS kbo")
    return path


@pytest.fixture
def stdin(monkeypatch):
    return lambda content: monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


def test_a_file_is_read_where_it_is(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text(LIST)
    with local_list(str(path), "", Settings(), tmp_path / "kept") as found:
        assert found == path
    assert not (tmp_path / "kept").exists()


def test_standard_input_is_read_and_kept_by_its_content_so_that_a_run_resumes(stdin, tmp_path):
    kept = []
    for content in (LIST, LIST, LIST + "FR;552032534\n"):
        stdin(content.encode())
        with local_list("-", "", Settings(), tmp_path) as path:
            kept.append(path)
    assert kept[0] == kept[1] != kept[2]
    assert [path.name for path in kept] == ["stdin"] * 3
    assert kept[0].read_text() == LIST


def test_a_database_with_one_table_is_a_list_and_a_query_chooses(database, tmp_path):
    assert numbers(database) == ["0403227515"]
    assert numbers(database, 'SELECT land, kbo FROM "my customers" WHERE false OR true') == ["0403227515"]
    (tmp_path / "list.csv").write_text(LIST)
    assert numbers("", f"FROM '{tmp_path}/list.csv'") == ["0403227515", "0403091220"]


def test_of_several_tables_the_hint_names_one_that_can_be_read(database):
    with duckdb.connect(database) as connection:
        connection.execute("CREATE TABLE other AS SELECT 1 AS x")
    with pytest.raises(CompanyListError) as caught, local_list(str(database), "", Settings()):
        pass
    sql = caught.value.next_step.split("'", 1)[1].rsplit("'", 1)[0]
    assert numbers(database, sql) == ["0403227515"]


def test_a_query_on_a_file_that_is_no_database_says_how_to_name_it(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text(LIST)
    with pytest.raises(CompanyListError) as caught, local_list(str(path), "FROM x", Settings()):
        pass
    sql = caught.value.next_step.split('--sql "', 1)[1].rstrip('"')
    assert numbers("", sql) == ["0403227515", "0403091220"]


def test_what_is_wrong_is_said_of_the_source_and_not_of_its_copy(stdin):
    stdin(b"id,place\n7,Leuven\n")
    with pytest.raises(CompanyListError, match=r"^standard input: no column looks like"):
        numbers("-")


def test_a_stream_that_never_ends_is_refused(stdin):
    stdin(b"x" * (2**20 + 1))
    settings = msgspec.structs.replace(Settings(), intake=IntakeSettings(max_inflated_megabytes=1))
    with pytest.raises(CompanyListError, match="holds more than 1 MB"):
        numbers("-", settings=settings)


@pytest.mark.parametrize(
    ("source", "message"), [("ftp://host/list.csv", "not a supported source"), ("s3://", "cannot be read")]
)
def test_an_address_that_is_no_list_is_refused(source, message):
    with pytest.raises(CompanyListError, match=message):
        numbers(source)


@pytest.mark.parametrize("source", ["s3://planted:secret@bucket/x.csv", "az://box/x.csv?sig=secret"])
def test_an_address_with_credentials_is_refused_because_addresses_are_recorded(source):
    with pytest.raises(UsageError, match="environment variables") as caught:
        numbers(source)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["customers.csv", "customers #2.csv"])
def test_an_object_of_a_store_is_a_list_and_is_kept_so_that_a_run_resumes(bucket, tmp_path, name):
    import obstore
    from obstore.store import from_url

    obstore.put(from_url(bucket), f"lists/{name}", LIST.encode())
    with local_list(f"{bucket}/lists/{name}", "", Settings(), tmp_path) as path:
        assert path.name == name
        assert path.read_text() == LIST
    assert path.exists()


@pytest.mark.parametrize(
    ("name", "said"), [("absent.csv", "cannot be read"), ("large.csv", "intake.max_inflated_megabytes")]
)
def test_an_object_that_cannot_be_used_is_refused_by_its_address(bucket, name, said):
    import obstore
    from obstore.store import from_url

    obstore.put(from_url(bucket), "large.csv", LIST.encode())
    tiny = msgspec.structs.replace(Settings(), intake=IntakeSettings(max_inflated_megabytes=0))
    with pytest.raises(CompanyListError) as caught:
        numbers(f"{bucket}/{name}", settings=tiny if name == "large.csv" else None)
    assert bucket in caught.value.message
    assert said in str(caught.value)
    assert "planted-secret" not in str(caught.value)
