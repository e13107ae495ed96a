"""Random weeks of a tiny world: each table as of each week is that week's table, and plain Python knows every version.

Companies answer, are not found, fail, wait or are not asked. Rows occur several times, move and come back, and a part
of an answer may be unreadable. Then the rows that the unreadable ones may stand for stay.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import Any, NamedTuple

import duckdb
import pytest

from firmlake.core.company import Company
from firmlake.core.folders import Folders
from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES
from firmlake.warehouse.generations import list_generations, open_warehouse
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.versions import MACROS, create_macros
from support import (
    ACME,
    BOLT,
    DAY,
    FAILED,
    MINUTE,
    NOON,
    WAITING,
    lookalike,
    party,
    query,
    run_name,
    run_of,
    slow,
)
from support import period as record

WEEKS, COMPANIES = 5, [Company("BE", f"04032275{number:02}") for number in range(1, 21)]
DATASETS = ("financials", "relationships", "lookalikes")
FATES = ("not asked", WAITING, FAILED, None, "unreadable in part", *["whole"] * 5)
VALUES = {
    "financials": ("start_date::VARCHAR, equity::DOUBLE", "position"),
    "relationships": ("related_name, stake_fraction::DOUBLE", "position"),
    "lookalikes": ("rank, lookalike_company_number, score", "rank"),
}


class Version(NamedTuple):
    """A row that a company has or had: its values, and the runs that opened and closed it."""

    company: str
    values: tuple[Any, ...]
    opened: str
    closed: str | None = None


class Model:
    """What the warehouse holds of one dataset: each company's rows in order and its state, and the closed rows."""

    def __init__(self):
        self.rows, self.states, self.closed = {company: [] for company in COMPANIES}, {}, []

    def replace(self, company, run_id, answered, is_partial):
        left, now = list(self.rows[company]), []
        for values in answered:
            same = next((row for row in left if row.values == values), None)
            if same:
                left.remove(same)
            now.append(same or Version(company.company_number, values, run_id))
        for row in left:
            if is_partial and row.values[0] not in {values[0] for values in answered}:
                now.append(row)
            else:
                self.closed.append(row._replace(closed=run_id))
        self.rows[company] = now

    def says(self, company, run_id, status, at, count):
        """Note what came of asking; a failure or a wait keeps the count and time of the last real answer."""
        held = self.states.get(company, (None, None, None))
        self.states[company] = (status, *((count, at) if at else held[1:3]), run_id)

    def all_rows(self):
        return [(row.company, *row.values, row.opened) for rows in self.rows.values() for row in rows]

    def all_states(self):
        return [(company.company_number, *state) for company, state in sorted(self.states.items())]


@pytest.fixture(scope="module", params=[1, *slow(2, 3, 4, 5)])
def weeks(request, tmp_path_factory):
    """Publish the weeks: the data folder, the models after all weeks, and each model's rows after each week.

    Rows are closed in several stretches, as a large load closes them, and compacted after three weeks.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("firmlake.warehouse.versions._STRETCH", 20)
        patch.setattr("firmlake.warehouse.generations._TIDIED_EVERY", 3)
        yield publish_weeks(request.param, Folders(tmp_path_factory.mktemp("versions")))


def publish_weeks(seed, folders):
    chance = random.Random(seed)
    models, shown = {dataset: Model() for dataset in DATASETS}, []
    for week in range(WEEKS):
        fates = {company: chance.choice(FATES) for company in COMPANIES}
        answers = {
            company: {
                dataset: _answer(dataset, company, fate, model, week, chance) for dataset, model in models.items()
            }
            for company, fate in fates.items()
            if fate != "not asked"
        }
        run_of(folders, 7 * week, answers, keep=WEEKS)
        shown.append({dataset: (model.all_rows(), model.all_states()) for dataset, model in models.items()})
    return folders, models, shown


def _answer(dataset, company, fate, model, week, chance):
    """Draw the answer of a company, and tell the model."""
    run_id, at = run_name(7 * week), (NOON + 7 * week * DAY).replace(tzinfo=None)
    if fate in (FAILED, WAITING):
        model.says(company, run_id, fate, None, None)
        return fate
    if fate is None:
        model.replace(company, run_id, [], is_partial=False)
        model.says(company, run_id, "not_found", at, 0)
        return None
    values, records = _draw(dataset, chance)
    is_partial = fate != "whole" and dataset != "lookalikes"
    if is_partial:
        place = chance.randint(0, len(records))
        records.insert(place, _UNREADABLE[dataset])
        if dataset == "relationships":  # the owner is there, but nothing is known of it
            values.insert(place, (None, None))
    model.replace(company, run_id, values, is_partial=is_partial and dataset == "financials")
    model.says(company, run_id, "reported" if records else "empty", at, len(values))
    return records


_UNREADABLE = {"relationships": "no record", "financials": record(2024, startDate="never")}


def _draw(dataset, chance):
    """Draw the values of a few records, and the records."""
    if dataset == "financials":
        values = [(f"{year}-01-01", chance.choice((1.0, 2.5))) for year in (2024, 2023, 2022) if chance.random() < 0.7]
        return values, [record(int(start[:4]), solvency__equity=equity) for start, equity in values]
    if dataset == "lookalikes":
        alike = [(one, chance.choice((0.5, 0.75))) for one in chance.sample((ACME, BOLT), chance.randint(0, 2))]
        values = [(rank, one.company_number, score) for rank, (one, score) in enumerate(alike, 1)]
        return values, [lookalike(*one) for one in alike]
    drawn = [(chance.choice("ABC"), chance.choice((0.25, 0.5, None))) for _ in range(chance.randint(0, 4))]
    return drawn, [party(None, name=name, percentage=stake) for name, stake in drawn]


def test_each_week_is_in_its_generation_and_can_be_asked_for_later(weeks):
    """The rows and states of each dataset are those of the model, and each company that was asked has one row."""
    folders, models, shown = weeks
    for week, (path, now) in enumerate(zip(list_generations(folders), shown, strict=True)):
        with duckdb.connect(path, read_only=True) as connection:
            for dataset in DATASETS:
                columns, order = VALUES[dataset]
                rows = f"SELECT company_number, {columns}, valid_from_run FROM {dataset}"
                kept = "company_number, status, record_count, fetched_at, run_id"
                states = f"SELECT {kept} FROM company_state WHERE dataset = '{dataset}' ORDER BY 1"
                held = [connection.execute(sql).fetchall() for sql in (f"{rows} ORDER BY 1, {order}", states)]
                assert held == list(now[dataset])
                later = query(folders, f"{rows}_as_of('{run_name(7 * week)}')")
                assert sorted(later, key=repr) == sorted(held[0], key=repr)
            companies = connection.execute("SELECT company_number FROM companies ORDER BY 1").fetchall()
            assert companies == sorted({row[:1] for dataset in DATASETS for row in now[dataset][1]})
    for dataset, model in models.items():
        rows = query(
            folders, f"SELECT company_number, {VALUES[dataset][0]}, valid_from_run, valid_to_run FROM {dataset}_history"
        )
        expected = [(row.company, *row.values, row.opened, row.closed) for row in model.closed]
        assert sorted(rows, key=repr) == sorted(expected, key=repr)
        assert expected


def test_every_table_as_of_a_week_or_of_a_time_in_it_is_the_table_of_its_generation(weeks):
    tables = [table for table in TABLES.values() if table.volatile is not None]
    with open_warehouse(weeks[0]) as newest:
        for week, path in enumerate(list_generations(weeks[0])):
            ended = (NOON + 7 * week * DAY + MINUTE).replace(tzinfo=None)
            with duckdb.connect(path, read_only=True) as connection:
                for table in tables:
                    columns = ", ".join(column.name for column in table.columns if column.name not in table.volatile)
                    rows = f"SELECT {columns}, valid_from_run FROM {table.name}{{}} ORDER BY ALL"
                    then = connection.execute(rows.format("")).fetchall()
                    for moment in (f"'{run_name(7 * week)}'", f"TIMESTAMP '{ended + 6 * DAY}'"):
                        assert newest.execute(rows.format(f"_as_of({moment})")).fetchall() == then


def test_a_time_is_the_moment_that_it_names_in_any_spelling_and_zone(weeks):
    folders, _, shown = weeks
    assert query(folders, "FROM financials_as_of(DATE '2026-01-05')") == []
    ended = (NOON + MINUTE + timedelta(hours=1)).replace(tzinfo=None)
    with open_warehouse(folders) as connection:
        for zone in ("UTC", "Europe/Brussels"):
            connection.execute(f"SET TimeZone = '{zone}'")
            for spelt in ("'{}+01'", "'{} +01:00'", "TIMESTAMPTZ '{}+01'", "'{} Europe/Brussels'", "'{} CET'"):
                for moment, count in ((ended, len(shown[0]["financials"][0])), (ended - MINUTE, 0)):
                    asked = f"SELECT count(*) FROM financials_as_of({spelt.format(moment)})"
                    assert connection.execute(asked).fetchall() == [(count,)], asked


def test_an_unknown_run_is_an_error_not_an_empty_table(weeks):
    with pytest.raises(duckdb.Error, match=r"ffff is neither a run .+ Use a run_id"):
        query(weeks[0], "FROM financials_as_of('20260105T120000Z-ffff')")


@pytest.mark.parametrize(
    ("change", "asked", "expected"),
    [
        # A clock was wrong, or that of the reader is: now is the newest generation.
        (
            "UPDATE runs SET finished_at = finished_at + INTERVAL 1000 YEAR",
            "SELECT generation_at(now()), generation_at(TIMESTAMP '2999-01-01')",
            (WEEKS, WEEKS),
        ),
        # A load that is no run has the time of its name.
        (
            "INSERT INTO loads SELECT * REPLACE (9 AS generation, '20260301T000000Z-0' AS run_id) FROM loads LIMIT 1",
            "SELECT generation_at(TIMESTAMP '2026-02-28 23:59:59'), generation_at(TIMESTAMP '2026-03-01')",
            (WEEKS, 9),
        ),
    ],
)
def test_the_generation_of_a_time_is_that_of_the_last_load_before_it(weeks, tmp_path, change, asked, expected):
    copy = tmp_path / "copy.duckdb"
    copy.write_bytes(list_generations(weeks[0])[-1].read_bytes())
    with duckdb.connect(copy) as connection:
        connection.execute(change)
        assert connection.execute(asked).fetchall() == [expected]


def test_a_run_that_was_loaded_late_is_not_known_before_those_before_it(folders):
    """It ended earlier than the one loaded before it, so at its own end none of both was in the warehouse."""
    run_of(folders, 7, {ACME: {"financials": [record(2024)]}})
    run_of(folders, 0, {BOLT: {"financials": [record(2024)]}})
    between = (NOON + 6 * DAY).replace(tzinfo=None)
    assert query(folders, f"FROM financials_as_of(TIMESTAMP '{between}')") == []
    assert query(folders, f"SELECT country FROM financials_as_of('{run_name(7)}')") == [("BE",)]
    assert query(folders, f"SELECT country FROM financials_as_of('{run_name(0)}') ORDER BY 1") == [("BE",), ("NL",)]


def test_every_macro_of_the_past_has_its_comment():
    with duckdb.connect() as connection:
        create_tables(connection)
        create_macros(connection)
        made = dict(
            connection.execute("SELECT function_name, comment FROM duckdb_functions() WHERE NOT internal").fetchall()
        )
    assert made == {each.name: each.meaning for each in MACROS}
    assert {f"{name}_as_of" for name in WAREHOUSE_TABLES if f"{name}_history" in WAREHOUSE_TABLES} <= made.keys()


# --- what was known on a day -----------------------------------------------------------------------------------------


def test_a_period_is_known_from_the_day_on_which_it_was_received(weeks):
    folders, _, shown = weeks
    seen = {row[:2] for now in shown for row in now["financials"][0]}
    for year in (2022, 2023, 2024):
        day = date(year + 1, 7, 1)
        rows = query(folders, f"SELECT company_number, start_date::VARCHAR FROM financials_known_on(DATE '{day}')")
        assert sorted(rows) == sorted(one for one in seen if int(one[1][:4]) <= year)
