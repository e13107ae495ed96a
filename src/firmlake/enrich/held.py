"""What earlier runs hold: the state of each company and dataset, what is paid for, and which run is unfinished."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import accumulate
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.api.service import service_name
from firmlake.core.company import company_key, names_of
from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings
from firmlake.core.sql import read_queries
from firmlake.intake.lines import CompanyList, list_name_of
from firmlake.landing.charged import refresh_off, with_refresh_off
from firmlake.landing.run import CHECK, Run, list_runs, unfinished_runs
from firmlake.report.bill import spent_by, spent_this_month
from firmlake.tables.index import AHEAD, DATASET, micros, open_index, read_answered, read_rows
from firmlake.warehouse.generations import lost_warehouse, newest_of_all, open_warehouse
from firmlake.warehouse.loads import MARGIN, Load, all_loads, closing_lead, run_loads

_SQL = read_queries(__file__)


class Landed(NamedTuple):
    """What has landed for a run that is not in the warehouse.

    Attributes:
        credit_count: Credits that it has spent.
        bought: The companies that it has bought: company.
        answered: What it need not ask any more: company, dataset.
    """

    credit_count: int
    bought: pl.DataFrame
    answered: pl.DataFrame


class Held(NamedTuple):
    """What the answers of all runs so far come to.

    Attributes:
        state: One row per company and dataset ever asked for: company (an integer key, since there may be millions),
            dataset, is_fresh, is_closing (its paid window certainly ends soon, and it was not requested in these last
            days), is_left_out (not found, because answers left it out; none is if every company is to be requested),
            has_failed, is_barred (the dataset was given up), expected_count (records in the last answer), is_bought
            (a credit was spent on the company), is_not_found.
        paid: Companies whose paid window lasts longer than a run: country, company_number, free_until (UTC; the end of
            the window without its margin).
        totals: Up to 199 quantiles of the number of financial periods per company; empty if too few are known.
        runs: The runs that can be read, oldest first.
        loaded: Names of the runs in the warehouse.
        landed: What has landed for each of `runs` that is not loaded, by name.
        ahead: The number of answers dated in the future and the latest such time (UTC); None if there are none.
        spent: Credits spent in the current calendar month.
        refresh_off: Why no company is refreshed for free; empty if free refreshes are on.
    """

    state: pl.DataFrame
    paid: pl.DataFrame
    totals: list[int]
    runs: Sequence[Run] = ()
    loaded: Collection[str] = ()
    landed: Mapping[str, Landed] = MappingProxyType({})
    ahead: tuple[int, datetime] | None = None
    spent: int = 0
    refresh_off: str = ""


def read_held(settings: Settings, folders: Folders, now: datetime) -> Held:
    """Read what planning needs, from the index and from what has landed for runs that are not in the warehouse.

    A date in the future means that the clock was wrong when an answer or payment was recorded. Its real time is
    unknown, so the answer does not count as fresh, and the company does not count as paid for.

    Args:
        settings: How long an answer is fresh (0 makes none fresh) and a company paid for, and when it is refreshed for
            free.
        folders: The data folder.
        now: UTC.

    Raises:
        DamagedError: The warehouse is lost; or a run that is needed has lost its plan, or its tables and its answers.
            Restore them.
    """
    loads = _read_loads(folders, settings.run.duckdb_memory)
    runs = list_runs(folders, loaded := [load.name for load in loads])
    run = with_refresh_off(settings.run, why_not := refresh_off(settings.run, runs))
    with open_index(folders, runs, all_loads(loads, runs)) as index:
        held = _read_index(index, now, run.refresh_after_days, run.credit_window_days, run.free_refresh_days)
        spent = spent_this_month(index, run, now)
        open_runs = {
            name: Landed(
                spent_by(index, number),
                read_rows(index, _SQL["bought"], {"run": number}, pl.Schema({"company": pl.Int64()})),
                read_answered(index, name),
            )
            for number, name in index.execute(_SQL["not_loaded"]).fetchall()
        }
    return held._replace(runs=runs, loaded=loaded, landed=open_runs, spent=spent, refresh_off=why_not)


def renew_index(folders: Folders, memory_limit: str) -> None:
    """Read into the index what has just been published, so that whoever plans next need not."""
    loads = _read_loads(folders, memory_limit)
    with suppress(DamagedError):
        runs = list_runs(folders, [load.name for load in loads])
        with open_index(folders, runs, all_loads(loads, runs)):
            pass


def find_unloaded(settings: Settings, folders: Folders) -> list[Run]:
    """Find the runs that ended and are not in the warehouse, in the order of their end; refused ones once released."""
    loaded = {load.name for load in _read_loads(folders, settings.run.duckdb_memory)}
    runs = [run for run in list_runs(folders, loaded) if run.run_id not in loaded]
    ended = [(outcome.finished_at, run.run_id, run) for run in runs if (outcome := run.outcome())]
    return [run for *_, run in sorted(ended, key=lambda end: end[:2]) if not _is_refused(settings, run)]


def _read_loads(folders: Folders, memory_limit: str) -> list[Load]:
    if newest_of_all(folders) is None:
        if lost := lost_warehouse(folders, unloaded_max=1):
            raise lost  # otherwise every company would be paid for again
        return []
    with open_warehouse(folders, with_held=True, memory_limit=memory_limit) as connection:
        return run_loads(connection)


def _read_index(
    index: sqlite3.Connection,
    now: datetime,
    refresh_after_days: int,
    window_days: int,
    free_refresh_days: int = 0,
) -> Held:
    moment, window, lead = micros(now), timedelta(days=window_days), closing_lead(free_refresh_days)
    latest = micros(now + AHEAD)
    values = {
        "stale": micros(now - timedelta(days=refresh_after_days)),
        "latest": latest if refresh_after_days else moment,
        "closing_from": micros(now - window + MARGIN),
        "closing_until": micros(now - window + lead),
        "lead": int((window - lead) / timedelta(microseconds=1)),
        "refresh_after_days": refresh_after_days,
    }
    state = read_rows(index, _SQL["state"], values, _STATE)
    limits = {"from": values["closing_from"], "latest": latest}
    paid = read_rows(index, _SQL["paid"], limits, pl.Schema({"company": pl.Int64(), "at": pl.Int64()}))
    free_until = (paid["at"].cast(pl.Datetime("us")) + (window - MARGIN)).alias("free_until")
    counts = index.execute(_SQL["counts"], {"financials": list(DATASETS).index("financials")}).fetchall()
    ((ahead_count, ahead_last),) = index.execute(_SQL["ahead"], [latest]).fetchall()
    return Held(
        state,
        names_of(paid["company"]).with_columns(free_until),
        _quantiles(counts),
        ahead=(ahead_count, _EPOCH + timedelta(microseconds=ahead_last)) if ahead_count else None,
    )


def _quantiles(counts: Sequence[tuple[int, int]]) -> list[int]:
    """Return 199 quantiles of numbers of records, each given with how often it occurs, in order."""
    total = sum(count for _, count in counts)
    ends = list(accumulate(count for _, count in counts))
    return [counts[bisect_left(ends, max(1, ceil(total * place / 200)))][0] for place in range(1, 200)] if total else []


_EPOCH = datetime(1970, 1, 1)
_STATE = pl.Schema(
    {
        "company": pl.Int64(),
        "dataset": DATASET,
        "is_fresh": pl.Boolean(),
        "is_closing": pl.Boolean(),
        "is_left_out": pl.Boolean(),
        "has_failed": pl.Boolean(),
        "is_barred": pl.Boolean(),
        "expected_count": pl.Int32(),
        "is_bought": pl.Boolean(),
        "is_not_found": pl.Boolean(),
    }
)


def find_unfinished(settings: Settings, companies: CompanyList, held: Held, now: datetime) -> Run | None:
    """Find the newest run without an end of the same list, datasets and language, whose number this call takes up.

    The run must be of the same service and recent enough. It must not have treated answers as fresh that are stale by
    the current settings. The list may have changed since. A sample takes up only a sample, and the whole list none.
    """
    oldest, fresh_days = _oldest(settings, now), settings.run.refresh_after_days
    subject = _subject(settings, companies)
    for run in reversed(unfinished_runs(held.runs, held.loaded)):
        is_same = run.plan.subject == subject and run.plan.refresh_after_days <= fresh_days
        is_same &= not settings.api.base_url or run.plan.service == service_name(settings)
        is_same &= run.plan.sample == (settings.run.sample if companies.is_file else 0)
        if is_same and run.plan.started_at > oldest and run.outcome() is None:
            return run
    return None


def is_of_call(settings: Settings, run: Run, companies: CompanyList) -> bool:
    """Return whether a call with these companies would have made a run, so that its end is the end of the call."""
    is_same = run.plan.subject == _subject(settings, companies)
    if companies.is_file:
        is_same &= (run.plan.list_sha256, run.plan.sample) == (companies.sha256, settings.run.sample)
    return is_same


def spent_before(settings: Settings, companies: CompanyList, unfinished: Run | None, held: Held, now: datetime) -> int:
    """Count the credits spent by the run to take up, or by the last one of its subject if that was refused for drift.

    Otherwise each further run would spend a whole budget for nothing.
    """
    if (last := unfinished) is None:
        subject, oldest = _subject(settings, companies), _oldest(settings, now)
        runs = [run for run in held.runs if run.plan.subject == subject]
        outcome = runs[-1].outcome() if runs and runs[-1].plan.started_at > oldest else None
        if outcome is None or not outcome.is_refused:
            return 0
        last = runs[-1]
    return last.plan.credits_before + (held.landed[last.run_id].credit_count if last.run_id in held.landed else 0)


def read_kept(unfinished: Run, held: Held) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read the targets that an interrupted run keeps when it is planned again: in their shards, where the answers are.

    A company stays if it is paid for now, or if nothing about it is left to request. All others are planned as if the
    run had not asked for them: windows may have closed, and a budget may leave companies out.

    Returns:
        The targets that stay, and those of them that are still to be requested.
    """
    key = ["company", "dataset"]
    begun = unfinished.scan_targets().filter(pl.col("shard").is_in(unfinished.begun))
    targets = begun.with_columns(company_key().alias("company")).collect()
    answered = held.landed[unfinished.run_id].answered.cast({"dataset": targets.schema["dataset"]})
    is_open = pl.col("company").is_in(targets.join(answered, on=key, how="anti")["company"].implode())
    is_paid = pl.col("company").is_in(held.paid.select(company_key().alias("key"))["key"].implode())
    targets = targets.filter(~is_open | is_paid)
    if held.refresh_off:  # the service charged for one, so none is asked for
        in_vain = targets.filter("is_refresh").join(answered, on=key, how="anti")
        targets = targets.join(in_vain, on=key, how="anti", maintain_order="left")
    left = targets.join(answered, on=key, how="anti", maintain_order="left")
    return targets.drop("company"), left.drop("company").with_columns(is_paid=True)


def find_others(
    settings: Settings, companies: CompanyList, targets: pl.DataFrame, unfinished: Run | None, held: Held, now: datetime
) -> tuple[tuple[Run, int], ...]:
    """Find the other unfinished runs, apart from checks, that have already bought some of the planned companies."""
    asked = targets.lazy().select(company_key().alias("company")).unique()  # lazy: a million companies are not copied
    found = (
        (run, asked.join(held.landed[run.run_id].bought.lazy(), on="company", how="semi").collect().height)
        for run in held.runs
        if run.run_id in held.landed
        and run.outcome() is None
        and run.plan.list_sha256 != companies.sha256
        and run != unfinished
        and run.plan.list_name != CHECK  # a check may never end with this service
        and run.plan.started_at > _oldest(settings, now)
    )
    return tuple((run, count) for run, count in found if count)


def _subject(settings: Settings, companies: CompanyList) -> tuple[str, tuple[str, ...], str]:
    """Return the subject of a run over these companies, as `RunPlan.subject`."""
    name = companies.path.name
    if companies.is_file:
        name = settings.run.list_name or list_name_of(companies.path)
    return name.casefold(), settings.run.datasets, settings.api.language


def _oldest(settings: Settings, now: datetime) -> datetime:
    """Return the earliest start of a run that may still be resumed."""
    return now - timedelta(days=max(1, settings.run.refresh_after_days))


def _is_refused(settings: Settings, run: Run) -> bool:
    outcome = run.outcome()
    return outcome is not None and outcome.is_refused and outcome.vanished_share > settings.run.vanished_share_max
