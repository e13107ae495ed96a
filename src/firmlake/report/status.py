"""Reads the state of a data folder, without changing anything."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Set
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from msgspec.structs import replace

from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.failure import LastFailure, failed_deliveries, failed_work
from firmlake.core.folders import Folders
from firmlake.core.lock import holder
from firmlake.core.parts import fetch_dicts
from firmlake.core.settings import RunSettings
from firmlake.landing.charged import refresh_off, with_refresh_off
from firmlake.landing.run import Outcome, Run, read_runs, unfinished_runs
from firmlake.privacy.tombstones import is_forget_open
from firmlake.report.bill import Bill, count_unbought, read_bill, spent_this_month
from firmlake.report.next_step import UNLISTED, choose_next_step
from firmlake.report.state import ListRun, ListStatus, Status
from firmlake.report.summary import summarise, summarise_unchanged
from firmlake.service_lists.additions import SETTLED, merge_standings, read_applied
from firmlake.tables.index import open_index
from firmlake.warehouse.exported import last_exports
from firmlake.warehouse.gates import why_held
from firmlake.warehouse.generations import lost_warehouse, newest, newest_link, newest_of_all, open_warehouse
from firmlake.warehouse.incomplete import read_incomplete
from firmlake.warehouse.lists import held_name
from firmlake.warehouse.loads import all_loads, check_version, loaded_runs, run_loads
from firmlake.warehouse.unchanged import read_unchanged

__all__ = ["read_status"]

T = TypeVar("T")

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
    runs, unreadable = read_runs(folders)
    now = now or datetime.now(UTC)
    outdated, loaded = _read_loaded(folders)
    damaged = {} if outdated else unreadable  # `firmlake replay` converts what earlier versions wrote
    held, held_runs = _read_held(folders, loaded)
    is_readable = not (outdated or newest_of_all(folders) is None)
    opened = open_warehouse(folders, with_held=True, company_list=company_list) if is_readable else nullcontext()
    with opened as connection:
        told = _read_warehouse(connection, folders, runs, loaded) if connection else dict(_NOTHING)
        open_, refused = _open(runs, loaded)
        going_on = [each for each in open_ if company_list.lower() in ("", each.plan.company_list.lower())]
        bill = _read_bill(connection, folders, run, now, runs, going_on, damaged) if run and not outdated else None
    open_contacts, damaged_contacts = _open_contacts(folders)
    failures = [each for each in failed_work(folders.state, key) if not _is_over(each, told, loaded)]
    status = Status(
        data=folders.data,
        running=holder(folders),
        lists=_lists(told.pop("list_runs"), failures, open_, held_runs),
        failures=failures,
        failure=failures[-1] if failures else None,
        outdated=str(outdated or ""),
        held=held,
        undelivered=failed_deliveries(folders.state),
        unfinished=[(run.run_id, run.plan.list_name, run.plan.target_count) for run in open_],
        refused=[(outcome.run_id, run.plan.list_name, outcome.reason) for run, outcome in refused],
        damaged=[(run_id, error.message, error.next_step) for run_id, error in (damaged | damaged_contacts).items()],
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
    return replace(status, next_step=_next_step(status, folders, outdated, open_, refused))


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
_LIST_RUNS = """
    SELECT coalesce(l.list_name, r.list_name) AS list_name, r.run_id, outcome, coalesce(reason, '') AS reason,
           coalesce(next_step, '') AS next_step, started_at, finished_at, r.company_count, target_count,
           refused_count, request_count, credit_count, expected_credit_count, free_refresh_count,
           (SELECT coalesce(sum(record_count), 0)::BIGINT FROM drift d WHERE d.run_id = r.run_id) AS drift_count
    FROM runs r LEFT JOIN company_lists l USING (run_id)
    WHERE l.run_id IS NOT NULL OR r.run_id = ? ORDER BY finished_at
"""
_CREDITS = """
    SELECT arg_max(credits_remaining, fetched_at), max(fetched_at) FROM requests WHERE credits_remaining IS NOT NULL
"""


_NOTHING: dict[str, Any] = {
    "last_run": None,
    "list_runs": {},
    "parked": [],
    "incomplete": [],
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
        **(_last_runs(connection, folders, loaded[-1]) if loaded else {"last_run": None, "list_runs": {}}),
        "parked": _parked(connection, runs),
        "incomplete": read_incomplete(connection),
        "companies": companies,
        "oldest_answer_at": _utc(oldest),
        "newest_answer_at": _utc(latest),
        "credits_remaining": remaining,
        "credits_told_at": _utc(told_at),
    }


def _read_bill(
    connection: duckdb.DuckDBPyConnection | None,
    folders: Folders,
    run: RunSettings,
    now: datetime,
    runs: list[Run],
    going_on: list[Run],
    damaged: dict[str, DamagedError],
) -> Bill | None:
    """Read the bill of the month and of what `going_on` will still buy; None without runs, or if it cannot be read.

    Runs whose landed answers cannot be read are left out, and added to `damaged`.
    """
    if not (connection or runs):
        return None

    def skip(run: Run, error: DamagedError) -> None:
        damaged[run.run_id] = error

    loads = all_loads(run_loads(connection) if connection else [], runs)
    with suppress(DamagedError), open_index(folders, runs, loads, skip) as index:
        spent = spent_this_month(index, run, now)
        unbought = count_unbought(connection, [each for each in going_on if each.run_id not in damaged])
        return read_bill(connection, with_refresh_off(run, folders), now, spent, unbought=unbought)
    return None


def _next_step(
    status: Status,
    folders: Folders,
    outdated: FirmlakeError | None,
    open_: list[Run],
    refused: list[tuple[Run, Outcome]],
) -> str:
    """Choose the next step. What is lost or half forgotten goes first, unless a process is at work on it."""
    lost = None if status.running else outdated or lost_warehouse(folders)
    step = f"{lost.next_step}. {lost.message}" if lost else choose_next_step(status, open_, refused)
    if not status.running and is_forget_open(folders):
        return f"`firmlake forget` finishes an earlier call that left subjects in some places. Then: {step}"
    return step


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


def _read_loaded(folders: Folders, *, with_held: bool = True) -> tuple[FirmlakeError | None, list[str]]:
    """Read which runs the warehouse holds, and why nothing else of it can be read; None if everything can."""
    if (newest_of_all if with_held else newest)(folders) is None:
        return None, []
    outdated, loaded = None, list[str]()
    with open_warehouse(folders, of_any_version=True, with_held=with_held) as connection:
        try:
            check_version(connection)
        except FirmlakeError as error:
            outdated = error
        with nullcontext() if outdated is None else suppress(duckdb.Error):
            loaded = loaded_runs(connection)
    return outdated, loaded


def _read_held(folders: Folders, loaded: list[str]) -> tuple[str, set[str]]:
    """Read why a gate holds the newest generation back, and the runs that readers do not see for that reason."""
    held = why_held(folders)
    return (held.message, set(loaded) - set(_read_loaded(folders, with_held=False)[1])) if held else ("", set())


def _last_runs(connection: duckdb.DuckDBPyConnection, folders: Folders, loaded: str) -> dict[str, Any]:
    """Read the last run of all, and that of each list by its name; a run that had nothing to load counts too.

    The newest loaded run is among the runs of lists even if it had no list.
    """
    runs, path = dict[str, ListRun](), newest_link(folders)
    last_run = summarise(connection, loaded, path)
    for row in fetch_dicts(connection.execute(_LIST_RUNS, [loaded])):
        name = row.pop("list_name")
        run = ListRun(**row | {key: _utc(row[key]) for key in ("started_at", "finished_at")})
        same = read_unchanged(folders, run.run_id)
        runs[name] = run.then(same)
        if same and last_run and same.finished_at > last_run.finished_at:
            last_run = summarise_unchanged(connection, run.run_id, same, path)
    return {"last_run": last_run, "list_runs": runs}


def _is_over(failure: LastFailure, told: dict[str, Any], loaded: list[str]) -> bool:
    """Return whether the failed run was published since, or a later one of its list; of any, if it has no list."""
    by_list = {name.casefold(): run for name, run in told["list_runs"].items()}
    later = by_list.get(failure.list_name.casefold()) if failure.list_name else told["last_run"]
    return failure.run_id in loaded or bool(later and later.finished_at > failure.at)


def _lists(runs: dict[str, ListRun], failures: list[LastFailure], open_: list[Run], held: Set[str]) -> list[ListStatus]:
    """Bring together what is known of each list: its last run, its failure and its unfinished runs."""
    unfinished = [(held_name(run) or run.plan.list_name, run.run_id) for run in open_]
    failed = [(failure.list_name, failure) for failure in failures if failure.list_name]
    names = {name.casefold(): name for name, _ in (*unfinished, *failed, *runs.items())}

    def of(folded: str, found: Iterable[tuple[str, T]]) -> list[T]:
        return [value for name, value in found if name.casefold() == folded]

    return [
        ListStatus.of(
            name,
            next(iter(of(folded, runs.items())), None),
            next(iter(of(folded, failed)), None),
            of(folded, unfinished),
            held,
        )
        for folded, name in sorted(names.items())
    ]


def _utc(moment: datetime | None) -> datetime | None:
    """Mark a time from the warehouse as UTC, so that JSON has all times in one format."""
    return moment and moment.replace(tzinfo=UTC)


def _landed_at(folders: Folders, run_id: str) -> datetime | None:
    files = folders.landing(run_id).glob("shard=*/*")
    newest_at = max((path.stat().st_mtime for path in files), default=None)
    return None if newest_at is None else datetime.fromtimestamp(newest_at, UTC)


def _free(folder: Path) -> int:
    """Return the free space on the disk of a folder, which need not exist yet."""
    return shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
