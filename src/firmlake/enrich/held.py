"""What earlier runs hold: the state of each company and dataset, what is paid for, and which run is unfinished."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from math import ceil
from typing import NamedTuple

import duckdb
import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.api.service import is_service
from firmlake.core.folders import Folders
from firmlake.core.run import Run, list_runs, unfinished_runs
from firmlake.core.settings import Settings
from firmlake.intake.company_list import CompanyList
from firmlake.intake.key import KEY_SQL, company_key, names_of
from firmlake.intake.members import list_name_of
from firmlake.tables.underway import Underway
from firmlake.warehouse.load import AHEAD, check_keys
from firmlake.warehouse.loads import MARGIN, UNSURE, closing_lead, loaded_runs


class Held(NamedTuple):
    """What the warehouse and the unfinished runs hold.

    Attributes:
        state: One row per company and dataset ever asked for: company (an integer key, since there may be millions),
            dataset, is_fresh, is_closing (its paid window certainly ends soon, and it was not requested in these last
            days), is_left_out (not found, because answers left it out; none is if every company is to be requested),
            has_failed, is_barred (the dataset was given up), expected_count (records in the last answer).
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


def read_held(
    connection: duckdb.DuckDBPyConnection | None,
    now: datetime,
    refresh_after_days: int,
    window_days: int,
    underway: Iterable[Underway] = (),
    free_refresh_days: int = 0,
) -> Held:
    """Read what planning needs from earlier runs.

    A date in the future means that the clock was wrong when an answer or payment was recorded. Its real time is
    unknown, so the answer does not count as fresh, and the company does not count as paid for.

    Args:
        connection: The newest generation, or None before the first.
        now: UTC.
        refresh_after_days: An answer younger than this is fresh; 0 makes no answer fresh.
        window_days: Length of the paid window. A window that ends within `MARGIN` counts as over.
        underway: What has landed of runs that are not in the warehouse, oldest first. Their companies are paid for.
        free_refresh_days: How long before the end of its paid window a company is closing; 0 makes none closing.

    Raises:
        DamagedError: A company occurs twice in the warehouse, so its state is ambiguous.
    """
    moment, window, underway = now.replace(tzinfo=None), timedelta(days=window_days), tuple(underway)
    paid = pl.DataFrame(schema=_PAID_SCHEMA)
    if connection is not None:
        check_keys(connection)
        # Older payments cannot share a window with an answer that landed since.
        paid = _frame(connection, _PAID, [moment - 2 * window], _PAID_SCHEMA)
    for each in underway:
        paid = _add_windows(paid, each.paid, window)
    latest = moment + AHEAD
    is_inside = pl.col("paid_at").is_between(moment - window + MARGIN, latest, closed="right")
    paid = paid.filter(is_inside).select(*_KEY, free_until=pl.col("paid_at") + (window - MARGIN))
    if connection is None:
        return Held(pl.DataFrame(schema=_STATE_SCHEMA), paid, [], [], underway)
    fresh: list[object] = [moment - timedelta(days=refresh_after_days), latest if refresh_after_days else moment]
    lead = closing_lead(free_refresh_days)
    closing = [moment - window + MARGIN, moment - window + lead, window - lead]
    return Held(
        _frame(connection, _STATE, [*fresh, *closing, refresh_after_days], _STATE_SCHEMA),
        paid,
        [total for (total,) in connection.execute(_TOTALS).fetchall()],
        loaded_runs(connection),
        underway,
        _read_ahead(connection, latest),
    )


def read_index(
    index: sqlite3.Connection,
    now: datetime,
    refresh_after_days: int,
    window_days: int,
    free_refresh_days: int = 0,
) -> Held:
    """Read what planning needs from the index; the arguments are those of `read_held`."""
    moment, window, lead = _micros(now), timedelta(days=window_days), closing_lead(free_refresh_days)
    latest = _micros(now + AHEAD)
    values = {
        "stale": _micros(now - timedelta(days=refresh_after_days)),
        "latest": latest if refresh_after_days else moment,
        "closing_from": _micros(now - window + MARGIN),
        "closing_until": _micros(now - window + lead),
        "lead": int((window - lead) / timedelta(microseconds=1)),
        "refresh_after_days": refresh_after_days,
    }
    state = _rows(index, _INDEX_STATE, values, pl.Schema({**_STATE_SCHEMA, "dataset": pl.Int8()}))
    paid = _rows(
        index, _INDEX_PAID, {"from": values["closing_from"], "latest": latest}, pl.Schema({"company": pl.Int64()})
    )
    counts = index.execute(_INDEX_COUNTS).fetchall()
    ((ahead_count, ahead_last),) = index.execute(_INDEX_AHEAD, [latest]).fetchall()
    return Held(
        state.with_columns(
            pl.col("dataset").replace_strict(range(len(DATASETS)), list(DATASETS), return_dtype=pl.Enum(list(DATASETS)))
        ),
        names_of(paid["company"]),
        _quantiles(counts) if index.execute(_INDEX_IS_ENOUGH).fetchone() else [],
        [name for (name,) in index.execute("SELECT name FROM run WHERE position IS NOT NULL ORDER BY position")],
        ahead=(ahead_count, _EPOCH + timedelta(microseconds=ahead_last)) if ahead_count else None,
    )


def index_spent(index: sqlite3.Connection, since: datetime) -> int:
    """Count the credits spent since some time: those that answers report or the purchases, whichever is more."""
    ((count,),) = index.execute(_INDEX_SPENT, {"since": _micros(since)}).fetchall()
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


def _micros(moment: datetime) -> int:
    return int((moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))


_DATASETS = list(DATASETS)
_DATASET = pl.Enum(_DATASETS)
_EPOCH = datetime(1970, 1, 1)
_INDEX_STATE = """
    WITH newest AS (SELECT company, max(at) AS paid_at, is_confirmed FROM purchase GROUP BY company)
    SELECT s.company, dataset,
           coalesce(status NOT IN ('failed', 'forbidden', 'unavailable', 'waiting')
                    AND at > :stale AND at <= :latest, 0) AS is_fresh,
           coalesce(paid_at > :closing_from AND paid_at <= :closing_until AND at < paid_at + :lead
                    AND is_confirmed, 0) AS is_closing,
           :refresh_after_days > 0 AND is_left_out AS is_left_out,
           status = 'failed' OR coalesce(reject_count, 0) > 0 AS has_failed,
           status IN ('forbidden', 'unavailable') AS is_barred,
           nullif(record_count + reject_count, 0) AS expected_count
    FROM said s LEFT JOIN newest USING (company)
"""
_INDEX_PAID = """
    SELECT company FROM purchase GROUP BY company HAVING max(at) FILTER (WHERE at <= :latest) > :from ORDER BY company
"""
_INDEX_AHEAD = "SELECT count(*), max(at) FROM said WHERE at > ?"
_FINANCIALS = f"FROM said WHERE dataset = {list(DATASETS).index('financials')}"
_INDEX_COUNTS = f"SELECT record_count + reject_count, count(*) {_FINANCIALS} AND record_count > 0 GROUP BY 1 ORDER BY 1"
# After a run that stopped midway only short histories are complete, which would bias the estimate for the rest.
_INDEX_IS_ENOUGH = f"""
    SELECT 1 WHERE (SELECT count(*) {_FINANCIALS} AND record_count > 0) > 10 * (
        SELECT count(*) {_FINANCIALS} AND status = 'waiting' AND record_count IS NULL
        AND company IN (SELECT company FROM purchase)
    )
"""  # noqa: S608 - constants of this module only
_INDEX_SPENT = """
    SELECT max((SELECT coalesce(sum(credits), 0) FROM charge WHERE at >= :since),
               (SELECT count(*) FROM purchase WHERE at >= :since))
"""


_KEY = ("country", "company_number")
_PAID_SCHEMA = pl.Schema({"country": pl.String(), "company_number": pl.String(), "paid_at": pl.Datetime("us")})
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
    }
)
_ROWS_AT_ONCE = 100_000
_STATE = f"""
    WITH unsure AS ({UNSURE})
    SELECT {KEY_SQL} AS company, dataset,
           coalesce(status NOT IN ('failed', 'forbidden', 'unavailable', 'waiting')
                    AND s.fetched_at > ? AND s.fetched_at <= ?, false) AS is_fresh,
           coalesce(paid_at > ? AND paid_at <= ? AND s.fetched_at < paid_at + ?
                    AND paid_at NOT IN (FROM unsure), false) AS is_closing,
           ? > 0 AND status = 'not_found' AND (s.run_id, dataset) IN (
               SELECT (run_id, dataset) FROM drift WHERE kind = 'left_out'
           ) AS is_left_out,
           status = 'failed' OR coalesce(reject_count, 0) > 0 AS has_failed,
           status IN ('forbidden', 'unavailable') AS is_barred,
           nullif(record_count + reject_count, 0) AS expected_count
    FROM company_state s LEFT JOIN companies USING (country, company_number)
"""  # noqa: S608 - constants of this module only
_AHEAD = "SELECT count(*), max(fetched_at) FROM company_state WHERE fetched_at > ?"
_PAID = "SELECT country, company_number, paid_at FROM companies WHERE paid_at > ?"
# After a run that stopped midway only short histories are complete, which would bias the estimate for the rest.
_TOTALS = """
    SELECT unnest(totals) FROM (
        SELECT quantile_disc(record_count + reject_count, [i / 200.0 for i in range(1, 200)]) AS totals,
               count(*) AS whole_count
        FROM company_state WHERE dataset = 'financials' AND record_count > 0
    )
    WHERE whole_count > 10 * (
        SELECT count(*) FROM company_state SEMI JOIN (FROM companies WHERE paid_at IS NOT NULL)
        USING (country, company_number)
        WHERE dataset = 'financials' AND status = 'waiting' AND record_count IS NULL
    )
"""


def _read_ahead(connection: duckdb.DuckDBPyConnection, latest: datetime) -> tuple[int, datetime] | None:
    count, last = connection.execute(_AHEAD, [latest]).fetchall()[0]
    return (count, last) if count else None


def _add_windows(paid: pl.DataFrame, landed: pl.DataFrame, window: timedelta) -> pl.DataFrame:
    """Add landed answers to the paid windows. An answer inside a window does not start a new one."""
    first, last = pl.col("paid_at").min(), pl.col("paid_at").max()
    both = pl.concat([paid.join(landed, on=_KEY, how="semi"), landed])
    begun = both.group_by(*_KEY).agg(pl.when(last >= first + window).then(last).otherwise(first).alias("paid_at"))
    return pl.concat([paid.join(landed, on=_KEY, how="anti"), begun])


def _frame(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: list[object], schema: pl.Schema
) -> pl.DataFrame:
    """Read rows in batches, so that memory holds millions of them only once, in the narrow types of the schema."""
    batches = connection.sql(query, params=parameters).to_arrow_reader(_ROWS_AT_ONCE)
    return pl.concat(
        [pl.DataFrame(schema=schema), *(pl.DataFrame(pl.from_arrow(each)).cast(schema) for each in batches)]
    )


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
