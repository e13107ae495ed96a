"""SQL of somebody else reaches the warehouse and nothing beside it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import firmlake
from firmlake.cli import firmlake as command_line
from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.warehouse.generations import ask, kept_open, open_warehouse, publish

SECRET = "the token of a neighbour"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a warehouse and what is beside it, to which nothing may be added."""
    folder = tmp_path_factory.mktemp("locked")
    folders = Folders(folder / "data")
    publish(folders, lambda c, _: c.execute("CREATE TABLE t AS SELECT 1 AS value"), memory_limit="100MB", keep=2)
    (folder / "token").write_text(SECRET)
    duckdb.connect(folder / "other.duckdb").close()
    return folder


@pytest.fixture
def lake(world: Path) -> Folders:
    return Folders(world / "data")


REACHING = [
    "SELECT content FROM read_text('{}/token')",
    "SELECT content FROM read_blob('{}/token')",
    "SELECT * FROM read_csv('{}/token')",
    "SELECT * FROM sniff_csv('{}/token')",
    "SELECT * FROM '{}/token.csv'",
    "SELECT * FROM glob('{}/*')",
    "COPY t TO '{}/made.csv'",
    "COPY (SELECT 1) TO '{}/made.parquet'",
    "PREPARE p AS COPY t TO '{}/made.csv'",
    "EXPORT DATABASE '{}/made'",
    "IMPORT DATABASE '{}/made'",
    "ATTACH '{}/other.duckdb'",
    "ATTACH '{}/made.duckdb'",
    "CREATE TEMP TABLE x AS FROM read_text('{}/token')",
    "SELECT * FROM query('FROM read_text(''{}/token'')')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT content FROM read_text(''{}/token'')'))",
    "SELECT 1; SELECT content FROM read_text('{}/token')",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "SET GLOBAL lock_configuration = false",
    "SET temp_directory = '{}/made'",
    "PRAGMA profiling_output = '{}/made'",
    "CALL enable_logging(storage = 'file', storage_path = '{}/made')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT getenv('HOME')",
    "SELECT * FROM variable_of_python",
]


@pytest.mark.parametrize("sql", REACHING)
def test_a_question_reaches_no_file_no_setting_and_no_variable(sql, lake, world):
    variable_of_python = duckdb.sql("SELECT 1")  # noqa: F841 - DuckDB finds it by its name
    before = sorted(world.rglob("*"))
    with kept_open(lake):
        with pytest.raises(UsageError) as caught:
            ask(lake, sql.format(world))
        assert SECRET not in str(caught.value)
        with open_warehouse(lake, locked=True) as connection, pytest.raises(duckdb.Error):
            connection.execute(sql.format(world)).fetchall()
    assert sorted(world.rglob("*")) == before


@pytest.mark.slow
def test_what_is_asked_of_the_warehouse_is_answered_also_when_it_needs_room_on_the_disk(lake):
    large = "SELECT count(*) FROM (SELECT i, hash(i) h FROM range(4000000) r(i) ORDER BY h LIMIT 3000000)"
    with open_warehouse(lake, locked=True, memory_limit="40MB") as connection:
        assert connection.execute(large).fetchall() == [(3_000_000,)]
    assert ask(lake, "CREATE TEMP TABLE x AS FROM t; SELECT value FROM x") == (["value"], [(1,)])


def test_a_person_may_allow_files(lake, world, capsys, monkeypatch):
    monkeypatch.setenv("FIRMLAKE_PATHS__DATA", str(lake.data))
    sql = f"SELECT content FROM read_text('{world}/token')"
    assert command_line.main(["query", sql], standalone_mode=False) == 2
    told = capsys.readouterr()
    assert "--allow-files" in told.err
    assert SECRET not in told.out + told.err
    assert command_line.main(["query", "--allow-files", sql], standalone_mode=False) == 0
    assert SECRET in capsys.readouterr().out


def test_a_generation_stays_locked_while_a_locked_connection_is_open_and_is_free_afterwards(lake, world):
    reading = f"SELECT content FROM read_text('{world}/token')"
    with firmlake.open_warehouse(lake.data, locked=True):
        with firmlake.open_warehouse(lake.data) as other, pytest.raises(duckdb.PermissionException):
            other.execute(reading)
        with open_warehouse(lake, locked=True, memory_limit="50MB") as other:
            assert other.execute("SELECT value FROM t").fetchall() == [(1,)]
    with firmlake.open_warehouse(lake.data) as free:
        assert free.execute(reading).fetchall() == [(SECRET,)]
