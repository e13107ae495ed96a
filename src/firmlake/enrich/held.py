"""What earlier runs hold: the state of each company and dataset, what is paid for, and which run is unfinished."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.api.service import service_name
from firmlake.core.company import company_key
from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings, Settings
from firmlake.core.sql import read_queries
from firmlake.intake.lines import CompanyList, list_name_of
from firmlake.landing.charged import refresh_off, with_refresh_off
from firmlake.landing.run import Run, list_runs, unfinished_runs
from firmlake.report.bill import spent_by, spent_this_month
from firmlake.tables.index import AHEAD, DATASET, micros, open_index, read_answered, read_rows
from firmlake.warehouse.generations import lost_warehouse, newest_of_all, open_warehouse
from firmlake.warehouse.loads import MARGIN, Load, all_loads, closing_lead, run_loads

_SQL = read_queries(__file__)
_EPOCH = datetime(1970, 1, 1)
_PAID = pl.Schema({"company": pl.Int64(), "at": pl.Int64()})
_STATE = pl.Schema(
    {
        "company": pl.Int64(),
        "dataset": DATASET,
        **dict.fromkeys(("is_fresh", "is_closing", "is_left_out", "has_failed", "is_barred"), pl.Boolean()),
        "expected_count": pl.Int32(),
        **dict.fromkeys(("is_bought", "is_not_found"), pl.Boolean()),
    }
)


class Held(NamedTuple):
    """What the answers of all runs so far come to, for the companies that are planned.

    Attributes:
        state: One row per company and dataset that was asked for before: company (an integer key, since there may be
            millions), dataset, is_fresh, is_closing (its paid window certainly ends soon, and it was not requested in
            these last days), is_left_out (not found, because answers left it out; none is if every company is to be
            requested), has_failed, is_barred (the dataset was given up), expected_count (records in the last answer),
            is_bought (a credit was spent on the company), is_not_found.
        paid: Companies whose paid window lasts longer than a run: company (its key), free_until (UTC; the end of the
            window without its margin).
        totals: The number of financial periods of up to 200 companies; empty while a run has stopped midway.
        hits: Of all companies ever asked for, how many the service knew, and how many it did not; (0, 0) if `state`
            tells that for some of those that are planned.
        spent: Credits spent in the current calendar month.
        unfinished: The run without an end whose number this call takes up.
        answered: What that run need not ask any more: company (its key), dataset, is_bought (a credit was ever spent on
            the company).
        spent_before: The credits spent by that run.
        refresh_off: Why no company is refreshed for free; empty if free refreshes are on.
    """

    state: pl.DataFrame
    paid: pl.DataFrame
    totals: list[int]
    hits: tuple[int, int]
    spent: int
    unfinished: Run | None
    answered: pl.DataFrame
    spent_before: int
    refresh_off: str


def read_held(
    settings: Settings, folders: Folders, companies: CompanyList, now: datetime, *, of_all: bool = False
) -> Held:
    """Read what planning needs, from the index over all that has landed; `of_all` reads all companies ever asked for.

    A date in the future means that the clock was wrong when an answer or payment was recorded. Its real time is
    unknown, so the answer does not count as fresh, and the company does not count as paid for. The settings say how
    long an answer is fresh (0 makes none fresh); a run that is taken up goes on with its own limit.

    Raises:
        DamagedError: The warehouse is lost; or a run that is needed has lost its plan, or its tables and its answers.
            Restore them.
    """
    loads = _read_loads(folders, settings.run.duckdb_memory)
    runs = list_runs(folders, loaded := [load.name for load in loads])
    unfinished = _find_unfinished(settings, companies, unfinished_runs(runs, loaded), now)
    run = with_refresh_off(settings.run, why_not := refresh_off(settings.run, runs))
    if unfinished:
        run = msgspec.structs.replace(run, refresh_after_days=unfinished.plan.refresh_after_days)
    limits, financials = _limits(run, now), {"financials": list(DATASETS).index("financials")}
    with open_index(folders, runs, all_loads(loads, runs)) as index:
        _want(index, companies, unfinished, of_all=of_all)
        state = read_rows(index, _SQL["state"], limits, _STATE)
        is_told = pl.col("is_bought") | pl.col("is_not_found")
        paid = read_rows(index, _SQL["paid"], limits, _PAID)
        free_until = pl.col("at").cast(pl.Datetime("us")) + (timedelta(days=run.credit_window_days) - MARGIN)
        return Held(
            state,
            paid.select("company", free_until=free_until),
            [count for (count,) in index.execute(_SQL["totals"], financials)],
            (0, 0) if state.select(is_told.any()).item() else index.execute(_SQL["hits"]).fetchone(),
            spent_this_month(index, run, now),
            unfinished,
            read_answered(index, unfinished.run_id if unfinished else ""),
            spent_by(index, unfinished.run_id) if unfinished else 0,
            why_not,
        )


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


def is_of_call(settings: Settings, run: Run, companies: CompanyList) -> bool:
    """Return whether a call with these companies would have made a run, so that its end is the end of the call."""
    is_same = run.plan.subject == _subject(settings, companies)
    if companies.is_file:
        is_same &= (run.plan.list_sha256, run.plan.sample) == (companies.sha256, settings.run.sample)
    return is_same


def split_targets(
    unfinished: Run, held: Held, listed: pl.DataFrame, max_credits: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split off the targets that an unfinished run keeps when it is planned again: in their shards, with the answers.

    A company stays if it is paid for now, if nothing about it is left to request, or if it was answered without ever
    being paid for, as companies are that the service does not know; of these only those that are still listed, and no
    more than `max_credits`, unless that is -1. All others are planned as if the run had not asked for them: windows may
    have closed, and a budget may leave companies out. Return the targets that stay, and those of them that are still to
    be requested.
    """
    key = ["company", "dataset"]
    targets = _begun_targets(unfinished).collect()
    answered = held.answered.cast({"dataset": targets.schema["dataset"]})
    left = targets.join(answered, on=key, how="anti", maintain_order="left")
    unpaid = listed.select(company_key().alias("company")).join(left, on="company", how="semi", maintain_order="left")
    unpaid = unpaid.join(answered.filter(~pl.col("is_bought")), on="company", how="semi", maintain_order="left")
    if max_credits >= 0:
        unpaid = unpaid.head(max_credits)
    is_paid = _is_among(held.paid)
    targets = targets.filter(~_is_among(left) | is_paid | _is_among(unpaid))
    if held.refresh_off:  # the service charged for one, so none is asked for
        in_vain = left.filter("is_refresh")
        targets = targets.join(in_vain, on=key, how="anti", maintain_order="left")
    left = left.join(targets, on=key, how="semi", maintain_order="left")
    return targets.drop("company"), left.with_columns(is_paid=is_paid).drop("company")


def _is_among(companies: pl.DataFrame) -> pl.Expr:
    return pl.col("company").is_in(companies["company"].implode())


def _want(index: sqlite3.Connection, companies: CompanyList, unfinished: Run | None, *, of_all: bool) -> None:
    """Name the companies of which the state is read, in a table of this connection."""
    wanted = companies.companies.lazy().select(company_key().alias("company"))
    if unfinished:
        wanted = pl.concat([wanted, _begun_targets(unfinished).select("company")])
    index.execute("CREATE TEMP TABLE wanted(company INTEGER PRIMARY KEY)")
    index.execute("BEGIN")
    if of_all:
        index.execute(_SQL["want_all"])
    else:
        index.executemany("INSERT INTO wanted VALUES (?)", wanted.unique().sort("company").collect().iter_rows())
    index.execute("COMMIT")


def _begun_targets(run: Run) -> pl.LazyFrame:
    """Scan the targets of a run in the shards for which an answer has landed, with the key of each company."""
    return run.scan_targets().filter(pl.col("shard").is_in(run.begun)).with_columns(company_key().alias("company"))


def _limits(run: RunSettings, now: datetime) -> dict[str, int]:
    """Return what the state of a company is judged by; times as the index has them."""
    window, lead, latest = (
        timedelta(days=run.credit_window_days),
        closing_lead(run.free_refresh_days),
        micros(now + AHEAD),
    )
    return {
        "stale": micros(now - timedelta(days=run.refresh_after_days)),
        "refresh_after_days": run.refresh_after_days,
        "latest": latest,
        "latest_fresh": latest if run.refresh_after_days else micros(now),
        "closing_from": micros(now - window + MARGIN),
        "closing_until": micros(now - window + lead),
        "lead": int((window - lead) / timedelta(microseconds=1)),
    }


def _find_unfinished(settings: Settings, companies: CompanyList, runs: Sequence[Run], now: datetime) -> Run | None:
    """Find the newest run without an end of the same list, datasets and language, whose number this call takes up.

    The run must be of the same service and recent enough. It must not have treated answers as fresh that are stale by
    the current settings. The list may have changed since. A sample takes up only a sample, and the whole list none.
    """
    subject, fresh_days = _subject(settings, companies), settings.run.refresh_after_days
    for run in reversed(runs):
        is_same = run.plan.subject == subject and run.plan.refresh_after_days <= fresh_days
        is_same &= not settings.api.base_url or run.plan.service == service_name(settings)
        is_same &= run.plan.sample == (settings.run.sample if companies.is_file else 0)
        if is_same and run.plan.started_at > _oldest(settings, now) and run.outcome() is None:
            return run
    return None


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
