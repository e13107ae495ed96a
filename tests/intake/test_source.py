"""Lists that are no file: standard input, a query, a DuckDB table, an object of a store."""

import io
import os
import sys
from types import SimpleNamespace

import duckdb
import msgspec
import obstore
import obstore.store
import pytest

from firmlake.core.errors import CompanyListError, UsageError
from firmlake.core.settings import IntakeSettings, Settings
from firmlake.intake.lines import read_company_list
from firmlake.intake.source import local_list
from support import slow

LIST = "land;kbo\nBE;0403227515\nBE;0403091220\n"


def numbers(source, sql="", settings=None, **options):
    with local_list(str(source), sql, settings or Settings(), **options) as path:
        return read_company_list(path).companies["company_number"].to_list()


def settings_with(**options):
    return msgspec.structs.replace(Settings(), intake=IntakeSettings(**options))


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
    with pytest.raises(CompanyListError, match="holds more than 1 MB"):
        numbers("-", settings=settings_with(max_inflated_megabytes=1))


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("ftp://host/list.csv", CompanyListError, "not a supported source"),
        ("s3://", CompanyListError, "cannot be read"),
        # Addresses are recorded.
        ("s3://planted:secret@bucket/x.csv", UsageError, "environment variables"),
        ("az://box/x.csv?sig=secret", UsageError, "environment variables"),
    ],
)
def test_an_address_that_is_no_list_or_has_credentials_is_refused(source, error, message):
    with pytest.raises(error, match=message) as caught:
        numbers(source)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", ["memory", *slow("bucket")])
def test_an_object_of_a_store_is_a_list_and_is_kept_so_that_a_run_resumes(kind, request, tmp_path):
    bucket = request.getfixturevalue(kind)
    for name in ("customers.csv", "customers #2.csv"):
        obstore.put(obstore.store.from_url(f"{bucket}/lists"), name, LIST.encode())
        with local_list(f"{bucket}/lists/{name}", "", Settings(), tmp_path) as path:
            assert (path.name, path.read_text()) == (name, LIST)
        assert path.exists()
    for name, settings, said in (
        ("absent.csv", None, "cannot be read"),
        ("lists/customers.csv", settings_with(max_inflated_megabytes=0), "intake.max_inflated_megabytes"),
    ):
        with pytest.raises(CompanyListError) as caught:
            numbers(f"{bucket}/{name}", settings=settings)
        assert bucket in caught.value.message
        assert said in str(caught.value)
        assert "planted-secret" not in str(caught.value)


TOKEN = "canary-tok-ABCDEFGH12345678"


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """Make a database with these statements; the token is in the environment, in a file and in a file beside it."""
    (tmp_path / "secret.csv").write_text(f"land;kbo;{TOKEN}\nBE;0403227515;{TOKEN}\n")
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", TOKEN)

    def make(*statements):
        path = tmp_path / "customers.duckdb"
        with duckdb.connect(path) as connection:
            for statement in statements:
                connection.execute(statement.format(tmp_path))
        return path

    return make


READERS = [
    "SELECT 'BE' AS land, content AS kbo FROM read_text('/proc/self/environ')",
    "SELECT 'BE' AS land, hex(content) AS kbo FROM read_blob('/proc/self/environ')",
    "SELECT 'BE' AS land, content AS kbo FROM read_text('{}/secret.csv')",
    "SELECT land, kbo FROM '{}/secret.csv'",
    "SELECT land, kbo FROM read_csv('{}/secret.csv', filename = true)",
    "SELECT 'BE' AS land, file AS kbo FROM glob('/home/*')",
    "SELECT 'BE' AS land, name AS kbo FROM duckdb_secrets()",
    "SELECT 'BE' AS land, content AS kbo FROM query('FROM read_text(''{}/secret.csv'')')",
]


CUSTOMERS = "CREATE TABLE customers AS SELECT 'BE' AS land, '0403227515' AS kbo"
ENDLESS = "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t) SELECT 'BE' AS land, a AS kbo FROM t"
BELGIAN = "CREATE VIEW belgian AS FROM customers WHERE land = 'BE'"
DATABASES = {
    "the only table": ([CUSTOMERS], "", ["0403227515"]),
    "a query": ([CUSTOMERS], "SELECT land, kbo FROM customers WHERE false OR true", ["0403227515"]),
    "a harmless view": ([CUSTOMERS, BELGIAN, f"CREATE VIEW r AS {READERS[0]}"], "FROM belgian", ["0403227515"]),
    # Views run the SQL of whoever made the file.
    "views": ([f"CREATE VIEW v{n} AS {sql}" for n, sql in enumerate(READERS)], "", "has no table"),
    **{f"view: {sql}": ([f"CREATE VIEW customers AS {sql}"], "FROM customers", ".") for sql in READERS},
    "another file": ([CUSTOMERS], "FROM '{}/secret.csv'", "sees only that database"),
    "the text of another file": ([CUSTOMERS], READERS[2], "sees only that database"),
    "the network": ([CUSTOMERS], "FROM read_csv('http://127.0.0.1:9/x.csv')", "sees only that database"),
    "an endless query": ([CUSTOMERS, f"CREATE VIEW v AS {ENDLESS}"], "FROM v", r"intake\.query_seconds_max"),
}
"""Statements that make a database file, a query, and the numbers that it gives or why it is refused."""


@pytest.mark.parametrize("name", [*list(DATABASES)[:4], *slow(*list(DATABASES)[4:-2]), *list(DATABASES)[-2:]])
def test_a_database_file_is_a_list_and_reads_nothing_outside_itself(stranger, tmp_path, name):
    statements, sql, expected = DATABASES[name]
    path, hurried = stranger(*statements), settings_with(query_seconds_max=1 if name == "an endless query" else 60)
    if isinstance(expected, list):
        assert numbers(path, sql, hurried) == expected
        return
    with pytest.raises(CompanyListError, match=expected) as caught:
        numbers(path, sql.format(tmp_path), hurried)
    assert TOKEN not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.slow
def test_of_several_tables_the_hint_names_one_that_can_be_read(stranger):
    path = stranger(CUSTOMERS.replace("customers", '"my customers"'), "CREATE TABLE other AS SELECT 1 AS x")
    with pytest.raises(CompanyListError) as caught, local_list(str(path), "", Settings()):
        pass
    sql = caught.value.next_step.split("'", 1)[1].rsplit("'", 1)[0]
    assert numbers(path, sql) == ["0403227515"]


HOSTILE = [
    "SELECT content AS kbo FROM read_text('/proc/self/environ')",
    "SELECT content AS kbo FROM read_text('{folder}/link')",
    "SELECT content AS kbo FROM read_text('{folder}/token')",
    "COPY (SELECT 1) TO '{folder}/made.csv'",
    "SELECT 1; COPY (SELECT 1) TO '{folder}/made.csv'",
    "SET enable_external_access = true",
    *slow(
        "SELECT content AS kbo FROM read_text('/proc/{pid}/environ')",
        "SELECT content AS kbo FROM read_text('/proc/*/environ')",
        "SELECT content AS kbo FROM read_text('/pro' || 'c/self/environ')",
        "SELECT content AS kbo FROM read_text('{folder}/sec' || 'ret.csv')",
        "SELECT content AS kbo FROM read_text('{folder}/../{name}/token')",
        "SELECT content AS kbo FROM query('FROM read_text(''{folder}/secret.csv'')')",
        "ATTACH '{folder}/made.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "CREATE TABLE x AS SELECT 1",
        "FROM enable_logging(storage = 'file', storage_path = '{folder}/made')",
        "FROM 'https://127.0.0.1:9/list.csv'",
        "",
        "SELECT",
    ),
]


@pytest.mark.parametrize("sql", HOSTILE)
def test_a_query_reads_the_files_that_it_names_and_neither_the_token_nor_anything_else(
    sql, stranger, tmp_path, monkeypatch
):
    stranger()
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "link").symlink_to("/proc/self/environ")
    monkeypatch.setenv("FIRMLAKE_API_TOKEN_FILE", str(tmp_path / "token"))
    question = sql.format(folder=tmp_path, name=tmp_path.name, pid=os.getpid()) or " "
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CompanyListError) as caught:
        numbers("", question)
    assert TOKEN not in f"{caught.value} {caught.value.__cause__}"
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
def test_a_query_names_files_by_pattern_in_quotes_of_either_kind_and_from_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    for number, name in (("0403227515", "a.csv"), ("0403091220", "it's b.csv")):
        (tmp_path / "parts" / name).write_text(f"land;kbo\nBE;{number}\n")
    assert sorted(numbers("", "FROM 'parts/*.csv'")) == ["0403091220", "0403227515"]
    assert sorted(numbers("", "FROM read_csv('**/*.csv', union_by_name = true)")) == ["0403091220", "0403227515"]
    assert numbers("", "FROM 'parts/it''s b.csv' -- mine") == ["0403091220"]
    assert numbers("", 'SELECT * FROM "parts/a.csv"') == ["0403227515"]


@pytest.mark.parametrize("source", ["/proc/self/environ", "{}/token", "{}/link", "{}/list.csv"])
def test_neither_the_environment_nor_the_token_is_a_list_and_no_message_repeats_it(source, tmp_path, monkeypatch):
    """The token as a line of a list is a number that names no company."""
    for name in ("token", "list.csv"):
        (tmp_path / name).write_text(TOKEN)
    (tmp_path / "link").symlink_to("token")
    monkeypatch.setenv("FIRMLAKE_API_TOKEN_FILE", str(tmp_path / "token"))
    with pytest.raises(CompanyListError) as caught:
        numbers(source.format(tmp_path), settings=settings_with(header="no"))
    assert TOKEN not in str(caught.value)
