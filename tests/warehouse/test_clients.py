"""Clients of other versions of DuckDB, in environments of their own, read every view and macro of the warehouse."""

from __future__ import annotations

import json
import subprocess
import sys
import venv

import duckdb
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


_PROFILE = """
house:
  target: dev
  outputs:
    dev:
      type: duckdb
      path: {folder}/dev.duckdb
      attach:
        - {{path: {warehouse}, alias: fl, read_only: true}}
      settings:
        search_path: dev.main,fl.main
"""
_MODEL = """
{{ config(materialized='table') }}
SELECT o.country, o.company_number, overdue_days, head_id
FROM fl.overdue(DATE '2030-01-01') o LEFT JOIN fl.groups(0.5) g ON g.id = o.country || o.company_number
"""


def test_a_model_of_dbt_uses_the_macros_as_the_runbook_says(warehouse, tmp_path):
    venv.create(tmp_path / "client", with_pip=True)
    programs = tmp_path / "client" / "bin"
    install = [programs / "python", "-m", "pip", "install", "-q", "--only-binary", ":all:", "dbt-core", "dbt-duckdb"]
    subprocess.run(install, check=True, capture_output=True)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "late.sql").write_text(_MODEL)
    (tmp_path / "dbt_project.yml").write_text("{name: house, version: '1.0', profile: house, model-paths: [models]}")
    (tmp_path / "profiles.yml").write_text(_PROFILE.format(folder=tmp_path, warehouse=warehouse))
    made = subprocess.run([programs / "dbt", "run"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout
    with duckdb.connect(warehouse, read_only=True) as connection:
        expected = connection.execute("SELECT count(*) FROM overdue(DATE '2030-01-01')").fetchall()
    with duckdb.connect(tmp_path / "dev.duckdb", read_only=True) as connection:
        assert connection.execute("SELECT count(DISTINCT company_number) FROM late").fetchall() == expected
