"""The bill: credits spent this month, refreshes that cost nothing, and what the next four weeks will cost, by day."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import duckdb
import msgspec
import polars as pl

from firmlake.core.company import company_key
from firmlake.core.settings import RunSettings
from firmlake.core.sql import read_queries
from firmlake.landing.run import Run
from firmlake.tables.index import DATASET, micros, read_answered, read_rows
from firmlake.warehouse.loads import MARGIN, UNSURE, closing_lead

_SQL = read_queries(__file__)

_DAYS = 28
_KEY = ("country", "company_number")
_NOBODY = pl.DataFrame(schema=dict.fromkeys(_KEY, pl.String))
_COMPANY = pl.Schema({"company": pl.Int64()})


class Day(msgspec.Struct, frozen=True):
    """What a day will cost if the list is run on it: credits, and companies refreshed for free."""

    day: date
    credits: int
    free_refreshes: int


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """What a data folder has cost this month, and what it will cost.

    Attributes:
        month: The first day of the calendar month in `time_zone`.
        spent: Credits spent in this month.
        budget: `run.max_credits_per_month`; None for no budget.
        month_free_refreshes: Companies refreshed for free this month. Each would have cost a credit.
        free_refreshes: The same since the first run: the credits saved.
        days: The days of the next four weeks on which something falls due. A schedule that runs less often than daily
            pays on its next run. Due today: what an unfinished run still has to buy, and companies that a budget left
            out, as long as a list names them.
    """

    month: date
    time_zone: str
    spent: int
    budget: int | None
    month_free_refreshes: int
    free_refreshes: int
    days: list[Day]

    @property
    def forecast(self) -> int:
        """Credits of the next four weeks."""
        return sum(day.credits for day in self.days)


def read_bill(
    connection: duckdb.DuckDBPyConnection | None,
    run: RunSettings,
    now: datetime,
    spent: int,
    companies: pl.DataFrame | None = None,
    left: pl.DataFrame | None = None,
    unbought: int = 0,
) -> Bill:
    """Read the bill from a generation.

    Args:
        connection: The generation, or None before the first.
        run: The refresh, the paid window, the budget and the time zone.
        now: UTC.
        spent: The result of `spent_this_month`.
        companies: Forecast only these: country, company_number. None takes all companies of the generation.
        left: Those of `companies` that a run would buy; None takes all of them. One that was never fetched costs a
            credit today. An unfinished run may have bought the others.
        unbought: The result of `count_unbought`: credits that are due today, too.
    """
    since = month_start(now, ZoneInfo(run.time_zone))
    moment = since.astimezone(UTC).replace(tzinfo=None)
    of_month, in_all = connection.execute(_SQL["free"], [moment]).fetchall()[0] if connection else (0, 0)
    return Bill(
        month=since.date(),
        time_zone=run.time_zone,
        spent=spent,
        budget=None if run.max_credits_per_month < 0 else run.max_credits_per_month,
        month_free_refreshes=of_month,
        free_refreshes=in_all,
        days=_read_dues(connection, run, now, companies, left, unbought),
    )


def month_start(now: datetime, zone: ZoneInfo) -> datetime:
    """Return when the calendar month began in a time zone."""
    return now.astimezone(zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)


def spent_this_month(index: sqlite3.Connection, run: RunSettings, now: datetime) -> int:
    """Count the credits spent in this calendar month: those that answers report or the purchases, whichever is more.

    `run.time_zone` says when the month began.
    """
    return _spent(index, "at >= ?", micros(month_start(now, ZoneInfo(run.time_zone))))


def spent_by(index: sqlite3.Connection, run_id: str) -> int:
    """Count the credits spent by a run."""
    return _spent(index, "run = (SELECT number FROM run WHERE name = ?)", run_id)


def _spent(index: sqlite3.Connection, condition: str, value: object) -> int:
    charged = f"SELECT coalesce(sum(credits), 0) FROM charge WHERE {condition}"  # noqa: S608 - constants
    bought = f"SELECT count(*) FROM purchase WHERE {condition}"  # noqa: S608
    ((count,),) = index.execute(f"SELECT max(({charged}), ({bought}))", [value, value]).fetchall()
    return int(count)


def count_unbought(
    connection: duckdb.DuckDBPyConnection | None, index: sqlite3.Connection, open_runs: Iterable[Run]
) -> int:
    """Count the companies that unfinished runs still have to buy: one credit each.

    Those of the newest generation (`connection`; None before the first) do not count: `read_bill` forecasts them.
    """
    left = [_NOBODY]
    for run in open_runs:
        targets = run.scan_targets().filter((pl.col("shard") > 0) & ~pl.col("is_paid"))
        asked = targets.with_columns(company_key().alias("company"), pl.col("dataset").cast(DATASET)).collect()
        asked = asked.join(read_answered(index, run.run_id), on=["company", "dataset"], how="anti")
        since = {"since": micros(run.plan.started_at)}  # by whatever run
        bought = read_rows(index, "SELECT company FROM purchase WHERE at >= :since", since, _COMPANY)
        left.append(asked.join(bought, on="company", how="anti").select(pl.col(_KEY).cast(pl.String)))
    unbought = pl.concat(left).unique()
    if connection is None or unbought.is_empty():
        return unbought.height
    connection.execute(_SQL["left_out"])
    with _registered(connection, unbought=unbought):
        ((count,),) = connection.execute(_SQL["unbought"]).fetchall()
    return int(count)


def _read_dues(
    connection: duckdb.DuckDBPyConnection | None,
    run: RunSettings,
    now: datetime,
    companies: pl.DataFrame | None,
    left: pl.DataFrame | None,
    unbought: int,
) -> list[Day]:
    """Read what falls due in the next four weeks, as `Bill.days`."""
    zone = ZoneInfo(run.time_zone)
    moment, today = now.replace(tzinfo=None), now.astimezone(zone).date()
    if connection is None:
        return [Day(today, unbought, 0)] if unbought else []
    subjects = _NOBODY if companies is None else companies
    whole = {"is_whole": companies is None}
    values = whole | {
        "now": moment,
        "until": moment + timedelta(days=_DAYS),
        "window": timedelta(days=run.credit_window_days),
        "refresh": timedelta(days=run.refresh_after_days),
        "lead": closing_lead(run.free_refresh_days),
        "margin": MARGIN,
    }
    connection.execute(_SQL["left_out"])
    with _registered(connection, subjects=subjects, candidates=subjects if left is None else left):
        ((new,),) = connection.execute(_SQL["never_bought"], whole).fetchall()
        quarters = connection.execute(_SQL["forecast"].format(unsure=UNSURE), values).fetchall()
    counts: Counter[tuple[date, str]] = Counter()
    for quarter, credit_count, free_count in quarters:
        day = quarter.replace(tzinfo=UTC).astimezone(zone).date()
        counts.update({(day, "credits"): credit_count, (day, "free"): free_count})
    counts[today, "credits"] += new + unbought
    days = sorted({day for (day, _), count in counts.items() if count})
    return [Day(day, counts[day, "credits"], counts[day, "free"]) for day in days]


@contextmanager
def _registered(connection: duckdb.DuckDBPyConnection, **frames: pl.DataFrame) -> Iterator[None]:
    """Let queries read the companies of frames, each once, by the name of the frame."""
    for name, frame in frames.items():
        if frame.is_empty():  # without pyarrow, which takes a while to import
            connection.execute(f"CREATE TEMP VIEW {name} AS SELECT country, company_number FROM companies LIMIT 0")  # noqa: S608
        else:
            connection.register(name, frame.select(pl.col(_KEY).cast(pl.String)).unique().to_arrow())
    try:
        yield
    finally:
        for name in frames:
            connection.execute(f"DROP VIEW {name}")
