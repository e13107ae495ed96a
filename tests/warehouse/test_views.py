"""Views and macros: each file makes what it says, every column is described, and every generation has all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import pytest

from firmlake.tables.schemas import TABLES
from firmlake.warehouse.create import create_tables
from firmlake.warehouse.definitions import SEVERITIES, definitions
from firmlake.warehouse.views import create_views, describe_columns

from .figures import Figures

CHECKS = [definition for definition in definitions() if definition.kind == "check"]
MADE = [definition for definition in definitions() if definition.kind in ("table", "view", "macro")]


@pytest.fixture(scope="module")
def empty():
    with duckdb.connect() as connection:
        create_tables(connection)
        create_views(connection)
        yield connection


@pytest.mark.parametrize("definition", MADE, ids=lambda definition: definition.name)
def test_every_column_is_described_and_every_description_has_its_column(empty, definition):
    columns = describe_columns(empty, definition)
    assert [name for name, (_, meaning) in columns.items() if not meaning] == []
    assert set(definition.columns) <= set(columns)


def test_the_database_carries_every_meaning(empty):
    commented = dict(
        empty.execute(
            "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal UNION ALL "
            "SELECT table_name, comment FROM duckdb_tables() UNION ALL "
            "SELECT function_name, comment FROM duckdb_functions() WHERE NOT internal"
        ).fetchall()
    )
    for definition in definitions():
        assert definition.kind == "check" or commented[definition.name] == definition.meaning
    undescribed = "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL"
    assert empty.execute(undescribed).fetchall() == []


def test_money_stays_exact(empty):
    money = {column.name for column in TABLES["financials"].columns if column.type == "money"}
    for definition in MADE:
        shown = {name: kind for name, (kind, _) in describe_columns(empty, definition).items() if name in money}
        assert set(shown.values()) <= {"DECIMAL(18,2)", "DECIMAL(38,2)"}, "as it is, or a sum: " + definition.name


@pytest.fixture(scope="module")
def extremes():
    made = Figures()
    made.files_extremes()
    return made.made()


@pytest.mark.parametrize("definition", [*MADE, *CHECKS], ids=lambda definition: definition.name)
def test_no_figure_that_the_tables_hold_makes_a_view_fail(extremes, definition):
    """One odd company would otherwise take the view away from all others."""
    example = definition.example.replace("'BE', '0403227515'", "'NL', '00000004'").replace("cagr(3)", "cagr(1)")
    extremes.ask(f"SELECT * FROM {f'({definition.sql})' if definition.kind == 'check' else example}")


def test_a_name_is_given_once_and_a_file_is_named_after_what_it_makes():
    names = [definition.name for definition in definitions()]
    assert len(set(names)) == len(names)
    folder = Path(sys.modules[definitions.__module__].__file__ or "").with_name("views")
    assert {path.stem for path in folder.rglob("*.sql")} == set(names) - {"findings", "checks"}
    assert not set(names) & set(TABLES)


def test_every_check_has_a_severity_and_shows_up_in_checks(empty):
    checks = {d.name: d.parameters for d in definitions() if d.kind == "check"}
    assert set(checks.values()) <= set(SEVERITIES)
    assert dict(empty.execute("SELECT check_name, severity FROM checks").fetchall()) == checks


def test_views_are_made_anew_in_a_copy_of_an_older_generation(empty):
    with duckdb.connect() as older:
        create_tables(older)
        older.execute("CREATE VIEW trend AS SELECT 1 AS outdated")
        older.execute("CREATE TABLE ownership (outdated INTEGER)")
        older.execute("CREATE VIEW unit_errors AS SELECT 1 AS a_table_today")
        older.execute("CREATE TABLE quality (a_view_today INTEGER)")
        create_views(older)
        names = "SELECT table_name, column_name, comment FROM duckdb_columns() ORDER BY ALL"
        assert older.execute(names).fetchall() == empty.execute(names).fetchall()
