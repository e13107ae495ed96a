"""Views and macros: each file makes what it says, every column is described, and every generation has all of them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import duckdb
import pytest

from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES
from firmlake.warehouse import views
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.views import SEVERITIES, create_views, definitions, describe_columns, outdate_views

from .figures import Figures

CHECKS = [definition for definition in definitions() if definition.kind == "check"]
MADE = [definition for definition in definitions() if definition.kind in ("table", "view", "macro")]


@pytest.fixture(scope="module")
def empty():
    with duckdb.connect() as connection:
        create_tables(connection)
        create_views(connection)
        yield connection


@pytest.fixture(scope="module")
def described(empty):
    return describe_columns(empty, MADE)


def test_no_view_says_if_as_a_function():
    """DuckDB 2.0 stores it as a call that DuckDB 1.x does not know; test_clients.py asks such clients."""
    assert [one.name for one in definitions() if re.search(r"\bif\(", one.sql)] == []


@pytest.mark.parametrize("definition", MADE, ids=lambda definition: definition.name)
def test_every_column_is_described_and_every_description_has_its_column(described, definition):
    columns = described[definition.name]
    assert [name for name, (_, meaning) in columns.items() if not meaning] == []
    assert set(definition.columns) <= set(columns)


@pytest.mark.parametrize("definition", MADE, ids=lambda definition: definition.name)
def test_a_column_that_its_sources_describe_differently_is_described_in_the_file(described, definition):
    made = {name: columns for name, columns in described.items() if name in definition.reads}
    read = [{column: meaning for column, (_, meaning) in columns.items()} for columns in made.values()]
    tables = [WAREHOUSE_TABLES[name] for name in definition.reads if name in WAREHOUSE_TABLES]
    read += [{column.name: column.comment_in_view for column in table.columns} for table in tables]
    for column in described[definition.name].keys() - definition.columns.keys():
        assert len({meanings[column] for meanings in read if column in meanings}) == 1, column


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
        columns = describe_columns(empty, [definition])[definition.name]
        assert {kind for name, (kind, _) in columns.items() if name in money} <= {"DECIMAL(18,2)", "DECIMAL(38,2)"}, (
            "as it is, or a sum: " + definition.name
        )


@pytest.fixture(scope="module")
def extremes():
    made = Figures()
    made.files_extremes()
    made.list_of("customers", (1, "10"))
    return made.made()


@pytest.mark.parametrize("definition", [*MADE, *CHECKS], ids=lambda definition: definition.name)
def test_no_figure_that_the_tables_hold_makes_a_view_fail(extremes, definition):
    """One odd company would otherwise take the view away from all others."""
    example = definition.example.replace("'BE', '0403227515'", "'NL', '00000004'").replace("cagr(3)", "cagr(1)")
    extremes.ask(f"SELECT * FROM {f'({definition.sql})' if definition.kind == 'check' else example}")


@pytest.fixture(scope="module")
def sparse():
    """Companies of which nothing is known that need not be, and some of whom everything is."""
    made = Figures()
    for company in (1, 2, 3, 4):
        for year in (2022, 2023, 2024):
            made.files(company, f"{year}-12-31", f"{year}-01-01")
    made.files(5, revenue=1)
    made.add("companies", 6)
    stakes = [(1, 2, 0.6), (2, 3, 0.6), (3, 1, 0.6), (4, 5, 0.4), (4, 9, 0.6), (5, 4, 0.6)]
    made.owners(*stakes)
    for direction in ("parent", "child"):
        for stake in (None, 0.7):
            made.party(4, direction, "A person", stake, "SHAREHOLDER")
    made.add("lookalikes", 1, rank=1, lookalike_country="NL", lookalike_company_number="00000009")
    made.add("company_state", 1, dataset="financials", status="empty", record_count=0, reject_count=0, payload_hash="")
    made.loads(1, "r")
    made.list_of("customers", (1, "10"))
    return made.made()


@pytest.mark.parametrize("definition", MADE, ids=lambda definition: definition.name)
def test_a_column_is_null_only_where_its_meaning_says_what_null_means(sparse, definition):
    unsaid = {
        name for name, (_, meaning) in describe_columns(sparse.connection, [definition])[definition.name].items()
        if "null" not in meaning.lower()
    }  # fmt: skip
    for company in range(1, 7):
        example = definition.example.replace("'BE', '0403227515'", f"'NL', '{company:08}'")
        example = example.replace("cagr(3)", "cagr(1)")
        rows = sparse.connection.sql(f"SELECT * FROM {example}").pl()
        assert [name for name in unsaid if rows[name].null_count()] == []


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
        create_views(older)
        names = "SELECT table_name, column_name, comment FROM duckdb_columns() ORDER BY ALL"
        assert older.execute(names).fetchall() == empty.execute(names).fetchall()


@pytest.fixture
def made():
    with duckdb.connect() as connection:
        create_tables(connection)
        create_views(connection)
        yield connection


def _views_of(connection):
    query = "SELECT view_name, view_oid, comment FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
    found = connection.execute(query).fetchall()
    return {name: (oid, comment) for name, oid, comment in found if name not in WAREHOUSE_TABLES}


def test_views_are_made_once_and_what_is_computed_at_load_every_time(made):
    before = _views_of(made)
    row = {
        "country": "BE", "company_number": "0403227515", "direction": "parent", "position": 0,
        "related_kind": "company", "related_country": "NL", "related_company_number": "24202194",
        "function": "SHAREHOLDER", "stake_fraction": "0.5", "fetched_at": "2026-01-05",
        "run_id": "r", "valid_from": 1,
    }  # fmt: skip
    selected = ", ".join(f"'{value}' AS \"{name}\"" for name, value in row.items())
    made.execute(f"INSERT INTO relationships_versions BY NAME SELECT {selected}")
    made.execute(
        "INSERT INTO companies_versions BY NAME "
        "SELECT country, company_number, 'A' AS name, fetched_at, run_id, valid_from FROM relationships_versions"
    )
    create_views(made)
    assert _views_of(made) == before
    assert made.execute("SELECT count(*) FROM ownership").fetchall() == [(1,)]


def test_a_changed_definition_makes_every_view_again(made, monkeypatch):
    before = _views_of(made)
    trend = next(one for one in definitions() if one.name == "trend")
    others = tuple(trend._replace(meaning="Another meaning.") if one is trend else one for one in definitions())
    monkeypatch.setattr(views, "definitions", lambda: others)
    create_views(made)
    assert _views_of(made)["trend"][1] == "Another meaning."
    assert not {oid for oid, _ in before.values()} & {oid for oid, _ in _views_of(made).values()}


@pytest.mark.slow
def test_what_widens_a_column_has_the_views_made_again(made):
    made.execute("ALTER TABLE financials_versions ALTER employee_count TYPE DECIMAL(18, 6)")
    outdate_views(made)
    create_views(made)
    assert made.execute("SELECT employee_count FROM latest_accounts").fetchall() == []
