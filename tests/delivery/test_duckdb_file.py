"""What a load writes into a DuckDB file holds names of persons, so nobody else may read it unless the file says so."""

from __future__ import annotations

import os
import stat

import pytest

from firmlake.delivery.duckdb_file import open_duckdb


@pytest.mark.parametrize("mode", [None, 0o600, 0o640])
@pytest.mark.parametrize("is_rewritten", [False, True])
def test_files_of_a_load_are_as_private_as_the_database_and_a_new_one_is_its_owners_alone(tmp_path, mode, is_rewritten):
    path = tmp_path / "out.duckdb"
    before = os.umask(0o022)
    try:
        if mode:
            with open_duckdb(path, "main", "100MB"):
                pass
            path.chmod(mode)
        with open_duckdb(path, "main", "100MB") as opened:
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
