"""Clients of other versions of DuckDB, in environments of their own, read every view and macro of the warehouse."""

from __future__ import annotations

import json
import subprocess
import sys
import venv

import pytest

from firmlake.warehouse.macros import MACROS
from firmlake.warehouse.views import definitions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

# Attaches the warehouse under a name of its own and asks for everything; says what it could not read.
_CLIENT = """
import json, sys
import duckdb

connection = duckdb.connect()
connection.execute(f"ATTACH '{sys.argv[1]}' AS fl (READ_ONLY)")
connection.execute("SET search_path = 'memory.main,fl.main'")
failed = {}
for example in json.loads(sys.argv[2]):
    try:
        connection.execute(f"SELECT * FROM {example}").fetchall()
    except duckdb.Error as error:
        failed[example] = str(error)
print(json.dumps(failed))
"""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    """A warehouse of the made-up world, with the settings as they are by default."""
    data = tmp_path_factory.mktemp("clients") / "data"
    command = [sys.executable, "-m", "firmlake", "demo", "--data", str(data)]
    subprocess.run(command, check=True, capture_output=True)
    return data / "warehouse" / "firmlake.duckdb"


def examples(warehouse):
    made = [one for one in definitions() if one.kind in ("view", "table", "macro")]
    dated = [f"{macro.name}(DATE '2030-01-01')" for macro in MACROS if macro.kind == "MACRO TABLE"]
    return [f"fl.{one.example}" if one.kind == "macro" else one.example for one in made] + dated


@pytest.mark.parametrize("version", ["1.4.2", "1.4.*", "1.5.*", "2.0.*"])
def test_an_attached_warehouse_answers_everything(warehouse, tmp_path, version):
    venv.create(tmp_path / "client", with_pip=True)
    python = tmp_path / "client" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", f"duckdb=={version}"], check=True)
    asked = json.dumps(examples(warehouse))
    answer = subprocess.run([python, "-c", _CLIENT, warehouse, asked], check=True, capture_output=True, text=True)
    assert json.loads(answer.stdout) == {}
