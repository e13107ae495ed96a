"""Random weeks of a small world: the warehouse says of them, then and later, what plain Python makes of the answers.

Companies answer, are not found, fail, wait or are not asked; they are renamed, and their accounts come, are corrected,
refiled, restated and removed. Rows occur several times, move and come back, and a part of an answer may be unreadable:
then the rows that the unreadable ones may stand for stay. Which events follow from answers is in questions/weeks.txt.
"""

from __future__ import annotations

import copy
import random
import shutil
from collections import Counter, defaultdict
from datetime import date, timedelta
from typing import Any, NamedTuple

import duckdb
import pytest

from firmlake.core.company import Company
from firmlake.core.folders import Folders
from firmlake.tables.schemas import TABLES
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake.warehouse.views import create_views, definitions, outdate_views
from support import (
    ACME,
    BOLT,
    DATASETS,
    DAY,
    FAILED,
    MINUTE,
    NOON,
    WAITING,
    found,
    lookalike,
    party,
    period,
    query,
    run_name,
    run_of,
    slow,
    with_views,
)

from .figures import number

WEEKS, COMPANIES = 5, [Company("NL", number(company)) for company in range(1, 36)]
CALM = 3
"""The week in which so few companies are asked that a load makes their rows of derived tables alone."""
FATES = ("not asked", WAITING, FAILED, None, "empty", "partial", "partial", *["whole"] * 9)
OWNERS = [*COMPANIES, *map("Person {}".format, range(9))]
FUNCTIONS = ("SHAREHOLDER", "BENEFICIAL_OWNER")
AMOUNTS = ("totalAssets", "equity", "debt", "capital", "longTermDebt", "shortTermDebt", "retainedEarnings")
MADE_AT_LOAD = [one.name for one in definitions() if one.kind == "table"]


class Filing(NamedTuple):
    """Accounts as they were filed."""

    start: date
    end: date
    received: date
    amounts: tuple[float, ...]
    codes: tuple[str, ...] = ("200",)


class Owner(NamedTuple):
    party: Company | str | None
    stake: float | None = 0.25
    function: str | None = "SHAREHOLDER"


UNREADABLE = Owner(None, None, None)
"""What becomes of an owner that cannot be read: somebody of whom nothing is known."""


class World:
    """What the service knows of companies: name, filings, owners and lookalikes, which change from week to week."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.companies = {company: self._found() for company in COMPANIES}

    def _found(self):
        chance = self.chance
        assets, years = chance.uniform(1e5, 1e8), range(2024, 2024 - chance.randint(1, 6), -1)
        return {
            "name": "Company",
            "filings": [self.file(year, assets * 1.1 ** (year - 2020)) for year in years],
            "owners": [Owner(one, chance.choice((0.3, 0.5, 0.6, 1.0))) for one in chance.sample(OWNERS, 2)],
            "alike": chance.sample(COMPANIES, 4),
        }

    def file(self, year, assets):
        equity = assets * self.chance.uniform(0.2, 0.8)
        debt, unit = assets - equity, 1000 if self.chance.random() < 0.05 else 1
        amounts = (assets, equity, debt, 50000, debt * 0.4, debt * 0.6, equity * 0.3)
        received = date(year + 1, self.chance.randint(3, 11), 15)
        return Filing(date(year, 1, 1), date(year, 12, 31), received, tuple(round(one / unit, 2) for one in amounts))

    def week(self, is_calm):
        """Draw what becomes of each company, and what the service answers about those that are asked."""
        answers = {}
        for company, state in self.companies.items():
            if is_calm and self.chance.random() > 0.15:
                continue
            if self.chance.random() < 0.8:
                self.chance.choice((self.change_filing, self.change_filing, self.change_owner, self.change_rest))(state)
            fate = self.chance.choice(FATES)
            if fate in (WAITING, FAILED, None):
                answers[company] = fate
            elif fate != "not asked":
                answers[company] = copy.deepcopy(state) | {"is_partial": fate == "partial"}
                answers[company] |= {"filings": []} if fate == "empty" else {}
        return answers

    def change_filing(self, state):
        """Restate, receive later, correct, move to thousands, or file again one of the filings."""
        filings, chance = state["filings"], self.chance
        if not filings:
            return
        place = chance.randrange(len(filings))
        one = filings[place]
        changed = chance.choice((
            {"amounts": (one.amounts[0], round(one.amounts[1] + 1, 2), *one.amounts[2:])},
            {"amounts": tuple(round(amount / 1000, 2) for amount in one.amounts)},
            {"received": one.received + 40 * DAY},
            {"codes": chance.choice([("0200",), ("200", "124"), ("111",)])},
            {"end": one.end - DAY},
            {"received": one.received + 100 * DAY, "amounts": (*one.amounts[:-1], 7.5)},
        ))  # fmt: skip
        if len(changed) == 2 and sum(other[:2] == one[:2] for other in filings) == 1:
            filings.insert(place, one._replace(**changed))
        elif len(changed) == 1:  # all filings of these dates have another end
            for place, other in enumerate(filings):
                if other is one or ("end" in changed and other[:2] == one[:2]):
                    filings[place] = other._replace(**changed)

    def change_owner(self, state):
        chance, owners = self.chance, state["owners"]
        if owners and chance.random() < 0.5:
            place, stake = chance.randrange(len(owners)), chance.choice((0.25, 0.75, None))
            owners[place] = Owner(owners[place].party, stake, chance.choice(FUNCTIONS))
        elif chance.random() < 0.6:
            owners.insert(0, chance.choice((UNREADABLE, Owner(chance.choice(OWNERS)), *owners)))
        else:
            del owners[:1]

    def change_rest(self, state):
        """Rename it, file new accounts, withdraw the oldest ones, or compare it with others."""
        year = max((one.start.year for one in state["filings"]), default=2023) + 1
        new = self.file(year, 1e6)._replace(received=date(2026, 1, self.chance.randint(1, 28)))
        state |= self.chance.choice((
            {"name": f"{state['name']} II"},
            {"filings": [new, *state["filings"]]},
            {"filings": state["filings"][:-1]},
            {"alike": self.chance.sample(COMPANIES, self.chance.randint(0, 4))},
        ))  # fmt: skip


# --- what the service answers -----------------------------------------------------------------------------------------


def element_of(company, dataset, answer):
    if answer in (WAITING, FAILED, None):
        return answer
    records = [_RECORDS[dataset](one) for one in answer[_PARTS[dataset]]]
    if answer["is_partial"] and dataset == "financials":
        records.insert(len(records) // 2, period(2024, startDate="never"))
    element = found(company, dataset, *records)
    element["identifier"]["name"] = answer["name"]
    return element


def _record_of_filing(one):
    dates = {"startDate": one.start, "endDate": one.end, "dateReceived": one.received}
    amounts = {f"solvency__{name}": amount for name, amount in zip(AMOUNTS, one.amounts, strict=True)}
    return period(
        **{name: str(value) for name, value in dates.items()}, healthIndicator=None,
        jointCommitteeCodes=list(one.codes), **amounts,
    )  # fmt: skip


def _record_of_owner(one):
    if one == UNREADABLE:
        return "no record"
    company = one.party if isinstance(one.party, Company) else None
    name = "Its name" if company else one.party
    return party(company, name=name, function=one.function, percentage=one.stake)


_PARTS = {"financials": "filings", "relationships": "owners", "lookalikes": "alike"}
_RECORDS = {"financials": _record_of_filing, "relationships": _record_of_owner, "lookalikes": lookalike}


# --- what follows from it, by code that shares nothing with the warehouse's -------------------------------------------

COLUMNS = {
    "financials": "start_date, end_date, dup_no, date_received, total_assets::DOUBLE, equity::DOUBLE",
    "relationships": 'coalesce(related_company_number, related_name), stake_fraction::DOUBLE, "function"',
    "lookalikes": "rank, lookalike_company_number",
}


class Row(NamedTuple):
    """A row that a company has or had: its values as `COLUMNS` has them, and the run that opened it."""

    values: tuple[Any, ...]
    opened: str


class Model:
    """What the warehouse holds after each week: rows in order, states and closed rows, by dataset."""

    def __init__(self):
        self.rows = {dataset: defaultdict(list) for dataset in DATASETS}
        self.states = {dataset: {} for dataset in DATASETS}
        self.closed = {dataset: [] for dataset in DATASETS}

    def load(self, company, answer, run_id, at):
        for dataset, states in self.states.items():
            if answer in (WAITING, FAILED):  # the count and time of the last real answer stay
                states[company] = (answer, *states.get(company, (None,) * 4)[1:3], run_id)
                continue
            rows = [] if answer is None else [Row(values, run_id) for values in _values_of(dataset, answer)]
            is_partial = answer is not None and answer["is_partial"] and dataset == "financials"
            status = "not_found" if answer is None else "reported" if rows or is_partial else "empty"
            states[company] = (status, len(rows), at, run_id)
            self._replace(dataset, company, rows, run_id, is_partial)

    def _replace(self, dataset, company, rows, run_id, is_partial):
        left, now = list(self.rows[dataset][company]), []
        for row in rows:
            same = next((old for old in left if old.values == row.values), None)
            if same:
                left.remove(same)
            now.append(same or row)
        for old in left:
            if is_partial and old.values[:3] not in {row.values[:3] for row in rows}:
                now.append(old)
            else:
                self.closed[dataset].append((company.company_number, *old.values, old.opened, run_id))
        self.rows[dataset][company] = now

    def held(self, dataset):
        """The rows and the states of a dataset, as the tables have them."""
        rows = [
            (company.company_number, *row.values, row.opened)
            for company in COMPANIES
            for row in self.rows[dataset][company]
        ]
        states = [(company.company_number, *state) for company, state in sorted(self.states[dataset].items())]
        return rows, states


def _values_of(dataset, answer):
    if dataset == "financials":
        for one in answer["filings"]:
            place = sum(other[:2] == one[:2] and other.received < one.received for other in answer["filings"])
            yield (one.start, one.end, place, one.received, *one.amounts[:2])
    elif dataset == "relationships":
        for one in answer["owners"]:
            yield (one.party.company_number if isinstance(one.party, Company) else one.party, one.stake, one.function)
    else:
        for rank, one in enumerate(answer["alike"], 1):
            yield (rank, one.company_number)


# --- the weeks --------------------------------------------------------------------------------------------------------


class Weeks:
    """The data folder and the model after all weeks; and for each week its generation, answers and rows."""

    def __init__(self, seed, folders):
        world, self.folders, self.model = World(seed), folders, Model()
        self.paths, self.answers, self.held = [], [], []
        for week in range(WEEKS):
            self.load(week, world.week(week == CALM))
            if week in (CALM - 1, CALM):
                with_views(folders)
            if week == CALM:
                self.derived = derived_partly_and_anew(folders)

    def load(self, week, answers):
        for company, answer in answers.items():
            keep_readable(self.model, company, answer)
        elements = {one: {name: element_of(one, name, answer) for name in DATASETS} for one, answer in answers.items()}
        run_of(self.folders, 7 * week, elements, DATASETS, keep=99)
        for company, answer in answers.items():
            self.model.load(company, answer, run_name(7 * week), (NOON + 7 * week * DAY).replace(tzinfo=None))
        self.paths.append(newest(self.folders))
        self.answers.append(answers)
        self.held.append({dataset: self.model.held(dataset) for dataset in DATASETS})


@pytest.fixture(scope="module", params=[1, *slow(2, 3, 4, 5)])
def weeks(request, tmp_path_factory):
    """Rows are closed in several stretches, as a large load closes them, and compacted in every fifth generation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("firmlake.warehouse.versions._STRETCH", 20)
        patch.setattr("firmlake.warehouse.generations._TIDIED_EVERY", 5)
        yield Weeks(request.param, Folders(tmp_path_factory.mktemp("history")))


def keep_readable(model, company, answer):
    """Have a company answer in whole where the end of a period was corrected, or where it was gone before."""
    if not isinstance(answer, dict):
        return
    held = {row.values[0]: row.values[1] for row in model.rows["financials"][company]}
    is_corrected = any(held.get(one.start, one.end) != one.end for one in answer["filings"])
    answer["is_partial"] &= bool(held) and not is_corrected


def derived_partly_and_anew(folders):
    """Give the tables that a load made of changed companies alone, and those that are made of all companies."""
    copied = folders.data / "anew.duckdb"
    shutil.copy(newest(folders), copied)
    with duckdb.connect(copied) as connection:
        is_partly = connection.execute("SELECT max(rowid) >= count(*) FROM period_order").fetchone() == (True,)
        partly = {table: connection.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in MADE_AT_LOAD}
        outdate_views(connection)
        create_views(connection)
        anew = {table: connection.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in MADE_AT_LOAD}
    copied.unlink()
    return is_partly, partly, anew


def sorted_rows(rows):
    return sorted(rows, key=repr)


def test_each_week_is_in_its_generation_and_can_be_asked_for_later(weeks):
    """The rows and states of each dataset are those of the model, and each company that was asked has one row."""
    for week, (path, now) in enumerate(zip(weeks.paths, weeks.held, strict=True)):
        with duckdb.connect(path, read_only=True) as connection:
            for dataset in DATASETS:
                order = "rank" if dataset == "lookalikes" else "position"
                rows = f"SELECT company_number, {COLUMNS[dataset]}, valid_from_run FROM {dataset}"
                kept = "company_number, status, record_count, fetched_at, run_id"
                states = f"SELECT {kept} FROM company_state WHERE dataset = '{dataset}' ORDER BY 1"
                held = [connection.execute(sql).fetchall() for sql in (f"{rows} ORDER BY 1, {order}", states)]
                assert held == list(now[dataset])
                later = query(weeks.folders, f"{rows}_as_of('{run_name(7 * week)}')")
                assert sorted_rows(later) == sorted_rows(held[0])
            companies = connection.execute("SELECT company_number FROM companies ORDER BY 1").fetchall()
            assert companies == sorted({row[:1] for dataset in DATASETS for row in now[dataset][1]})
    for dataset, closed in weeks.model.closed.items():
        columns = f"company_number, {COLUMNS[dataset]}, valid_from_run, valid_to_run"
        assert sorted_rows(query(weeks.folders, f"SELECT {columns} FROM {dataset}_history")) == sorted_rows(closed)
        assert closed


def test_every_table_as_of_a_week_or_of_a_time_in_it_is_the_table_of_its_generation(weeks):
    tables = [table for table in TABLES.values() if table.volatile is not None]
    with open_warehouse(weeks.folders) as last:
        for week, path in enumerate(weeks.paths):
            ended = (NOON + 7 * week * DAY + MINUTE).replace(tzinfo=None)
            with duckdb.connect(path, read_only=True) as connection:
                for table in tables:
                    columns = ", ".join(column.name for column in table.columns if column.name not in table.volatile)
                    rows = f"SELECT {columns}, valid_from_run FROM {table.name}{{}} ORDER BY ALL"
                    then = connection.execute(rows.format("")).fetchall()
                    for moment in (f"'{run_name(7 * week)}'", f"TIMESTAMP '{ended + 6 * DAY}'"):
                        assert last.execute(rows.format(f"_as_of({moment})")).fetchall() == then


@pytest.mark.slow
def test_no_day_knows_a_period_twice_or_what_was_received_later(weeks):
    """Nor is a period unknown that was received by then, unless the service no longer knew its company."""
    seen = [
        (company.company_number, one)
        for answers in weeks.answers
        for company, answer in answers.items()
        if isinstance(answer, dict)
        for one in answer["filings"]
    ]
    for day in [date(2023, 1, 1) + timedelta(days=90 * step) for step in range(16)] + [date(2026, 1, 20)]:
        columns = "company_number, start_date, date_received"
        rows = query(weeks.folders, f"SELECT {columns} FROM financials_known_on(DATE '{day}')")
        assert all(received <= day for *_, received in rows)
        known = Counter(row[:2] for row in rows)
        assert not known or max(known.values()) == 1, "the end of a period was corrected, not its start"
        if day < NOON.date():
            assert known.keys() == {(company, one.start) for company, one in seen if one.received <= day}


def test_derived_tables_of_changed_companies_are_as_if_all_had_been_made_again(weeks):
    is_partly, partly, anew = weeks.derived
    assert is_partly, "otherwise this compares the same with the same"
    assert partly == anew
    assert {name for name, rows in partly.items() if rows} == {*MADE_AT_LOAD}


# --- moments ----------------------------------------------------------------------------------------------------------


def test_a_time_is_the_moment_that_it_names_in_any_spelling_and_zone(weeks):
    ended = (NOON + MINUTE + timedelta(hours=1)).replace(tzinfo=None)
    with open_warehouse(weeks.folders) as connection:
        for zone in ("UTC", "Europe/Brussels"):
            connection.execute(f"SET TimeZone = '{zone}'")
            for spelt in ("'{}+01'", "'{} +01:00'", "TIMESTAMPTZ '{}+01'", "'{} Europe/Brussels'", "'{} CET'"):
                for moment, count in ((ended, len(weeks.held[0]["financials"][0])), (ended - MINUTE, 0)):
                    asked = f"SELECT count(*) FROM financials_as_of({spelt.format(moment)})"
                    assert connection.execute(asked).fetchall() == [(count,)], asked
        with pytest.raises(duckdb.Error, match=r"ffff is neither a run .+ Use a run_id"):
            connection.execute("FROM financials_as_of('20260105T120000Z-ffff')")


@pytest.mark.parametrize(
    ("change", "asked", "expected"),
    [
        # A clock was wrong, or that of the reader is: now is the newest generation.
        (
            "UPDATE runs SET finished_at = finished_at + INTERVAL 1000 YEAR",
            "SELECT generation_at(now()), generation_at(TIMESTAMP '2999-01-01')",
            None,
        ),
        # A load that is no run has the time of its name.
        (
            "INSERT INTO loads SELECT * REPLACE (99 AS generation, '20260301T000000Z-0' AS run_id) FROM loads LIMIT 1",
            "SELECT generation_at(TIMESTAMP '2026-02-28 23:59:59'), generation_at(TIMESTAMP '2026-03-01')",
            99,
        ),
    ],
)
def test_the_generation_of_a_time_is_that_of_the_last_load_before_it(weeks, tmp_path, change, asked, expected):
    copied = tmp_path / "copy.duckdb"
    copied.write_bytes(weeks.paths[-1].read_bytes())
    with duckdb.connect(copied) as connection:
        ((last,),) = connection.execute("SELECT max(generation) FROM loads").fetchall()
        connection.execute(change)
        assert connection.execute(asked).fetchall() == [(last, expected or last)]


@pytest.mark.slow
def test_a_run_that_was_loaded_late_is_not_known_before_those_before_it(folders):
    """It ended earlier than the one loaded before it, so at its own end none of both was in the warehouse."""
    run_of(folders, 7, {ACME: {"financials": [period(2024)]}})
    run_of(folders, 0, {BOLT: {"financials": [period(2024)]}})
    between = (NOON + 6 * DAY).replace(tzinfo=None)
    assert query(folders, f"FROM financials_as_of(TIMESTAMP '{between}')") == []
    assert query(folders, f"SELECT country FROM financials_as_of('{run_name(7)}')") == [("BE",)]
    assert query(folders, f"SELECT country FROM financials_as_of('{run_name(0)}') ORDER BY 1") == [("BE",), ("NL",)]
