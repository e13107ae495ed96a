"""What a generation was made from is written in it, so that the next one makes only what differs."""

from __future__ import annotations

import duckdb
import pytest

from firmlake.warehouse import definitions, views
from firmlake.warehouse.create import create_tables
from firmlake.warehouse.marks import Mark
from firmlake.warehouse.views import VIEWS_MARK, create_views


@pytest.fixture
def made():
    with duckdb.connect() as connection:
        create_tables(connection)
        create_views(connection)
        yield connection


def views_of(connection):
    query = "SELECT view_name, view_oid, comment FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
    return {name: (oid, comment) for name, oid, comment in connection.execute(query).fetchall()}


def test_equal_definitions_have_equal_marks_and_others_do_not(made):
    mark = Mark("own", lambda: (1, {"a": "b"}))
    assert not mark.is_set(made)
    mark.set(made)
    assert mark.is_set(made)
    assert not Mark("own", lambda: (1, {"a": "c"})).is_set(made)
    mark.remove(made)
    assert not mark.is_set(made)


@pytest.mark.slow
def test_asking_for_a_mark_leaves_a_transaction_as_it_is(made):
    made.execute("BEGIN")
    assert not Mark("nowhere", lambda: ()).is_set(made)
    made.execute("CREATE TABLE goes_on AS SELECT 1 AS a")
    made.execute("COMMIT")


def test_views_are_made_once_and_what_is_computed_at_load_every_time(made):
    before = views_of(made)
    row = {
        "country": "BE", "company_number": "0403227515", "direction": "parent", "position": 0,
        "related_kind": "company", "related_country": "NL", "related_company_number": "24202194",
        "function": "SHAREHOLDER", "stake_fraction": "0.5", "fetched_at": "2026-01-05",
        "run_id": "r", "valid_from_run": "r",
    }  # fmt: skip
    selected = ", ".join(f"'{value}' AS \"{name}\"" for name, value in row.items())
    made.execute(f"INSERT INTO relationships BY NAME SELECT {selected}")
    create_views(made)
    assert views_of(made) == before
    assert made.execute("SELECT count(*) FROM ownership").fetchall() == [(1,)]


def test_a_changed_definition_makes_every_view_again(made, monkeypatch):
    before = views_of(made)
    trend = next(one for one in definitions.definitions() if one.name == "trend")
    others = tuple(
        trend._replace(meaning="Another meaning.") if one is trend else one for one in definitions.definitions()
    )
    monkeypatch.setattr(views, "definitions", lambda: others)
    monkeypatch.setattr(views, "VIEWS_MARK", Mark("views_hash", lambda: others))
    create_views(made)
    assert views_of(made)["trend"][1] == "Another meaning."
    assert not {oid for oid, _ in before.values()} & {oid for oid, _ in views_of(made).values()}


@pytest.mark.slow
def test_what_widens_a_column_has_the_views_made_again(made):
    made.execute("ALTER TABLE financials ALTER employee_count TYPE DECIMAL(18, 6)")
    VIEWS_MARK.remove(made)
    create_views(made)
    assert made.execute("SELECT employee_count FROM latest_accounts").fetchall() == []
