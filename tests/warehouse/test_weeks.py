"""What the warehouse says of several weeks is what independent code makes of the same answers.

A world changes from week to week: accounts come, are corrected, refiled, restated and removed; companies disappear,
return, are renamed and change owners. Plain Python works out the events, and what was known on a day; and the tables
that a load makes of changed companies alone are those that are made of all companies.
"""

from __future__ import annotations

import copy
import random
import shutil
from collections import Counter
from datetime import date, timedelta

import duckdb
import pandas as pd
import pytest

from firmlake.core.company import Company
from firmlake.core.folders import Folders
from firmlake.warehouse.generations import newest
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.views import create_view, create_views, definitions, outdate_views
from support import NOON, found, party, query, run_name, run_of, with_views
from support import period as record

from .figures import number

WEEKS, COMPANIES = 7, 90
CALM = (3, 5, 6)
"""Weeks in which so few companies change that a load makes their rows alone."""
MADE_AT_LOAD = [one.name for one in definitions() if one.kind == "table"]
OWNERS = [*map(number, range(1, COMPANIES + 1)), *map("Person {}".format, range(9))]
AMOUNTS = ("totalAssets", "equity", "debt", "capital", "longTermDebt", "shortTermDebt", "retainedEarnings")


class World:
    """Companies as the service knows them in a week: None where it does not."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.known = {number(company): self._found(company) for company in range(1, COMPANIES + 1)}
        self.away = dict.fromkeys(list(self.known)[::9])  # appear later
        self.emptied = {}

    def _found(self, company):
        chance = self.chance
        years = range(2024, 2024 - chance.randint(1, 6), -1)
        assets = chance.uniform(1e5, 1e8)
        return {
            "name": f"Company {company}",
            "periods": [self._filing(year, assets * 1.1 ** (year - 2020)) for year in years],
            "parents": [
                {"owner": owner, "function": "SHAREHOLDER", "stake": chance.choice([0.3, 0.5, 0.6, 1.0])}
                for owner in chance.sample(OWNERS, chance.choice([0, 1, 1, 2]))
                if owner != number(company)
            ],
        }  # fmt: skip

    def _filing(self, year, assets):
        equity = assets * self.chance.uniform(0.2, 0.8)
        debt, unit = assets - equity, 1000 if self.chance.random() < 0.05 else 1
        amounts = (assets, equity, debt, 50000, debt * 0.4, debt * 0.6, equity * 0.3)
        received = date(year + 1, self.chance.randint(3, 11), 15)
        return {
            "start": date(year, 1, 1), "end": date(year, 12, 31), "received": received, "codes": ("200",),
            **{name: round(amount / unit, 2) for name, amount in zip(AMOUNTS, amounts, strict=True)},
        }  # fmt: skip

    def week(self, likely):
        """Let each company change with this chance, and show those that are there."""
        for company in self.known:
            if self.chance.random() < likely:
                self.chance.choice(CHANGES)(self, company)
        self.emptied = {company: none for company, none in self.emptied.items() if self.chance.random() < 0.5}
        hidden = {company for company in self.away if self.chance.random() < 0.6}
        self.away = dict.fromkeys(hidden)
        return {
            company: None if company in hidden else {**copy.deepcopy(state), **self.emptied.get(company, {})}
            for company, state in self.known.items()
        }

    def hide(self, company):
        self.away[company] = None

    def empty(self, company):
        self.emptied[company] = {"periods": []}

    def rename(self, company):
        self.known[company]["name"] += " II"

    def file(self, company):
        year = max((one["start"].year for one in self.known[company]["periods"]), default=2023) + 1
        self.known[company]["periods"].insert(0, self._filing(year, 1e6))
        self.known[company]["periods"][0]["received"] = date(2026, 1, self.chance.randint(1, 28))

    def _one(self, company):
        return self.chance.choice(self.known[company]["periods"] or [self._filing(1990, 1e6)])

    def correct_end(self, company):
        old = self._one(company)["end"]
        for one in self.known[company]["periods"]:
            one["end"] -= timedelta(days=one["end"] == old)

    def restate(self, company):
        self._one(company)["equity"] += 1

    def in_thousands(self, company):
        one = self._one(company)
        one |= {name: round(one[name] / 1000, 2) for name in AMOUNTS}

    def redate(self, company):
        self._one(company)["received"] += timedelta(days=40)

    def refile(self, company):
        periods, old = self.known[company]["periods"], self._one(company)
        if sum((one["start"], one["end"]) == (old["start"], old["end"]) for one in periods) == 1:
            newer = old | {"received": old["received"] + timedelta(days=100), "equity": old["equity"] + 7}
            periods.insert(periods.index(old), newer)

    def remove(self, company):
        self.known[company]["periods"] = self.known[company]["periods"][:-1]

    def recode(self, company):
        self._one(company)["codes"] = self.chance.choice([("0200",), ("200", "124"), ("111",)])

    def move_owner(self, company):
        parents = self.known[company]["parents"]
        if parents and self.chance.random() < 0.3:
            parents.pop()
        elif parents:
            parents[0] |= {"stake": self.chance.choice([0.25, 0.75]), "function": self.chance.choice(FUNCTIONS)}
        else:
            parents.append({"owner": self.chance.choice(OWNERS), "function": "SHAREHOLDER", "stake": 0.6})


FUNCTIONS = ("SHAREHOLDER", "BENEFICIAL_OWNER")
CHANGES = (
    World.hide, World.empty, World.rename, World.file, World.correct_end, World.restate, World.redate, World.refile,
    World.remove, World.recode, World.in_thousands, World.move_owner, World.move_owner,
)  # fmt: skip


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.slow)])
def weeks(request, tmp_path_factory):
    folders, world = Folders(tmp_path_factory.mktemp("weeks")), World(request.param)
    shown, tables = [], []
    for week in range(WEEKS):
        shown.append(world.week(0.05 if week in CALM else 0.45))
        answers = {}
        for company, state in shown[-1].items():
            one = Company("NL", company)
            answers[one] = {dataset: _element(one, dataset, state) for dataset in ("financials", "relationships")}
        run_of(folders, 7 * week, answers)
        if week + 1 in CALM or week in CALM:
            with_views(folders)
        if week in CALM:
            tables.append(_made_partly_and_anew(folders))
    return folders, shown, tables


def _made_partly_and_anew(folders):
    """Give the tables that a load made, and those that are made of all companies."""
    copy = folders.data / "anew.duckdb"
    shutil.copy(newest(folders), copy)
    with duckdb.connect(copy) as connection:
        is_partly = connection.execute("SELECT max(rowid) >= count(*) FROM period_order").fetchone() == (True,)
        partly = {table: connection.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in MADE_AT_LOAD}
        outdate_views(connection)
        create_views(connection)
        anew = {table: connection.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in MADE_AT_LOAD}
    copy.unlink()
    return is_partly, partly, anew


def _element(company, dataset, state):
    if state is None:
        return None
    records = (
        [_record(one) for one in state["periods"]] if dataset == "financials" else list(map(_party, state["parents"]))
    )
    element = found(company, dataset, *records)
    element["identifier"]["name"] = state["name"]
    return element


def _party(one):
    owner = Company("NL", one["owner"]) if one["owner"].isdigit() else None
    return party(owner, name=one["owner"], function=one["function"], percentage=one["stake"])


def _record(one):
    amounts = {f"solvency__{name}": one[name] for name in AMOUNTS}
    dates = {"startDate": one["start"], "endDate": one["end"], "dateReceived": one["received"]}
    return record(
        **{name: str(value) for name, value in dates.items()}, healthIndicator=None,
        jointCommitteeCodes=list(one["codes"]), **amounts,
    )  # fmt: skip


# --- events, worked out by code that shares nothing with the warehouse's --------------------------------------------


def list_events(shown):
    """Yield the events of each week, counted by company, kind and last day of the period.

    Args:
        shown: For each week the state of each company.
    """
    last, filed = {}, {}
    for before, now in zip([dict.fromkeys(shown[0]), *shown], shown, strict=False):
        expected = Counter()
        for company, state in now.items():
            if (before[company] is None) != (state is None):
                expected[company, "company_gone" if state is None else "company_appeared", None] += 1
            if state and company in last:
                events = list(_differences(last[company], state, filed[company]))
                expected.update((company, kind, end) for kind, end in events)
            if state:
                last[company] = state
                filed.setdefault(company, {}).update({filing_key(one): one for one in state["periods"]})
        yield expected


def filing_key(one):
    return one["start"], one["end"], one["received"]


def _differences(old, new, filed):
    if old["name"] != new["name"]:
        yield "company_renamed", None
    if old.get("place") != new.get("place"):
        yield "company_moved", None
    for dates in {(one["start"], one["end"]) for one in (*old["periods"], *new["periods"])}:
        yield from _filings(*([one for one in state["periods"] if (one["start"], one["end"]) == dates]
                              for state in (old, new)), filed)  # fmt: skip
    owners = [{one["owner"]: one for one in state["parents"]} for state in (old, new)]
    for owner in owners[0].keys() | owners[1].keys():
        was, now = owners[0].get(owner), owners[1].get(owner)
        if was is None or now is None:
            yield "parent_in" if was is None else "parent_out", None
            continue
        if was["function"] != now["function"]:
            yield "function_changed", None
        stakes = [{one["function"]: one["stake"]} for one in (was, now)]
        for function in stakes[0].keys() | stakes[1].keys():
            if stakes[0].get(function) != stakes[1].get(function):
                yield "stake_changed", None


def _filings(old, new, filed):
    pairs = [(was, now) for now in new for was in old if was["received"] == now["received"]]
    rest_old = sorted((one for one in old if all(one is not was for was, _ in pairs)), key=filing_key)
    rest_new = sorted((one for one in new if all(one is not now for _, now in pairs)), key=filing_key)
    pairs += zip(rest_old, rest_new, strict=False)
    for was in rest_old[len(rest_new) :]:
        yield "period_removed", was["end"]
    for was, now in pairs:
        if {code.lstrip("0") for code in was["codes"]} != {code.lstrip("0") for code in now["codes"]}:
            yield "committees_changed", now["end"]
    for now in rest_new[len(rest_old) :]:
        yield "period_returned" if filing_key(now) in filed else "new_accounts", now["end"]
        if filing_key(now) in filed:
            pairs.append((filed[filing_key(now)], now))
    for was, now in pairs:
        if any(was[name] != now[name] for name in now.keys() - {"start", "end", "codes"}):
            yield "period_restated", now["end"]


# --- changes ---------------------------------------------------------------------------------------------------------


def test_events_are_those_that_the_answers_differ_by(weeks):
    folders, shown, _ = weeks
    told = Counter()
    for run_id, expected in zip(map(run_name, range(0, 7 * WEEKS, 7)), list_events(shown), strict=True):
        rows = query(folders, f"SELECT company_number, kind, end_date FROM changes WHERE run_id = '{run_id}'")
        assert Counter(rows) == expected
        told.update(kind for _, kind, _ in rows)
    assert len(told) == 12, "or hardly anything happened"


# --- the past --------------------------------------------------------------------------------------------------------


def test_no_day_knows_a_period_twice_or_what_was_received_later(weeks):
    folders, shown, _ = weeks
    for day in [date(2023, 1, 1) + timedelta(days=90 * step) for step in range(16)] + [date(2026, 1, 20)]:
        rows = query(folders, f"SELECT company_number, start_date, end_date, date_received, total_assets "
                              f"FROM financials_known_on(DATE '{day}')")  # fmt: skip
        frame = pd.DataFrame(rows, columns=["company", "start", "end", "received", "assets"])
        assert (frame["received"] <= day).all()
        assert not frame.duplicated(["company", "start"]).any(), "the end of a period was corrected, not its start"
        expected = {
            (company, one["start"]) for now in shown for company, state in now.items() if state
            for one in state["periods"] if one["received"] <= day
        }  # fmt: skip
        if day < NOON.date():
            assert set(zip(frame["company"], frame["start"], strict=True)) == expected


# --- tables made at load ----------------------------------------------------------------------------------------------


def test_tables_of_changed_companies_are_as_if_all_had_been_made_again(weeks):
    for _, partly, anew in weeks[2]:
        assert partly == anew
    assert any(is_partly for is_partly, *_ in weeks[2]), "otherwise this compares the same with the same"
    assert {name for _, partly, _ in weeks[2] for name, rows in partly.items() if rows} == {*MADE_AT_LOAD}


MANY = 300_000
_ROWS = """
    INSERT INTO financials_versions BY NAME
    SELECT 'BE' AS country, printf('%010d', i // 4) AS company_number,
           make_date(2020 + (i % 4)::INT, 1, 1) AS start_date, make_date(2020 + (i % 4)::INT, 12, 31) AS end_date,
           0 AS dup_no, 0 AS position, make_date(2021 + (i % 4)::INT, 6, 1 + (i % 28)::INT) AS date_received,
           1000 + i AS revenue, 2000 + i AS total_assets,
           TIMESTAMP '2026-01-01' AS fetched_at, 'r' AS run_id, 1 AS valid_from
    FROM range({periods}) made(i);
    INSERT INTO companies_versions BY NAME
    SELECT DISTINCT country, company_number, 'A' AS name, fetched_at, run_id, valid_from FROM financials_versions;
"""


@pytest.mark.slow
def test_a_load_spills_what_does_not_fit_into_memory(tmp_path):
    """Aggregates such as median do not spill: found by them, the two newest periods of a company took ten times as
    much, and nobody could publish 250,000 companies with the default of `run.duckdb_memory`."""
    settings = {"memory_limit": "110MB", "threads": 1, "preserve_insertion_order": False}
    with duckdb.connect(tmp_path / "w.duckdb", config=settings) as connection:
        create_tables(connection)
        connection.execute(_ROWS.format(periods=4 * MANY))
        connection.execute("CHECKPOINT")
        create_views(connection)
        made = connection.execute("SELECT count(*), count(usual_days_to_file) FROM portfolio").fetchone()
    assert made == (MANY, MANY)


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
