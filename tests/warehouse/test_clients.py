"""Clients of other versions of DuckDB, in environments of their own, read every view and macro of the warehouse."""

from __future__ import annotations

import json
import subprocess
import sys
import venv

import pytest

from firmlake.warehouse.views import definitions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

# Attaches the warehouse under a name of its own and asks for everything. Prints for each question the sorted rows, or
# the error. Floats are cut to ten digits, because versions add them up in another order.
_CLIENT = """
import json, sys
import duckdb

def plain(value):
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return {name: plain(each) for name, each in value.items()} if isinstance(value, dict) else str(value)

connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")  # it would be printed among the answers
connection.execute(f"ATTACH '{sys.argv[1]}' AS fl (READ_ONLY)")
connection.execute("SET search_path = 'memory.main,fl.main'")
answers = {}
for example in json.loads(sys.argv[2]):
    try:
        rows = connection.execute(f"SELECT * FROM {example}").fetchall()
        answers[example] = sorted(json.dumps(plain(row)) for row in rows)
    except duckdb.Error as error:
        answers[example] = str(error)
json.dump(answers, sys.stdout)
"""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    """A warehouse of the made-up world, with the settings as they are by default."""
    data = tmp_path_factory.mktemp("clients") / "data"
    command = [sys.executable, "-m", "firmlake", "demo", "--data", str(data)]
    subprocess.run(command, check=True, capture_output=True)
    return data / "warehouse" / "firmlake.duckdb"


_MORE = (
    "groups(0.25)", "groups(0.3)", "group_branches(0.25)", "group_branches(0.4)", "cagr(1)", "percentiles(2024)",
    "beneficial_owners('sample')", "beneficial_owners('NL33011433')", "sme_status('NL33011433')",
    "exposure('sample', 'company_number')", "holdings_of('FR', '356000000')", "owners_of('NL', '33011433')",
)  # fmt: skip
"""Arguments other than the defaults, which the tables made at load answer, and than examples that give no rows or, for
exposure, name a list that is not there."""


def examples():
    made = [one for one in definitions() if one.kind in ("view", "table", "macro") and one.name != "exposure"]
    asked = [f"fl.{one.example}" if one.kind == "macro" else one.example for one in made]
    return asked + [f"fl.{each}" for each in _MORE]


def ask_all(python, warehouse):
    command = [python, "-c", _CLIENT, warehouse, json.dumps(examples())]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.fixture(scope="module")
def ours(warehouse):
    answers = ask_all(sys.executable, warehouse)
    assert all(isinstance(rows, list) for rows in answers.values())
    assert all(answers[f"fl.{asked}"] for asked in _MORE)
    return answers


@pytest.mark.parametrize("version", ["1.4.2", "1.4.*", "1.5.*"])
def test_clients_of_other_versions_get_the_rows_that_we_get(warehouse, ours, tmp_path, version):
    """By content: DuckDB 1.4 once returned the rows of groups several times, without an error."""
    venv.create(tmp_path / "client", with_pip=True)
    python = tmp_path / "client" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", f"duckdb=={version}"], check=True)
    theirs = ask_all(python, warehouse)
    assert [example for example, rows in ours.items() if theirs[example] != rows] == []
