"""What a load writes into a DuckDB file holds names of persons, so nobody else may read it unless the file says so."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from firmlake.core.errors import FirmlakeError
from firmlake.delivery.drivers import open_database


@pytest.mark.parametrize("mode", [None, 0o600, 0o640])
@pytest.mark.parametrize("is_rewritten", [False, True])
def test_files_of_a_load_are_as_private_as_the_database_and_a_new_one_is_its_owners_alone(tmp_path, mode, is_rewritten):
    path = tmp_path / "out.duckdb"
    before = os.umask(0o022)
    try:
        if mode:
            with open_database(f"duckdb:{path}", "main", "100MB"):
                pass
            path.chmod(mode)
        with open_database(f"duckdb:{path}", "main", "100MB") as opened:
            opened.run("CREATE TABLE t AS SELECT 1 AS n")
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
            opened.is_to_rewrite = is_rewritten
        assert modes == dict.fromkeys(("out.duckdb", "out.duckdb.wal"), mode or 0o600)
        assert {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {
            "out.duckdb": mode or 0o600
        }
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["list.csv", "list.json", "list.txt", ":memory:"])
def test_a_target_that_is_no_database_is_refused_since_a_load_into_it_would_be_lost(tmp_path, name):
    """DuckDB opens a data file as a view in a database in memory."""
    path = Path(name) if name == ":memory:" else tmp_path / name
    if name != ":memory:":
        path.write_text('[{"a": 1}]\n' if name.endswith("json") else "a,b\n1,2\n")
    refused = pytest.raises(FirmlakeError, match=r"not a .*DuckDB database.*Name another file")
    with refused, open_database(f"duckdb:{path}", "main", "100MB"):
        pass


def test_a_database_of_another_kind_is_refused_without_a_download(tmp_path):
    """DuckDB would fetch an extension that opens it."""
    path = tmp_path / "list.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    with (
        pytest.raises(FirmlakeError, match="Name another file") as caught,
        open_database(f"duckdb:{path}", "main", "100MB"),
    ):
        pass
    assert "download" not in str(caught.value)


def test_a_file_that_this_process_reads_is_refused(tmp_path):
    """Such as the warehouse itself."""
    path = tmp_path / "warehouse.duckdb"
    duckdb.connect(str(path)).close()
    refused = pytest.raises(FirmlakeError, match="cannot be opened")
    with duckdb.connect(str(path), read_only=True), refused, open_database(f"duckdb:{path}", "main", "100MB"):
        pass
