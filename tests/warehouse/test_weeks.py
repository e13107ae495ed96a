"""Weeks of the embedded service's history, run through the whole pipeline, are told as independent code tells them."""

from __future__ import annotations

from collections import Counter
from datetime import date

import duckdb
import msgspec
import pytest

import firmlake_sandbox
from firmlake.core.folders import Folders
from firmlake.core.settings_layers import load_settings
from firmlake.enrich.observer import Observer
from firmlake.enrich.run import enrich
from firmlake.warehouse.generations import list_generations
from firmlake_sandbox.financials import list_financials
from firmlake_sandbox.numbers import BASE_BITS, COUNTRIES, parse_number, spell_number
from firmlake_sandbox.related import list_relationships
from firmlake_sandbox.world import EMPTIED, World, identify, is_found, list_events
from support import UNASKED, query

from . import recomputed

WEEKS = range(0, 24, 4)
LAST = WEEKS[-1]
RULES = """
[shrunk]
when = { equity = "< equity_before" }
[gone]
view = "company_status"
when = { status = "= 'not found'" }
"""
NODES = [parse_number(*company) or 0 for company in firmlake_sandbox.sample_numbers(2_500, seed=4)]


def happens_to(node: int) -> bool:
    """Tell whether more than usual happens to a company, such as a return with new accounts."""
    world = World(week=LAST, has_history=True)
    return any(list_events(world, node, event) for event in range(EMPTIED + 1)) or any(
        is_found(World(week=week), node) != is_found(World(week=week, has_history=True), node) for week in WEEKS
    )


def name(node: int) -> str:
    return COUNTRIES[node >> BASE_BITS] + spell_number(node)


def plain(value):
    return msgspec.json.decode(msgspec.json.encode(value))


def show(world: World, node: int):
    """All that a world says of a company, as `recomputed` wants it."""
    if not is_found(world, node):
        return None
    identifier = identify(world, node, "EN")
    return {
        "name": identifier.name, "place": identifier.place,
        "periods": [_period(one) for one in plain(list_financials(world, node, 500, 0)[0])],
        "parents": [
            {"company": _number(one["identifier"]), "function": one["function"], "stake": one["percentage"]}
            for one in plain(list_relationships(world, node, "EN"))["parents"] if one["identifier"]
        ],
    }  # fmt: skip


def _period(one):
    figures = {key: value for part in one.values() if isinstance(part, dict) for key, value in part.items()}
    return {
        "start": date.fromisoformat(one["startDate"]), "end": date.fromisoformat(one["endDate"]),
        "received": date.fromisoformat(one["dateReceived"]), "codes": one["jointCommitteeCodes"],
        "health": one["healthIndicator"], **figures,
    }  # fmt: skip


def _number(identifier):
    return name(parse_number(identifier["country"], identifier["companyNumber"]) or 0)


def has_one_entry_for_each_parent(node: int) -> bool:
    """Entries of one parent in two functions are told together; `recomputed` knows one."""
    owners = [one["company"] for one in (show(World(), node) or {"parents": ()})["parents"]]
    return len(owners) == len(set(owners))


pytestmark = pytest.mark.slow  # test_recomputed.py does the same with invented weeks


@pytest.fixture(scope="module")
def weeks(tmp_path_factory):
    """Run the pipeline in every fourth week: the data folder, the companies, and what the service showed of them."""
    folder = tmp_path_factory.mktemp("weeks")
    nodes = [node for node in NODES if happens_to(node)][:140] + NODES[:20]
    nodes = [node for node in dict.fromkeys(nodes) if has_one_entry_for_each_parent(node)]
    lines = "".join(f"{name(node)[:2]},{name(node)[2:]}\n" for node in nodes)
    (folder / "list.csv").write_text("country,company_number\n" + lines)
    (folder / "watch.toml").write_text(RULES)
    flags = {
        "api.requests_per_minute": "0", "paths.data": str(folder / "data"), "run.refresh_after_days": "0",
        "paths.alert_rules": str(folder / "watch.toml"),
        "run.datasets": "financials,relationships", "run.keep_generations": "9",
    }  # fmt: skip
    shown = []
    with (
        firmlake_sandbox.start("sandbox", requests_per_minute=0, history=True) as sandbox,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("FIRMLAKE_API_TOKEN", "sandbox")
        settings = load_settings(flags={**flags, "api.base_url": sandbox.base_url}, environment=UNASKED)[0]
        for week in WEEKS:
            sandbox.set_options(week=week)
            enrich(settings, folder / "list.csv", "a week", Observer())
            world = World(week=week, has_history=True)
            shown.append({name(node): show(world, node) for node in nodes})
    return Folders(folder / "data"), nodes, shown


def meets(state):
    """Tell by plain Python which rules a company meets, as the service shows it."""
    if state is None:
        return {"gone"}
    filings = {}
    for place, one in enumerate(state["periods"]):
        rank = one["received"], place
        filings.setdefault((one["start"], one["end"]), []).append((rank, one))
    periods = [max(filed, key=lambda each: each[0])[1] for filed in filings.values()]
    periods.sort(key=lambda one: (one["end"], one["received"], -one["start"].toordinal()), reverse=True)
    equities = [one["equity"] for one in periods[:2]]
    return {"shrunk"} if len(equities) == 2 and None not in equities and equities[0] < equities[1] else set()


def test_alerts_open_and_close_as_plain_python_says(weeks):
    """Companies whose figures may be in doubt in any week are left out: their alerts are told in test_alerts."""
    folders, _, shown = weeks
    doubtful = set()
    for path in list_generations(folders):
        with duckdb.connect(path, read_only=True) as connection:
            rows = connection.execute(
                "SELECT country || company_number FROM quality WHERE NOT is_comparable"
            ).fetchall()
            doubtful |= {company for (company,) in rows}
    expected, still_open = set(), {}
    for week, now in enumerate(shown):
        met = {(rule, company) for company, state in now.items() if company not in doubtful for rule in meets(state)}
        expected |= {(*alert, still_open.pop(alert), week) for alert in still_open.keys() - met}
        still_open |= dict.fromkeys(met - still_open.keys(), week)
    expected |= {(*alert, week, None) for alert, week in still_open.items()}
    runs = {run: week for week, (run,) in enumerate(query(folders, "SELECT run_id FROM loads ORDER BY generation"))}
    rows = query(folders, "SELECT rule, country || company_number, opened_run, closed_run FROM alerts")
    found = {(rule, company, runs[opened], runs.get(closed)) for rule, company, opened, closed in rows}
    found = {alert for alert in found if alert[1] not in doubtful}
    assert (found - expected, expected - found) == (set(), set())
    assert {(rule, closed is None) for rule, _, _, closed in found} == {
        ("shrunk", True), ("shrunk", False), ("gone", True), ("gone", False),
    }  # fmt: skip


def test_events_are_those_that_the_answers_differ_by(weeks):
    folders, _, shown = weeks
    runs = [run_id for (run_id,) in query(folders, "SELECT run_id FROM loads ORDER BY generation")]
    told = Counter()
    for run_id, expected in zip(runs, recomputed.list_events(shown), strict=True):
        rows = query(folders, f"""
            SELECT country || company_number, kind, end_date FROM changes WHERE run_id = '{run_id}'
            AND kind NOT IN ('health_up', 'health_down')
            AND (direction IS NULL OR direction = 'parent' AND related_company_number IS NOT NULL)
        """)  # fmt: skip
        found = Counter(rows)
        assert (found - expected, expected - found) == (Counter(), Counter())
        told.update(kind for _, kind, _ in rows)
    assert told.keys() == {
        "company_appeared", "company_gone", "company_renamed", "company_moved", "new_accounts", "period_returned",
        "period_restated", "period_removed", "committees_changed", "parent_in", "parent_out", "function_changed",
        "stake_changed",
    }  # fmt: skip


def test_each_week_is_as_it_was_shown(weeks):
    folders, _, shown = weeks
    runs = [run_id for (run_id,) in query(folders, "SELECT run_id FROM loads ORDER BY generation")]
    for run_id, now in zip(runs, shown, strict=True):
        rows = query(folders, f"SELECT country || company_number, start_date, end_date, date_received, equity::DOUBLE "
                              f"FROM financials_as_of('{run_id}')")  # fmt: skip
        assert Counter(rows) == Counter(
            (company, one["start"], one["end"], one["received"], one["equity"])
            for company, state in now.items() if state for one in state["periods"]
        )  # fmt: skip


def test_periods_that_were_filed_in_thousands_are_told(weeks):
    """All that a history divides, where two other periods tell the right level."""
    folders, nodes, _ = weeks
    without, world = World(week=LAST), World(week=LAST, has_history=True)
    planted = {
        (name(node), date.fromisoformat(now.end_date))
        for node in nodes if is_found(world, node)
        for first, now in _pairs(list_financials(without, node, 500, 0)[0], list_financials(world, node, 500, 0)[0])
        if first.solvency.total_assets > 100_000
        and abs(now.solvency.total_assets * 1000 / first.solvency.total_assets - 1) < 0.01
    }  # fmt: skip
    found = set(
        query(folders, "SELECT country || company_number, end_date FROM unit_errors WHERE presumed_unit = 1000")
    )
    assert len(planted) > 15
    assert len(planted & found) / len(planted) > 0.9, planted - found


def _pairs(before, after):
    """Pair the filings of a period, where it is long known and there are at least three."""
    first = {one.start_date: one for one in before}
    return [(first[one.start_date], one) for one in after if one.start_date in first] if len(first) > 2 else []
