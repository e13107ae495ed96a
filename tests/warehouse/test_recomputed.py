"""What the warehouse says of several weeks is what independent code makes of the same answers.

A world changes from week to week: accounts come, are corrected, refiled, restated and removed; companies disappear,
return, are renamed and change owners. networkx and pandas work out the rest. Accounts in another unit are planted in
test_unit_errors, and in the service's own world in test_weeks.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from datetime import date, timedelta

import duckdb
import networkx as nx
import pandas as pd
import pytest

from firmlake.core.company import Company
from firmlake.core.folders import Folders
from firmlake.warehouse.generations import newest
from firmlake.warehouse.views import create_views
from support import DAY, MINUTE, NOON, answer, found, land, make_run, not_found, party, publish_landed, query
from support import period as record

from .recomputed import list_events

WEEKS, COMPANIES = 7, 90
RUNS = [f"{NOON + week * 7 * DAY:%Y%m%dT%H%M%SZ}-0000" for week in range(WEEKS)]
AMOUNTS = ("totalAssets", "equity", "debt", "capital")


def number(company):
    return f"{company:08}"


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
                {"company": number(other), "function": "SHAREHOLDER", "stake": chance.choice([0.3, 0.5, 0.6, 1.0])}
                for other in chance.sample(range(1, COMPANIES + 1), chance.choice([0, 1, 1, 2]))
                if other != company
            ],
        }  # fmt: skip

    def _filing(self, year, assets):
        equity = assets * self.chance.uniform(0.2, 0.8)
        amounts = (assets, equity, assets - equity, 50000)
        received = date(year + 1, self.chance.randint(3, 11), 15)
        return {
            "start": date(year, 1, 1), "end": date(year, 12, 31), "received": received, "codes": ("200",),
            **{name: round(amount, 2) for name, amount in zip(AMOUNTS, amounts, strict=True)},
        }  # fmt: skip

    def week(self):
        """Let each company change or not, and show those that are there."""
        for company in self.known:
            if self.chance.random() < 0.4:
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
            owner = number(self.chance.randint(1, COMPANIES))
            parents.append({"company": owner, "function": "SHAREHOLDER", "stake": 0.6})


FUNCTIONS = ("SHAREHOLDER", "BENEFICIAL_OWNER")
CHANGES = (
    World.hide, World.empty, World.rename, World.file, World.correct_end, World.restate, World.redate, World.refile,
    World.remove, World.recode, World.move_owner, World.move_owner,
)  # fmt: skip


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.slow)])
def weeks(request, tmp_path_factory):
    folders, world = Folders(tmp_path_factory.mktemp("weeks")), World(request.param)
    shown = []
    for week, run_id in enumerate(RUNS):
        at = NOON + week * 7 * DAY
        companies = [Company("NL", company) for company in world.known]
        shown.append(world.week())
        run = make_run(folders, companies, ["financials", "relationships"], run_id=run_id, at=at)
        for dataset in ("financials", "relationships"):
            elements = [_element(company, dataset, shown[-1][company.company_number]) for company in companies]
            land(run, answer(dataset, *elements, at=at, offset=0))
        publish_landed(run, at=at + MINUTE)
    return folders, shown


def _element(company, dataset, state):
    if state is None:
        return not_found(company, dataset)
    records = (
        [_record(one) for one in state["periods"]]
        if dataset == "financials"
        else [
            party(Company("NL", one["company"]), function=one["function"], percentage=one["stake"])
            for one in state["parents"]
        ]
    )
    element = found(company, dataset, *records)
    element["identifier"]["name"] = state["name"]
    return element


def _record(one):
    amounts = {f"solvency__{name}": one[name] for name in AMOUNTS}
    dates = {"startDate": one["start"], "endDate": one["end"], "dateReceived": one["received"]}
    return record(
        **{name: str(value) for name, value in dates.items()}, healthIndicator=None,
        jointCommitteeCodes=list(one["codes"]), **amounts,
    )  # fmt: skip


# --- changes ---------------------------------------------------------------------------------------------------------


def test_events_are_those_that_the_answers_differ_by(weeks):
    folders, shown = weeks
    told = Counter()
    for run_id, expected in zip(RUNS, list_events(shown), strict=True):
        rows = query(folders, f"SELECT company_number, kind, end_date FROM changes WHERE run_id = '{run_id}'")
        assert Counter(rows) == expected
        told.update(kind for _, kind, _ in rows)
    assert len(told) == 12, "or hardly anything happened"


# --- the past --------------------------------------------------------------------------------------------------------


def test_each_week_is_as_it_was_shown(weeks):
    folders, shown = weeks
    for run_id, now in zip(RUNS, shown, strict=True):
        rows = query(folders, f"SELECT company_number, start_date, end_date, date_received, equity::DOUBLE "
                              f"FROM financials_as_of('{run_id}')")  # fmt: skip
        assert Counter(rows) == Counter(
            (company, one["start"], one["end"], one["received"], round(one["equity"], 2))
            for company, state in now.items() if state for one in state["periods"]
        )  # fmt: skip


def test_no_day_knows_a_period_twice_or_what_was_received_later(weeks):
    folders, shown = weeks
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


# --- groups and ratios -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def viewed(weeks):
    folders, shown = weeks
    path = newest(folders)
    path.chmod(0o644)
    with duckdb.connect(path) as connection:
        create_views(connection)
    return folders, shown


def test_groups_are_those_of_networkx(viewed):
    folders, shown = viewed
    graph = nx.DiGraph(
        ("NL" + one["company"], "NL" + company)
        for company, state in shown[-1].items() if state for one in state["parents"]
        if one["function"] == "SHAREHOLDER" and one["stake"] >= 0.5 and one["company"] != company
    )  # fmt: skip
    tops = nx.condensation(graph)
    expected = set()
    for top in (node for node, degree in tops.in_degree() if degree == 0):
        ring = tops.nodes[top]["members"]
        head = min(ring)
        expected |= {(head, len(ring) > 1, member) for member in nx.descendants(graph, head) | ring}
    assert set(query(folders, "SELECT head_id, is_ring, id FROM groups(0.5)")) == expected
    assert expected


def test_ratios_and_growth_are_those_of_pandas(viewed):
    folders, shown = viewed
    frame = pd.DataFrame([
        {"company": company, **{name: one[name] for name in ("start", "end", "received", *AMOUNTS)}}
        for company, state in shown[-1].items() if state for one in state["periods"]
    ])  # fmt: skip
    frame = frame.sort_values("received").drop_duplicates(["company", "start", "end"], keep="last")
    frame = frame.sort_values(["company", "end"])
    frame["equity_fraction"] = frame["equity"] / frame["totalAssets"]
    frame["growth"] = frame.groupby("company")["totalAssets"].pct_change(fill_method=None)
    columns = "company_number, start_date, end_date, equity_fraction, total_assets_growth"
    both_views = "ratios JOIN trend USING (country, company_number, start_date, end_date)"
    rows = query(folders, f"SELECT {columns} FROM {both_views}")
    told = pd.DataFrame(rows, columns=["company", "start", "end", "fraction", "grown"])
    both = frame.merge(told, on=["company", "start", "end"], how="outer", indicator=True)
    assert (both["_merge"] == "both").all()
    assert (both["fraction"] - both["equity_fraction"]).abs().max() < 1e-5
    compared = both.dropna(subset=["grown"])
    assert len(compared) > 50
    assert ((compared["grown"] - compared["growth"]).abs() < 1e-5 * (1 + compared["growth"].abs())).all()
