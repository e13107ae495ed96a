"""Macros: the past as it was known, and nothing that was known later."""

from __future__ import annotations

import shutil
from datetime import date, timedelta

import duckdb
import pytest

from firmlake.core.folders import Folders
from firmlake.core.rule import AlertRule
from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.versions import MACROS, as_of_columns, create_macros
from support import (
    ACME,
    BOLT,
    DATASETS,
    DAY,
    MINUTE,
    NOON,
    answer,
    edit_warehouse,
    found,
    land,
    lookalike,
    make_run,
    not_found,
    party,
    period,
    publish_landed,
    query,
    slow,
)

HISTORIED = [name for name, table in TABLES.items() if table.volatile is not None and "country" in table.key]
ALONE = AlertRule(
    name="alone", says="", severity="low", view="watched_figures",
    when={"equity": "is not null", "equity_before": "is null"},
)  # fmt: skip
WEEK = 7 * DAY
RUNS = [f"2026010{5 + week}T120000Z-000{week}" for week in range(5)]


def fetch(folders, week, elements, *, at=None, datasets=DATASETS):
    """A run in which each company answers: {company: {dataset: records}}, or None where it is not found."""
    at = at or NOON + week * WEEK
    run = make_run(folders, list(elements), datasets, run_id=RUNS[week], at=at, alert_rules=(ALONE,))
    for dataset in datasets:
        answers = [
            not_found(company, dataset) if records is None else found(company, dataset, *records.get(dataset, []))
            for company, records in elements.items()
        ]
        land(run, answer(dataset, *answers, at=at, offset=0))
    publish_landed(run, at=at + MINUTE)


@pytest.fixture(scope="module")
def weeks(tmp_path_factory):
    """Four weeks, and what the tables held after each: new accounts, a restatement, a removal, and a way back."""
    folders = Folders(tmp_path_factory.mktemp("weeks"))
    first, restated = period(2023), period(2023, profitability__revenue=5, dateReceived="2026-01-15")
    stories = [
        {ACME: {"financials": [first], "lookalikes": [lookalike(BOLT, 0.9)], "relationships": [party(BOLT)]}, BOLT: {}},
        {
            ACME: {"financials": [period(2024), first], "relationships": [party(None, name="New"), party(BOLT)]},
            BOLT: {},
        },
        {ACME: {"financials": [period(2024), restated], "lookalikes": [lookalike(BOLT, 0.8)]}, BOLT: None},
        {ACME: {"financials": [restated], "relationships": [party(BOLT)]}, BOLT: {"financials": [period(2022)]}},
    ]
    held = []
    for week, story in enumerate(stories):
        fetch(folders, week, story)
        held.append({name: query(folders, f"SELECT {_columns(name)} FROM {name} ORDER BY ALL") for name in HISTORIED})
    return folders, held


def _columns(name):
    return ", ".join((*as_of_columns(TABLES[name]), "valid_from_run"))


# --- as of -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", HISTORIED)
def test_as_of_a_run_gives_what_the_table_held_after_it(weeks, table):
    folders, held = weeks
    for week, tables in enumerate(held):
        assert query(folders, f"FROM {table}_as_of('{RUNS[week]}') ORDER BY ALL") == tables[table]
    assert len({str(tables[table]) for tables in held}) > 1 or table == "companies", "or time would make no difference"


def test_as_of_a_time_gives_what_the_last_run_before_it_left(weeks):
    folders, held = weeks
    for week, tables in enumerate(held):
        ended = (NOON + week * WEEK + MINUTE).replace(tzinfo=None)
        for moment in (ended, ended + 6 * DAY):
            rows = query(folders, f"FROM financials_as_of(TIMESTAMP '{moment}') ORDER BY ALL")
            assert rows == tables["financials"]
    assert query(folders, "FROM financials_as_of(DATE '2026-01-05')") == []
    assert query(folders, "FROM financials_as_of(now()) ORDER BY ALL") == held[-1]["financials"]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Brussels"])
@pytest.mark.parametrize(
    "spelt", ["'{0}+01'", "'{0}+01:00'", "'{0} +01:00'", "TIMESTAMPTZ '{0}+01'", "'{0} Europe/Brussels'", "'{0} CET'"]
)
def test_a_time_with_an_offset_is_the_moment_it_names(weeks, zone, spelt):
    folders, held = weeks
    ended = (NOON + MINUTE + timedelta(hours=1)).replace(tzinfo=None)
    with open_warehouse(folders) as connection:
        connection.execute(f"SET TimeZone = '{zone}'")
        for moment, expected in ((ended, held[0]["financials"]), (ended - MINUTE, [])):
            rows = connection.execute(f"FROM financials_as_of({spelt.format(moment)}) ORDER BY ALL").fetchall()
            assert rows == expected


def test_an_unknown_run_is_an_error_not_an_empty_table(weeks):
    folders, _ = weeks
    with pytest.raises(duckdb.Error, match=r"ffff is neither a run .+ Use a run_id"):
        query(folders, "FROM financials_as_of('20260105T120000Z-ffff')")


def test_now_is_the_newest_generation_even_if_a_run_has_a_time_in_the_future(weeks):
    """Its clock was wrong, or that of the reader is."""
    folders, held = weeks
    copy = Folders(folders.data.with_name("with_wrong_clock"))
    shutil.copytree(folders.data, copy.data, symlinks=True)
    edit_warehouse(copy, "UPDATE runs SET finished_at = finished_at + INTERVAL 1000 YEAR")
    for moment in ("now()", "TIMESTAMP '2999-01-01'"):
        assert query(copy, f"FROM financials_as_of({moment}) ORDER BY ALL") == held[-1]["financials"]


@pytest.mark.slow
def test_a_run_that_was_loaded_late_is_not_known_before_those_before_it(folders):
    """It ended earlier than the one loaded before it, so at its own end none of both was in the warehouse."""
    fetch(folders, 1, {ACME: {"financials": [period(2024)]}}, datasets=["financials"])
    fetch(folders, 0, {BOLT: {"financials": [period(2024)]}}, at=NOON, datasets=["financials"])
    between = (NOON + WEEK - DAY).replace(tzinfo=None)
    assert query(folders, f"FROM financials_as_of(TIMESTAMP '{between}')") == []
    assert query(folders, f"SELECT country FROM financials_as_of('{RUNS[1]}')") == [("BE",)]
    assert query(folders, f"SELECT country FROM financials_as_of('{RUNS[0]}') ORDER BY 1") == [("BE",), ("NL",)]


def test_a_load_that_is_no_run_has_the_time_of_its_name(weeks):
    folders, held = weeks
    copy = Folders(folders.data.with_name("with_overview"))
    shutil.copytree(folders.data, copy.data, symlinks=True)
    overview = "SELECT * REPLACE (9 AS generation, '20260201T000000Z-0' AS run_id) FROM loads LIMIT 1"
    edit_warehouse(copy, f"INSERT INTO loads {overview}")
    asked = "SELECT generation_at(TIMESTAMP '2026-01-31 23:59:59'), generation_at(TIMESTAMP '2026-02-01')"
    assert query(copy, asked) == [(4, 9)]
    assert query(copy, "FROM financials_as_of(now()) ORDER BY ALL") == held[-1]["financials"]


# --- known on --------------------------------------------------------------------------------------------------------


def known(folders, day, columns="year(start_date), revenue::DOUBLE"):
    where = f"WHERE company_number = '{ACME.company_number}'"
    return query(folders, f"SELECT {columns} FROM financials_known_on(DATE '{day}') {where} ORDER BY ALL")


def test_a_period_counts_from_the_day_its_accounts_were_received(folders):
    accounts = [period(2024), period(2023, dateReceived=None)]
    fetch(folders, 0, {ACME: {"financials": accounts}}, datasets=["financials"])
    assert known(folders, "2025-06-29") == []
    assert known(folders, "2025-06-30") == [(2024, 1234567.89)]


def test_of_two_filings_the_one_received_last_by_then_is_known(folders):
    accounts = [period(dateReceived="2025-08-01", profitability__revenue=8), period(dateReceived="2025-06-01")]
    fetch(folders, 0, {ACME: {"financials": accounts}}, datasets=["financials"])
    assert known(folders, "2025-07-31") == [(2024, 1234567.89)]
    assert known(folders, "2025-08-01") == [(2024, 8.0)]


def test_of_two_filings_of_one_day_the_later_filing_is_known_also_after_it_was_corrected(folders):
    """The service names the newest first. A correction of the newer one must not bring back the older one."""
    for week, revenue in enumerate((8, 9)):
        accounts = [period(profitability__revenue=revenue), period(profitability__revenue=1)]
        fetch(folders, week, {ACME: {"financials": accounts}}, datasets=["financials"])
    days = ["2025-06-29", "2025-06-30", "2026-01-11", "2026-01-12", "2030-01-01"]
    assert [[revenue for _, revenue in known(folders, day)] for day in days] == [[], [8], [8], [9], [9]]


def test_a_company_that_had_vanished_on_a_day_is_not_known_then_though_it_came_back(folders):
    for week, answered in enumerate(({"financials": [period()]}, None, {"financials": [period()]})):
        fetch(folders, week, {ACME: answered}, datasets=["financials"])
    days = ["2026-01-11", "2026-01-12", "2026-01-18", "2026-01-19"]
    assert [len(known(folders, day)) for day in days] == [1, 0, 0, 1]


@pytest.mark.slow
def test_a_restatement_shows_only_from_when_it_was_received(folders):
    for week, changes in enumerate([{}, {"dateReceived": "2026-01-10", "profitability__revenue": 9}]):
        fetch(folders, week, {ACME: {"financials": [period(**changes)]}}, datasets=["financials"])
    assert known(folders, "2026-01-09") == [(2024, 1234567.89)]
    assert known(folders, "2026-01-10") == [(2024, 9.0)]


def test_a_correction_of_the_same_filing_shows_only_from_when_we_saw_it(folders):
    """The service changed a figure and not the day: before, nobody who asked it could have seen the new one."""
    for week, revenue in enumerate([1, 2, 3]):
        accounts = [period(profitability__revenue=revenue)]
        fetch(folders, week, {ACME: {"financials": accounts}}, datasets=["financials"])
    days = ["2025-07-01", "2026-01-05", "2026-01-11", "2026-01-12", "2026-01-19", "2030-01-01"]
    assert [known(folders, day)[0][1] for day in days] == [1, 1, 1, 2, 3, 3]


@pytest.mark.slow
def test_what_the_service_withdrew_is_known_until_it_did(folders):
    for week, accounts in enumerate([[period(2024), period(2023)], [period(2024)]]):
        fetch(folders, week, {ACME: {"financials": accounts}}, datasets=["financials"])
    assert [year for year, _ in known(folders, "2026-01-11")] == [2023, 2024]
    assert [year for year, _ in known(folders, "2026-01-12")] == [2024]


@pytest.mark.parametrize("received", ["2025-06-30", *slow("2026-01-10")])
def test_a_period_whose_end_was_corrected_counts_once(folders, received):
    """Before our first answer as first seen, then as held; received anew, it counts from that day."""
    corrected = period(2024, endDate="2025-03-31", dateReceived=received, profitability__revenue=2)
    for week, accounts in enumerate([[period(2024)], [corrected]]):
        fetch(folders, week, {ACME: {"financials": accounts}}, datasets=["financials"])
    days = ["2025-06-29", "2025-06-30", "2026-01-05", "2026-01-11", "2026-01-12"]
    revenues = [[revenue for _, revenue in known(folders, day)] for day in days]
    assert revenues == [[], [1234567.89], [1234567.89], [1234567.89] if received < "2026" else [2], [2]]


@pytest.mark.slow
def test_a_correction_that_was_corrected_counts_once(folders):
    for week, end in enumerate(["2024-12-31", "2025-03-31", "2024-12-30"]):
        accounts = [period(2024, endDate=end, profitability__revenue=week)]
        fetch(folders, week, {ACME: {"financials": accounts}}, datasets=["financials"])
    days = ["2025-07-01", "2026-01-05", "2026-01-12", "2026-01-19"]
    assert [[revenue for _, revenue in known(folders, day)] for day in days] == [[0], [0], [1], [2]]


@pytest.mark.slow
def test_periods_that_stood_side_by_side_both_count_though_they_overlap(folders):
    half = period(2024, endDate="2024-06-30")
    for week, accounts in enumerate([[period(2024), half], [half, period(2024, profitability__revenue=2)]]):
        fetch(folders, week, {ACME: {"financials": accounts}}, datasets=["financials"])
    for day in ("2025-07-01", "2026-01-12"):
        assert len(known(folders, day)) == 2


@pytest.mark.slow
def test_a_newer_filing_leaves_the_older_one_as_it_was(folders):
    """The row of the older filing holds from its own run on, and before the newer was received it is the one known."""
    older, newer = period(2024), period(2024, dateReceived="2026-01-10", profitability__revenue=2)
    for week, accounts in enumerate([[older], [newer, older]]):
        fetch(folders, week, {ACME: {"financials": accounts}}, datasets=["financials"])
    rows = query(folders, "SELECT dup_no, revenue::DOUBLE, valid_from_run FROM financials ORDER BY dup_no")
    assert rows == [(0, 1234567.89, RUNS[0]), (1, 2.0, RUNS[1])]
    assert [known(folders, day)[0][1] for day in ("2026-01-09", "2026-01-10")] == [1234567.89, 2.0]


def test_no_day_knows_what_was_received_later(weeks):
    folders, _ = weeks
    with open_warehouse(folders) as connection:
        for day in (date(2022, 6, 1) + timedelta(days=60 * step) for step in range(25)):
            newest, rows = connection.execute(
                "SELECT max(date_received), count(*) FROM financials_known_on(?)", [day]
            ).fetchall()[0]
            assert (newest is None) == (rows == 0)
            assert newest is None or newest <= day
    assert rows > 1


# --- the macros themselves -------------------------------------------------------------------------------------------


def test_every_macro_has_its_comment():
    with duckdb.connect() as connection:
        create_tables(connection)
        create_macros(connection)
        made = dict(
            connection.execute("SELECT function_name, comment FROM duckdb_functions() WHERE NOT internal").fetchall()
        )
    assert made == {each.name: each.meaning for each in MACROS}
    assert {f"{name}_as_of" for name in WAREHOUSE_TABLES if f"{name}_history" in WAREHOUSE_TABLES} <= made.keys()
