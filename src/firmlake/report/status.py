"""Reads the state of a data folder, without changing anything."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
from msgspec.structs import replace

from firmlake.core.errors import DamagedError
from firmlake.core.failure import LastFailure, failed_deliveries, last_failure
from firmlake.core.folders import Folders
from firmlake.core.lock import holder
from firmlake.core.run import Outcome, Run, read_runs, unfinished_runs
from firmlake.core.settings import RunSettings
from firmlake.landing.charged import refresh_off, with_refresh_off
from firmlake.privacy.tombstones import is_forget_open
from firmlake.report.bill import count_unbought, read_bill, spent_this_month
from firmlake.report.next_step import UNLISTED, choose_next_step
from firmlake.report.state import Status
from firmlake.report.summary import RunSummary, summarise
from firmlake.service_lists.additions import SETTLED, merge_standings, read_applied
from firmlake.tables.underway import Underway, is_recent, read_underway
from firmlake.warehouse.exported import last_exports
from firmlake.warehouse.generations import LINK, lost_warehouse, newest, open_warehouse
from firmlake.warehouse.loads import loaded_runs

__all__ = ["read_status"]

_REASONS_MAX = 10


def read_status(
    folders: Folders, company_list: str = "", run: RunSettings | None = None, now: datetime | None = None, key: str = ""
) -> Status:
    """Read the state of a data folder, without changing anything.

    Args:
        folders: The data folder.
        company_list: Count only the companies of this list; empty counts all.
        run: The settings of runs, for the bill; None reads no bill.
        now: UTC; None takes the clock's time.
        key: Identifies the token that is used now; empty if it is not known.

    Raises:
        UsageError: There is no such list. The message suggests a similar name.
    """
    runs, damaged = read_runs(folders)
    now = now or datetime.now(UTC)
    held = nullcontext() if newest(folders) is None else open_warehouse(folders, company_list=company_list)
    with held as connection:
        loaded = loaded_runs(connection) if connection else []
        told = _read_warehouse(connection, folders, runs, loaded) if connection else _NOTHING
        late = [each for each in runs if run and each.run_id not in loaded and is_recent(each.plan, run, now)]
        underway, damaged_landing = _read_underway(late)
        open_, refused = _open(runs, loaded)
        bill = None
        if run and (connection or underway):
            spent = spent_this_month(connection, underway, run, now)
            wanted = company_list.lower()
            going_on = [each for each in underway if each.run in open_]
            of_list = [each for each in going_on if wanted in ("", each.run.plan.company_list.lower())]
            bill = read_bill(
                connection, with_refresh_off(run, folders), now, spent, unbought=count_unbought(connection, of_list)
            )
    open_contacts, damaged_contacts = _open_contacts(folders)
    status = Status(
        data=folders.data,
        running=holder(folders),
        failure=_failure(folders, told["last_run"], loaded, key),
        undelivered=failed_deliveries(folders.state),
        unfinished=[(run.run_id, run.plan.list_name, run.plan.target_count) for run in open_],
        refused=[(outcome.run_id, run.plan.list_name, outcome.reason) for run, outcome in refused],
        damaged=[
            (run_id, error.message, error.next_step)
            for run_id, error in (damaged | damaged_landing | damaged_contacts).items()
        ],
        landed_at=_landed_at(folders, open_[-1].run_id) if open_ else None,
        open_contacts=open_contacts,
        refresh_off=refresh_off(run, folders) if run else "",
        bill=bill,
        exports=last_exports(folders),
        disk_bytes={name: _size(folders.data / name) for name in ("landing", "staged", "warehouse")},
        disk_free_bytes=_free(folders.data.absolute()),
        next_step="",
        **told,
    )
    lost = None if status.running else lost_warehouse(folders)
    step = f"{lost.next_step}. {lost.message}" if lost else choose_next_step(status, open_, refused)
    if not status.running and is_forget_open(folders):
        step = f"`firmlake forget` finishes an earlier call that left subjects in some places. Then: {step}"
    return replace(status, next_step=step)


_STATUSES = "SELECT dataset, status, count(*) FROM company_state GROUP BY ALL ORDER BY ALL"
_PARKED = f"""
    SELECT if(s.status = 'waiting' AND m.country IS NULL, '{UNLISTED}', s.status), s.run_id,
           coalesce(d.reason, ''), count(*)
    FROM company_state s LEFT JOIN dead_letters d USING (run_id, country, company_number, dataset)
    LEFT JOIN (SELECT DISTINCT country, company_number FROM list_members) m USING (country, company_number)
    WHERE s.status IN ('failed', 'forbidden', 'unavailable', 'waiting') GROUP BY ALL
    UNION ALL
    SELECT 'rejected records', s.run_id, coalesce(r.reason, ''), count(*)
    FROM company_state s LEFT JOIN (
        SELECT run_id, country, company_number, dataset, min(concat_ws(': ', nullif(path, ''), reason)) AS reason
        FROM rejects WHERE effect = 'record' GROUP BY ALL
    ) r USING (run_id, country, company_number, dataset)
    WHERE s.reject_count > 0 GROUP BY ALL
"""  # noqa: S608 - a constant
_AGES = "SELECT min(fetched_at), max(fetched_at) FROM company_state"
_CREDITS = """
    SELECT arg_max(credits_remaining, fetched_at), max(fetched_at) FROM requests WHERE credits_remaining IS NOT NULL
"""


_NOTHING: dict[str, Any] = {
    "last_run": None,
    "parked": [],
    "companies": {},
    "oldest_answer_at": None,
    "newest_answer_at": None,
    "credits_remaining": None,
    "credits_told_at": None,
}
"""What a data folder without a warehouse tells."""


def _read_warehouse(
    connection: duckdb.DuckDBPyConnection, folders: Folders, runs: list[Run], loaded: list[str]
) -> dict[str, Any]:
    """Read the attributes of `Status` that a generation tells."""
    companies: dict[str, dict[str, int]] = {}
    for dataset, status, count in connection.execute(_STATUSES).fetchall():
        companies.setdefault(dataset, {})[status] = count
    oldest, latest = connection.execute(_AGES).fetchall()[0]
    remaining, told_at = connection.execute(_CREDITS).fetchall()[0]
    return {
        "last_run": summarise(connection, loaded[-1], folders.warehouse / LINK) if loaded else None,
        "parked": _parked(connection, runs),
        "companies": companies,
        "oldest_answer_at": _utc(oldest),
        "newest_answer_at": _utc(latest),
        "credits_remaining": remaining,
        "credits_told_at": _utc(told_at),
    }


def _read_underway(runs: list[Run]) -> tuple[list[Underway], dict[str, DamagedError]]:
    """Read what has landed of runs that are not in the warehouse, and the errors of those that cannot be read."""
    underway, damaged = list[Underway](), dict[str, DamagedError]()
    for run in runs:
        try:
            underway.append(read_underway(run))
        except DamagedError as error:
            damaged[run.run_id] = error
    return underway, damaged


def _open(runs: list[Run], loaded: list[str]) -> tuple[list[Run], list[tuple[Run, Outcome]]]:
    """List the runs that can go on, and those that were refused with how they ended."""
    unfinished: list[Run] = []
    refused: list[tuple[Run, Outcome]] = []
    for run in unfinished_runs(runs, loaded):
        outcome = run.outcome()
        if outcome and outcome.is_refused:
            refused.append((run, outcome))
        else:
            unfinished.append(run)
    return unfinished, refused


def _parked(connection: duckdb.DuckDBPyConnection, runs: list[Run]) -> list[tuple[str, str, int]]:
    """Count parked companies by reason: a failed company has its own reason, a waiting one that of its run."""
    reasons = {run.run_id: outcome.reason for run in runs if (outcome := run.outcome())}
    counts: Counter[tuple[str, str]] = Counter()
    for status, run_id, reason, count in connection.execute(_PARKED).fetchall():
        counts[status, reason or reasons.get(run_id) or "its run does not say"] += count
    return [(status, reason, count) for (status, reason), count in counts.most_common(_REASONS_MAX)]


def _open_contacts(folders: Folders) -> tuple[tuple[Path, int, int] | None, dict[str, DamagedError]]:
    applied, damaged = read_applied(folders)
    standings = merge_standings(applied)
    for plan in (one.plan for one in reversed(applied)):
        found = [standings.get((plan.list_id, contact)) for contact in plan.contacts()]
        count = sum(standing is None or standing.status not in SETTLED for standing in found)
        if count:
            return (folders.additions / f"plan={plan.plan_id}" / "plan.json", plan.list_id, count), damaged
    return None, damaged


def _failure(folders: Folders, last: RunSummary | None, loaded: list[str], key: str) -> LastFailure | None:
    failure = last_failure(folders.state, key)
    is_over = failure and (failure.run_id in loaded or (last and last.finished_at > failure.at))
    return None if is_over else failure


def _utc(moment: datetime | None) -> datetime | None:
    """Mark a time from the warehouse as UTC, so that JSON has all times in one format."""
    return moment and moment.replace(tzinfo=UTC)


def _landed_at(folders: Folders, run_id: str) -> datetime | None:
    files = folders.landing(run_id).glob("*/*")
    newest_at = max((path.stat().st_mtime for path in files), default=None)
    return None if newest_at is None else datetime.fromtimestamp(newest_at, UTC)


def _free(folder: Path) -> int:
    """Return the free space on the disk of a folder, which need not exist yet."""
    return shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
