"""An export is loaded by the generated script into a real PostgreSQL server, from Debian's packages, and compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from firmlake.exports.ddl import render_ddl
from firmlake.exports.export import Request, export
from firmlake.exports.selection import EXPORTED_TABLES
from firmlake.exports.targets import Folder
from firmlake.tables.schemas import WAREHOUSE_TABLES
from support import query

pytestmark = pytest.mark.slow

_FOUND = max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), default=None)
_NOBODY = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
"""The server refuses to run as root."""


@pytest.fixture(scope="module")
def psql():
    """A server on a socket of its own; gives what runs a script and returns the lines it prints."""
    if _FOUND is None:
        pytest.skip("apt-get install postgresql")
    programs = _FOUND.parent
    with tempfile.TemporaryDirectory(prefix="firmlake-pg-") as name:  # pytest's own folders let nobody else in
        home = Path(name)
        if _NOBODY:
            shutil.chown(home, "postgres")
        yield from _serve(home, programs)


def _serve(home, programs):
    data = home / "data"

    def server(*command):
        # Not by pipes: the server would keep them open.
        subprocess.run([*_NOBODY, *map(str, command)], check=True, stdout=subprocess.DEVNULL, timeout=60)

    server(programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
    options = f"-k {home} -c listen_addresses='' -c timezone=UTC"
    server(programs / "pg_ctl", "-D", data, "-o", options, "-l", home / "log", "-w", "start")

    def run(script):
        command = [
            str(programs / "psql"),
            "-h",
            str(home),
            "-U",
            "postgres",
            "-qAt",
            "-F",
            "|",
            "-v",
            "ON_ERROR_STOP=1",
        ]
        done = subprocess.run(command, input=script, text=True, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield run
    server(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")


def test_every_value_arrives_and_loading_twice_changes_nothing(lake, tmp_path, psql):
    manifest = export(lake, Request(format="csv"), Folder(tmp_path)).manifest
    script = render_ddl(manifest, str(tmp_path), "postgres")
    for _ in range(2):
        psql(script)
        for name in EXPORTED_TABLES:
            columns = [column for column in WAREHOUSE_TABLES[name].columns if column.type != "score"]
            ours = query(lake, f"SELECT {', '.join(map(_duckdb, columns))} FROM {name}")
            theirs = psql(f"SELECT json_agg(json_build_array({', '.join(map(_postgres, columns))})) FROM {name}")
            assert _rows(theirs) == sorted(ours, key=repr), name


def test_comments_arrive(lake, tmp_path, psql):
    psql(render_ddl(export(lake, Request(format="csv"), Folder(tmp_path)).manifest, str(tmp_path), "postgres"))
    found = psql("SELECT col_description('financials'::regclass, ordinal_position) FROM information_schema.columns "
                 "WHERE table_name = 'financials' AND column_name = 'revenue'")  # fmt: skip
    assert found.startswith("Revenue, in the currency of the accounts")


def _rows(text):
    return sorted((tuple(row) for row in json.loads(text.strip() or "[]")), key=repr)


def _duckdb(column):
    if column.type == "timestamp":
        return f"strftime({column.name}, '%Y-%m-%d %H:%M:%S.%f')"
    return f"{column.name}::VARCHAR"


def _postgres(column):
    name = f'"{column.name}"'
    if column.type == "timestamp":
        return f"to_char({name} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
    return f"{name}::TEXT"
