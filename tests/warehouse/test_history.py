"""History: a row is superseded only by a real answer, once, and stays to be asked for."""

from __future__ import annotations

import duckdb
import pytest

from firmlake.warehouse import versions
from firmlake.warehouse.loads import Load, add_load
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.versions import compare, current_rows, merge, next_number, supersede
from support import ACME, BOLT, NOON

COLUMNS = "country, company_number, direction, position, related_kind, related_name, stake_fraction"
SCOPE = ("country", "company_number")


@pytest.fixture(params=[versions._STRETCH, 1], ids=["at once", "row by row"])
def warehouse(request, monkeypatch):
    """Tables in a transaction; rows are deleted all at once, or in as many stretches as there are rows."""
    monkeypatch.setattr(versions, "_STRETCH", request.param)
    with duckdb.connect() as connection:
        create_tables(connection)
        connection.execute("BEGIN")
        yield connection


def answer(connection, run_id, answers):
    """Supersede relationships: for each company that answered, its parents as (name, stake), in order."""
    rows = [
        (*company, "parent", position, "named_party", name, stake, run_id)
        for company, parents in answers.items()
        for position, (name, stake) in enumerate(parents)
    ]
    connection.execute("CREATE OR REPLACE TEMP TABLE answered (country TEXT, company_number TEXT)")
    connection.executemany("INSERT INTO answered VALUES (?, ?)", [list(company) for company in answers])
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE staged AS SELECT * EXCLUDE (valid_from_run) FROM relationships LIMIT 0"
    )
    for row in rows:
        connection.execute(
            f"INSERT INTO staged ({COLUMNS}, run_id, fetched_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, now()::TIMESTAMP)", row
        )
    number = next_number(connection)
    written = supersede(connection, "relationships", SCOPE, "answered", "staged", number)
    add_load(connection, Load(number, run_id, NOON, NOON), {})
    return written


def current(connection, company=ACME):
    query = "SELECT related_name, stake_fraction::DOUBLE, valid_from_run FROM relationships WHERE company_number = ?"
    return connection.execute(f"{query} ORDER BY position", [company.company_number]).fetchall()


def superseded(connection):
    query = "SELECT related_name, stake_fraction::DOUBLE, valid_from_run, valid_to_run FROM relationships_history"
    return connection.execute(f"{query} ORDER BY ALL").fetchall()


def test_a_first_answer_supersedes_nothing(warehouse):
    assert answer(warehouse, "r1", {ACME: [("A", 0.5), ("B", 0.2)]}) == 2
    assert current(warehouse) == [("A", 0.5, "r1"), ("B", 0.2, "r1")]
    assert superseded(warehouse) == []


def test_only_rows_that_differ_are_closed_and_opened(warehouse):
    answer(warehouse, "r1", {ACME: [("A", 0.5), ("B", 0.2), ("C", 0.1)]})
    assert answer(warehouse, "r2", {ACME: [("A", 0.5), ("B", 0.3), ("C", 0.1)]}) == 1
    assert current(warehouse) == [("A", 0.5, "r1"), ("B", 0.3, "r2"), ("C", 0.1, "r1")]
    assert superseded(warehouse) == [("B", 0.2, "r1", "r2")]


def test_a_row_that_only_moved_keeps_its_start_and_gets_its_new_place(warehouse):
    answer(warehouse, "r1", {ACME: [("A", 0.5), ("B", 0.2)]})
    answer(warehouse, "r2", {ACME: [("N", None), ("B", 0.2), ("A", 0.5)]})
    assert current(warehouse) == [("N", None, "r2"), ("B", 0.2, "r1"), ("A", 0.5, "r1")]
    assert superseded(warehouse) == []


def test_a_row_that_disappears_and_comes_back_is_opened_again(warehouse):
    for run_id, parents in (("r1", [("A", 0.5)]), ("r2", []), ("r3", [("A", 0.5)]), ("r4", [])):
        answer(warehouse, run_id, {ACME: parents})
    assert current(warehouse) == []
    assert superseded(warehouse) == [("A", 0.5, "r1", "r2"), ("A", 0.5, "r3", "r4")]


def test_equal_rows_are_matched_one_to_one(warehouse):
    answer(warehouse, "r1", {ACME: [("A", 0.5), ("A", 0.5), (None, None), (None, None)]})
    answer(warehouse, "r2", {ACME: [("A", 0.5), ("A", 0.5), ("A", 0.5), (None, None)]})
    assert current(warehouse) == [("A", 0.5, "r1"), ("A", 0.5, "r1"), ("A", 0.5, "r2"), (None, None, "r1")]
    assert superseded(warehouse) == [(None, None, "r1", "r2")]


def test_a_company_that_did_not_answer_is_left_alone(warehouse):
    answer(warehouse, "r1", {ACME: [("A", 0.5)], BOLT: [("B", 0.2)]})
    answer(warehouse, "r2", {BOLT: []})
    assert current(warehouse, ACME) == [("A", 0.5, "r1")]
    assert superseded(warehouse) == [("B", 0.2, "r1", "r2")]


# --- rows by key -----------------------------------------------------------------------------------------------------


def name(connection, run_id, names):
    """Merge companies by their names, each fetched by this run."""
    rows = ", ".join(
        f"('{country}', '{number}', {'NULL' if called is None else repr(called)}, NULL, NULL, NULL, '{run_id}')"
        for (country, number), called in names.items()
    )
    given = f"(VALUES {rows}) s(country, company_number, name, place, fetched_at, paid_at, run_id)"
    query = (
        f"SELECT s.*, c AS held FROM {given} LEFT JOIN {current_rows('companies')} c USING (country, company_number)"
    )
    compare(connection, "companies", query)
    number = next_number(connection)
    merge(connection, "companies", number)
    add_load(connection, Load(number, run_id, NOON, NOON), {})


def named(connection):
    return connection.execute("SELECT name, run_id, valid_from_run FROM companies").fetchall()


def test_rows_that_are_the_same_by_key_are_only_brought_up_to_date(warehouse):
    name(warehouse, "r1", {ACME: "Acme", BOLT: None})
    name(warehouse, "r2", {ACME: "Acme", BOLT: None})
    assert set(named(warehouse)) == {("Acme", "r2", "r1"), (None, "r2", "r1")}
    assert warehouse.execute("FROM companies_history").fetchall() == []


def test_rows_that_differ_by_key_take_the_place_of_the_old_and_others_stay(warehouse):
    name(warehouse, "r1", {ACME: "Acme", BOLT: "Bolt"})
    name(warehouse, "r2", {ACME: "Acme N.V."})
    assert set(named(warehouse)) == {("Acme N.V.", "r2", "r2"), ("Bolt", "r1", "r1")}
    closed = warehouse.execute("SELECT name, valid_from_run, valid_to_run FROM companies_history").fetchall()
    assert closed == [("Acme", "r1", "r2")]
