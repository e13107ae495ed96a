"""What earlier runs hold: the state of each company and dataset, what is paid for, and which run is unfinished."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import accumulate
from math import ceil
from typing import NamedTuple
from zoneinfo import ZoneInfo

import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.api.service import is_service
from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.core.run import Run, list_runs, unfinished_runs
from firmlake.core.settings import Settings
from firmlake.intake.company_list import CompanyList
from firmlake.intake.key import company_key, names_of
from firmlake.intake.lines import list_name_of
from firmlake.landing.charged import with_refresh_off
from firmlake.report.bill import month_start
from firmlake.tables.index import AHEAD, micros, open_index
from firmlake.tables.underway import Underway, is_recent, read_underway
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake.warehouse.loads import MARGIN, closing_lead, loaded_runs, read_loads


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
        runs: Runs in the warehouse, oldest first.
        underway: What has landed of runs that are not in the warehouse.
        ahead: The number of answers dated in the future and the latest such time (UTC); None if there are none.
        spent: Credits spent in the current calendar month.
    """

    state: pl.DataFrame
    paid: pl.DataFrame
    totals: list[int]
    runs: list[str]
    underway: tuple[Underway, ...] = ()
    ahead: tuple[int, datetime] | None = None
    spent: int = 0


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
        DamagedError: A run that is needed has lost its plan, or its tables and its answers. Restore them.
    """
    run = with_refresh_off(settings.run, folders)
    loads = _read_loads(folders, run.duckdb_memory)
    runs = list_runs(folders, loaded := [name for name, _ in loads])
    unloaded = [each for each in runs if each.run_id not in loaded]
    underway = tuple(read_underway(each) for each in unloaded if is_recent(each.plan, run, now))
    with open_index(folders, runs, loads) as index:
        held = _read_index(index, now, run.refresh_after_days, run.credit_window_days, run.free_refresh_days)
        spent = _read_spent(index, month_start(now, ZoneInfo(run.time_zone)))
    return held._replace(underway=underway, spent=spent)


def renew_index(folders: Folders, memory_limit: str) -> None:
    """Read into the index what has just been published, so that whoever plans next need not."""
    loads = _read_loads(folders, memory_limit)
    with suppress(DamagedError), open_index(folders, list_runs(folders, [name for name, _ in loads]), loads):
        pass


def _read_loads(folders: Folders, memory_limit: str) -> list[tuple[str, datetime]]:
    if newest(folders) is None:
        return []
    with open_warehouse(folders, memory_limit=memory_limit) as connection:
        loaded = set(loaded_runs(connection))
        return [(load.name, load.loaded_at) for load in read_loads(connection) if load.name in loaded]


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
    state = _rows(index, _STATE, values, pl.Schema({**_STATE_SCHEMA, "dataset": pl.Int8()}))
    limits = {"from": values["closing_from"], "latest": latest}
    paid = _rows(index, _PAID, limits, pl.Schema({"company": pl.Int64(), "at": pl.Int64()}))
    free_until = (paid["at"].cast(pl.Datetime("us")) + (window - MARGIN)).alias("free_until")
    counts = index.execute(_COUNTS).fetchall()
    ((ahead_count, ahead_last),) = index.execute(_AHEAD, [latest]).fetchall()
    return Held(
        state.with_columns(
            pl.col("dataset").replace_strict(range(len(DATASETS)), list(DATASETS), return_dtype=pl.Enum(list(DATASETS)))
        ),
        names_of(paid["company"]).with_columns(free_until),
        _quantiles(counts) if index.execute(_IS_ENOUGH).fetchone() else [],
        [name for (name,) in index.execute("SELECT name FROM run WHERE position IS NOT NULL ORDER BY position")],
        ahead=(ahead_count, _EPOCH + timedelta(microseconds=ahead_last)) if ahead_count else None,
    )


def _read_spent(index: sqlite3.Connection, since: datetime) -> int:
    """Count the credits spent since some time: those that answers report or the purchases, whichever is more."""
    ((count,),) = index.execute(_SPENT, {"since": micros(since)}).fetchall()
    return int(count)


def _quantiles(counts: Sequence[tuple[int, int]]) -> list[int]:
    """Return 199 quantiles of numbers of records, each given with how often it occurs, in order."""
    total = sum(count for _, count in counts)
    ends = list(accumulate(count for _, count in counts))
    return [counts[bisect_left(ends, max(1, ceil(total * place / 200)))][0] for place in range(1, 200)] if total else []


def _rows(index: sqlite3.Connection, query: str, values: Mapping[str, int], schema: pl.Schema) -> pl.DataFrame:
    """Read rows in batches, in the narrow types of the schema."""
    cursor, frames = index.execute(query, values), [pl.DataFrame(schema=schema)]
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        frames.append(pl.DataFrame(rows, schema={name: pl.Int64() for name in schema}, orient="row").cast(schema))
    return pl.concat(frames)


_DATASETS = list(DATASETS)
_DATASET = pl.Enum(_DATASETS)
_EPOCH = datetime(1970, 1, 1)
# If a request and its run were charged for fewer companies than they bought, somebody else paid for some of them, whose
# windows began earlier. So none of them is refreshed for free.
_STATE = """
    WITH bought AS (SELECT run, at, count(*) AS companies FROM purchase GROUP BY run, at),
         charged AS (SELECT run, at, max(credits) AS credits FROM charge GROUP BY run, at),
         unsure AS (
             SELECT at FROM bought b JOIN charged USING (run, at)
             WHERE credits < companies
             AND (SELECT sum(credits) FROM charge WHERE run = b.run)
                 < (SELECT sum(companies) FROM bought WHERE run = b.run)
         ),
         newest AS (SELECT company, max(at) AS paid_at FROM purchase GROUP BY company)
    SELECT s.company, dataset,
           coalesce(status NOT IN ('failed', 'forbidden', 'unavailable', 'waiting')
                    AND at > :stale AND at <= :latest, 0) AS is_fresh,
           coalesce(paid_at > :closing_from AND paid_at <= :closing_until AND at < paid_at + :lead
                    AND paid_at NOT IN (SELECT at FROM unsure), 0) AS is_closing,
           :refresh_after_days > 0 AND is_left_out AS is_left_out,
           status = 'failed' OR coalesce(reject_count, 0) > 0 AS has_failed,
           status IN ('forbidden', 'unavailable') AS is_barred,
           nullif(record_count + reject_count, 0) AS expected_count,
           paid_at IS NOT NULL AS is_bought, coalesce(status = 'not_found', 0) AS is_not_found
    FROM said s LEFT JOIN newest USING (company)
"""
_PAID = """
    SELECT company, max(at) AS at FROM purchase WHERE at <= :latest GROUP BY company HAVING max(at) > :from
"""
_AHEAD = "SELECT count(*), max(at) FROM said WHERE at > ?"
_FINANCIALS = f"FROM said WHERE dataset = {list(DATASETS).index('financials')}"
_COUNTS = f"SELECT record_count + reject_count, count(*) {_FINANCIALS} AND record_count > 0 GROUP BY 1 ORDER BY 1"
# After a run that stopped midway only short histories are complete, which would bias the estimate for the rest.
_IS_ENOUGH = f"""
    SELECT 1 WHERE (SELECT count(*) {_FINANCIALS} AND record_count > 0) > 10 * (
        SELECT count(*) {_FINANCIALS} AND status = 'waiting' AND record_count IS NULL
        AND company IN (SELECT company FROM purchase)
    )
"""  # noqa: S608 - constants of this module only
_SPENT = """
    SELECT max((SELECT coalesce(sum(credits), 0) FROM charge WHERE at >= :since),
               (SELECT count(*) FROM purchase WHERE at >= :since))
"""


_STATE_SCHEMA = pl.Schema(
    {
        "company": pl.Int64(),
        "dataset": pl.Enum(list(DATASETS)),
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
_ROWS_AT_ONCE = 100_000


def find_unfinished(
    settings: Settings, folders: Folders, companies: CompanyList, held: Held, now: datetime
) -> Run | None:
    """Find the newest run over the same companies that can be resumed.

    The run must be of the same service, recent enough and not refused. It must not have treated answers as fresh that
    are stale by the current settings.
    """
    oldest, fresh_days = _oldest(settings, now), settings.run.refresh_after_days
    subject = _subject(settings, companies)
    for run in reversed(unfinished_runs(list_runs(folders, held.runs), held.runs)):
        is_same = run.plan.subject == subject and run.plan.refresh_after_days <= fresh_days
        is_same &= not settings.api.base_url or is_service(settings, run.plan.service)
        if is_same and run.plan.started_at > oldest and not _is_refused(settings, run):
            return run
    return None


def spent_before(
    settings: Settings,
    folders: Folders,
    companies: CompanyList,
    unfinished: Run | None,
    held: Held,
    now: datetime,
) -> int:
    """Count the credits spent by the run to resume or to replace, including those of earlier attempts.

    A run refused for drift counts as replaced: otherwise each further run would spend a whole budget for nothing.
    """
    if (last := unfinished) is None:
        subject, oldest = _subject(settings, companies), _oldest(settings, now)
        runs = [run for run in list_runs(folders, held.runs) if run.plan.subject == subject]
        if not runs or runs[-1].plan.started_at <= oldest:
            return 0
        last = runs[-1]
    outcome = last.outcome()
    if last == unfinished or (outcome and outcome.is_refused):
        return last.plan.credits_before + sum(each.credit_count for each in held.underway if each.run == last)
    return outcome.credits_passed_on if outcome else 0


def find_replaced(settings: Settings, companies: CompanyList, held: Held) -> tuple[Run, ...]:
    """Find the unfinished runs of earlier versions of the list. They had other companies, so they cannot be resumed.

    A sample replaces nothing: it has other companies, but the run over the whole list can still be resumed.
    """
    if not companies.is_file or settings.run.sample:
        return ()
    name = (settings.run.list_name or list_name_of(companies.path)).casefold()
    return tuple(
        each.run
        for each in held.underway
        if each.run.plan.company_list.casefold() == name
        and each.run.plan.list_sha256 != companies.sha256
        and not _is_refused(settings, each.run)
    )


def find_others(
    settings: Settings,
    companies: CompanyList,
    targets: pl.DataFrame,
    held: Held,
    now: datetime,
    replaced: Collection[Run] = (),
) -> tuple[tuple[Run, int], ...]:
    """Find the unfinished runs, except `replaced`, that already hold answers about the planned companies."""
    key = ["country", "company_number"]
    asked = targets.lazy().select(pl.col(key).cast(pl.String))  # lazy: a million companies are not copied
    counts = (
        (each.run, asked.join(each.paid.lazy(), on=key, how="semi").unique().collect().height)
        for each in held.underway
        if each.run.plan.list_sha256 != companies.sha256
        and each.run not in replaced
        and each.run.plan.started_at > _oldest(settings, now)
    )
    return tuple((run, count) for run, count in counts if count and not _is_refused(settings, run))


def targets_left(unfinished: Run, held: Held) -> pl.DataFrame:
    """Read the targets that an unfinished run still has to request, and mark those that are paid for by now."""
    underway = _underway(unfinished, held)
    return underway.targets_left().with_columns(is_paid=_is_among(held.paid))


def has_lapsed(unfinished: Run, held: Held) -> bool:
    """Return whether a company that an unfinished run still has to request was free for it and is not any more."""
    underway = _underway(unfinished, held)
    was_paid = pl.col("is_paid") | _is_among(underway.paid)
    return not underway.targets_left().filter(was_paid & ~_is_among(held.paid)).is_empty()


def _underway(unfinished: Run, held: Held) -> Underway:
    (found,) = (each for each in held.underway if each.run == unfinished)
    return found


def _is_among(companies: pl.DataFrame) -> pl.Expr:
    return company_key().is_in(companies.select(company_key().alias("key"))["key"].implode())


def _subject(settings: Settings, companies: CompanyList) -> tuple[str, tuple[str, ...], str]:
    """Return the subject of a run over these companies, as `RunPlan.subject`."""
    return companies.sha256, settings.run.datasets, settings.api.language


def _oldest(settings: Settings, now: datetime) -> datetime:
    """Return the earliest start of a run that may still be resumed."""
    return now - timedelta(days=max(1, settings.run.refresh_after_days))


def _is_refused(settings: Settings, run: Run) -> bool:
    outcome = run.outcome()
    return outcome is not None and outcome.is_refused and outcome.vanished_share > settings.run.vanished_share_max
