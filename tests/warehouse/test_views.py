"""Tables, views and macros: every column has its type and description, and every generation has all of them."""

from __future__ import annotations

import re
import sys
from decimal import ROUND_HALF_UP, Decimal
from itertools import product
from pathlib import Path

import duckdb
import pytest

from firmlake.core.errors import FirmlakeError
from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES, duckdb_type
from firmlake.warehouse import views
from firmlake.warehouse.changes import KINDS
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.versions import VALIDITY, versions_of
from firmlake.warehouse.views import (
    SEVERITIES,
    create_view,
    create_views,
    definitions,
    describe_columns,
    outdate_views,
)
from support import ACME, publish_list, with_views

from .figures import Figures

CHECKS = [definition for definition in definitions() if definition.kind == "check"]
MADE = [definition for definition in definitions() if definition.kind in ("table", "view", "macro")]
COMPANY = "'BE', '0403227515'"
"""The company in the examples of macros about one."""


@pytest.fixture(scope="module")
def world():
    with duckdb.connect() as connection:
        create_tables(connection)
        create_views(connection)
        yield connection


def comments_of(connection):
    return dict(
        connection.execute(
            "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal UNION ALL "
            "SELECT table_name, comment FROM duckdb_tables() UNION ALL "
            "SELECT function_name, comment FROM duckdb_functions() WHERE NOT internal"
        ).fetchall()
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def test_every_table_and_column_is_described_as_in_the_dictionary_and_has_its_type(world):
    comments = comments_of(world)
    query = "SELECT table_name, column_name, comment, data_type, is_nullable FROM duckdb_columns() WHERE NOT internal"
    columns = {(table, name): rest for table, name, *rest in world.execute(query).fetchall()}
    for name, table in WAREHOUSE_TABLES.items():
        assert comments[name].startswith(table.meaning)
        assert all(column in comments[name] for column in table.key)
        of_table = {column: rest[:2] for (other, column), rest in columns.items() if other == name}
        assert of_table == {column.name: [column.comment, duckdb_type(column)] for column in table.columns}
    for table in TABLES.values():  # what is stored is not null where null says nothing
        stored = table.columns if table.volatile is None else (*table.columns, *VALIDITY)
        of_table = {column: rest[1:] for (name, column), rest in columns.items() if name == versions_of(table.name)}
        assert of_table == {column.name: [duckdb_type(column), bool(column.null)] for column in stored}


@pytest.mark.parametrize(("version", "words"), [(1, "an earlier version"), (99, "a later version")])
def test_a_warehouse_of_another_version_is_refused_whole(version, words):
    with duckdb.connect() as connection:
        create_tables(connection, with_comments=False)
        connection.execute(
            "INSERT INTO loads BY NAME SELECT 1 AS generation, 'r' AS run_id, now()::TIMESTAMP AS published_at, "
            "now()::TIMESTAMP AS loaded_at, 0 AS changed_company_count, '{}' AS row_counts, ? AS schema_version",
            [version],
        )
        with pytest.raises(FirmlakeError, match=words) as caught:
            create_tables(connection)
    assert "replay" in caught.value.next_step


def test_the_schema_names_every_kind_of_change():
    comment = next(column.meaning for column in TABLES["company_changes"].columns if column.name == "kind")
    assert re.sub(r" \([^)]*\)", "", comment).replace(" or ", ", ").split(", ") == list(KINDS)


# --- views and macros -------------------------------------------------------------------------------------------------


def test_a_name_is_given_once_and_a_file_is_named_after_what_it_makes():
    names = [definition.name for definition in definitions()]
    assert len(set(names)) == len(names)
    folder = Path(sys.modules[definitions.__module__].__file__ or "").with_name("views")
    past = {f"{name}_as_of" for name in TABLES if TABLES[name].volatile is not None}
    assert {path.stem for path in folder.rglob("*.sql")} == set(names) - past
    assert not set(names) & set(TABLES)


def test_no_view_says_if_as_a_function():
    """DuckDB 2.0 stores it as a call that DuckDB 1.x does not know; test_clients.py asks such clients."""
    assert [one.name for one in definitions() if re.search(r"\bif\(", one.sql)] == []


def test_every_column_is_described_once_in_its_file_or_alike_in_all_that_it_reads(world):
    described = describe_columns(world, MADE)
    meanings = {
        name: {column.name: column.comment_in_view for column in table.columns}
        for name, table in WAREHOUSE_TABLES.items()
    }
    meanings |= {name: {column: text for column, (_, text) in columns.items()} for name, columns in described.items()}
    for definition in MADE:
        columns = meanings[definition.name]
        assert [name for name, text in columns.items() if not text] == [], definition.name
        assert set(definition.columns) <= set(columns), definition.name
        for column in columns.keys() - definition.columns.keys():
            read = {meanings[name][column] for name in definition.reads if column in meanings.get(name, ())}
            assert len(read) == 1, f"{definition.name}.{column}"


def test_the_database_carries_every_meaning(world):
    comments = comments_of(world)
    meanings = {one.name: one.meaning for one in definitions() if one.kind != "check"}
    assert {name: comments[name] for name in meanings} == meanings
    undescribed = "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL"
    assert world.execute(undescribed).fetchall() == []


def test_every_check_has_a_severity_and_shows_up_in_checks(world):
    checks = {check.name: check.parameters for check in CHECKS}
    assert set(checks.values()) <= set(SEVERITIES)
    assert dict(world.execute("SELECT check_name, severity FROM checks").fetchall()) == checks


def test_money_stays_exact(world):
    """It is as it was stated, or a sum."""
    money = {column.name for column in TABLES["financials"].columns if column.type == "money"}
    for name, columns in describe_columns(world, MADE).items():
        kinds = {kind for column, (kind, _) in columns.items() if column in money}
        assert kinds <= {"DECIMAL(18,2)", "DECIMAL(38,2)"}, name


@pytest.mark.slow
def test_no_figure_that_the_tables_hold_makes_a_view_fail():
    """One odd company would otherwise take the view away from all others."""
    made = Figures()
    made.files_extremes()
    made.list_of("customers", (1, "10"))
    made.made()
    for definition in (*MADE, *CHECKS):
        example = definition.example.replace(COMPANY, "'NL', '00000004'").replace("cagr(3)", "cagr(1)")
        made.ask(f"SELECT * FROM {f'({definition.sql})' if definition.kind == 'check' else example}")


@pytest.mark.slow
def test_a_column_is_null_only_where_its_meaning_says_what_null_means():
    """Of some companies nothing is known that need not be, and of some everything is."""
    made = Figures()
    for company in (1, 2, 3, 4):
        for year in (2022, 2023, 2024):
            made.files(company, f"{year}-12-31", f"{year}-01-01")
    made.files(5, revenue=1)
    made.add("companies", 6)
    made.owners((1, 2, 0.6), (2, 3, 0.6), (3, 1, 0.6), (4, 5, 0.4), (4, 9, 0.6), (5, 4, 0.6))
    for direction in ("parent", "child"):
        for stake in (None, 0.7):
            made.party(4, direction, "A person", stake, "SHAREHOLDER")
    made.add("lookalikes", 1, rank=1, lookalike_country="NL", lookalike_company_number="00000009")
    made.add("company_state", 1, dataset="financials", status="empty", record_count=0, reject_count=0, payload_hash="")
    made.loads(1, "r")
    made.list_of("customers", (1, "10"))
    connection = made.made().connection
    described = describe_columns(connection, MADE)
    for definition in MADE:
        unsaid = {name for name, (_, meaning) in described[definition.name].items() if "null" not in meaning.lower()}
        for company in (1, 4, 5, 6) if COMPANY in definition.example else (1,):
            example = definition.example.replace(COMPANY, f"'NL', '{company:08}'").replace("cagr(3)", "cagr(1)")
            rows = connection.sql(f"SELECT * FROM {example}").pl()
            assert [name for name in unsaid if rows[name].null_count()] == [], definition.name


# --- making them ------------------------------------------------------------------------------------------------------


@pytest.fixture
def made():
    return Figures().connection


@pytest.mark.slow
def test_views_are_made_anew_in_a_copy_of_an_older_generation(world):
    with duckdb.connect() as older:
        create_tables(older)
        older.execute("CREATE VIEW trend AS SELECT 1 AS outdated")
        older.execute("CREATE TABLE ownership (outdated INTEGER)")
        create_views(older)
        names = "SELECT table_name, column_name, comment FROM duckdb_columns() ORDER BY ALL"
        assert older.execute(names).fetchall() == world.execute(names).fetchall()


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


@pytest.mark.slow
def test_a_list_that_is_loaded_leaves_the_descriptions_of_the_others(folders):
    for day, name in enumerate(("customers", "others", "others")):
        publish_list(folders, [ACME], day=day, name=name)
        with_views(folders)
    with open_warehouse(folders) as connection:
        comments = comments_of(connection)
        undescribed = "FROM duckdb_columns() WHERE schema_name = 'lists' AND comment IS NULL"
        assert connection.execute(undescribed).fetchall() == []
    assert comments["customers"].startswith("One row per line of the list customers (list.csv)")
    meanings = {one.name: one.meaning for one in definitions() if one.kind != "check"}
    assert {name: comments[name] for name in meanings} == meanings


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


# --- memory ---------------------------------------------------------------------------------------------------------

MANY = 300_000

_OWNERS = """
    CREATE TABLE ownership AS
    SELECT *, 'SHAREHOLDER' AS "function", parent_id AS parent_name, child_id AS child_name, 'BE' AS child_country,
           child_id AS child_company_number, if(parent_id LIKE '%/p/%', NULL, 'BE') AS parent_country,
           if(parent_id LIKE '%/p/%', NULL, parent_id) AS parent_company_number,
           if(parent_id LIKE '%/p/%', 'named_party', 'company') AS parent_kind
    FROM (
        SELECT if(i % 2 = 0, (hash(i) % {companies})::VARCHAR, i || '/p/A person') AS parent_id,
               i::VARCHAR AS child_id, 0.6 AS stake_fraction
        FROM range({companies}) made(i)
        UNION ALL
        SELECT (hash(i, 2) % {companies})::VARCHAR, i::VARCHAR, 0.5 FROM range(0, {companies}, 5) made(i)
    )
"""


@pytest.mark.slow
def test_groups_of_all_companies_are_made_in_steps_that_fit_into_memory(tmp_path):
    """As one statement, `branches_at_half` would need twice that: DuckDB cannot spill what a recursion found."""
    needed = {"share_asked", "parties", "shareholdings", "branches_at_half"}
    with duckdb.connect(tmp_path / "w.duckdb", config={"memory_limit": "50MB", "threads": 1}) as connection:
        connection.execute(_OWNERS.format(companies=MANY))
        connection.execute("CHECKPOINT")
        for definition in definitions():
            if definition.name in needed:
                create_view(connection, definition)
        made = connection.execute("SELECT count(id), count(DISTINCT id) FROM branches_at_half").fetchone()
    assert made is not None
    assert made[0] == made[1] > MANY


def test_a_part_of_an_amount_is_exact_to_the_cent_whatever_its_size(world):
    """Half a cent goes away from zero; small and large amounts are computed in integers of different width."""
    whole = [Decimal(text) for text in ("0.01", "0.05", "99999999999.99", "100000000000.00", "9999999999999999.99")]
    amounts = [sign * amount for amount in whole for sign in (1, -1)]
    shares = product(amounts, ((1, 2), (31, 365), (184, 366), (365, 730), (9_999, 20_000)))
    asked = [(amount, days, period) for amount, (days, period) in shares]
    expected = [(amount * days / period).quantize(Decimal("0.01"), ROUND_HALF_UP) for amount, days, period in asked]
    rows = ", ".join(f"({amount}::DECIMAL(18, 2), {days}, {period})" for amount, days, period in asked)
    found = world.execute(f"SELECT part_of_period(amount, days, period) FROM (VALUES {rows}) t(amount, days, period)")
    assert [value for (value,) in found.fetchall()] == expected
