"""The state of a data folder: the last run of each list, how it ended, what is open, and what to do next."""

from __future__ import annotations

from collections.abc import Set
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import structs

from firmlake.core.errors import EXIT_DONE, EXIT_HELD, EXIT_SOME_FAILED, EXIT_STOPPED
from firmlake.core.failure import LastFailure
from firmlake.report.bill import Bill
from firmlake.report.summary import RunSummary
from firmlake.warehouse.exported import LastExport
from firmlake.warehouse.incomplete import Incomplete
from firmlake.warehouse.unchanged import Unchanged

__all__ = ["ListStatus", "Status"]

_EXIT_CODES = {"done": EXIT_DONE, "some_failed": EXIT_SOME_FAILED, "stopped": EXIT_STOPPED}


class ListRun(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a company list that ended, or of work without a list such as `redrive`.

    It is published, or had nothing to load, see `RunSummary.is_unchanged`.
    """

    run_id: str
    outcome: str
    reason: str
    next_step: str
    started_at: datetime
    finished_at: datetime
    company_count: int
    target_count: int
    refused_count: int
    request_count: int
    credit_count: int | None
    expected_credit_count: int
    free_refresh_count: int
    drift_count: int

    def then(self, unchanged: Unchanged | None) -> ListRun:
        """Return the run after this one that had nothing to load; this one if there is none."""
        if unchanged is None:
            return self
        nothing = dict.fromkeys(_COUNTS, 0)
        return structs.replace(self, **structs.asdict(unchanged), outcome="done", reason="", next_step="", **nothing)


_COUNTS = (
    "target_count", "request_count", "credit_count", "expected_credit_count", "free_refresh_count", "drift_count",
)  # fmt: skip
"""What is 0 in a run that asked for nothing."""


class ListStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The last outcome of a company list, whatever happened to other lists since.

    Attributes:
        name: The list, or the command of a run without a list.
        last_run: Its last published run; None if none was published.
        failure: How work on it failed, unless it succeeded since.
        unfinished: Its runs that can be resumed.
        exit_code: The exit code of the failure, or else of the last run; None if there is neither.
    """

    name: str
    last_run: ListRun | None
    failure: LastFailure | None
    unfinished: list[str]
    exit_code: int | None

    @staticmethod
    def of(
        name: str, run: ListRun | None, failure: LastFailure | None, unfinished: list[str], held: Set[str]
    ) -> ListStatus:
        """Return the status of a list, with its exit code; `held` names the runs that a gate holds back."""
        code = _EXIT_CODES.get(run.outcome, EXIT_DONE) if run else None
        if run and run.run_id in held:
            code = EXIT_HELD
        if failure and not failure.is_mended:
            code = failure.exit_code
        return ListStatus(name=name, last_run=run, failure=failure, unfinished=unfinished, exit_code=code)


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a data folder.

    Attributes:
        running: The process that holds the folder; empty if none does.
        lists: The last outcome of each list, by name. The last run of all is among them, even if it had no list.
        failures: How work on the folder failed, newest last, unless the same work succeeded, or the run or a later one
            of its list was published.
        failure: The newest of them.
        outdated: Why the warehouse cannot be read and what to do: another version of firmlake made it. Empty if it can.
        held: Why a gate holds the newest generation back; empty if it is published. The rest is about that generation.
        undelivered: Exports and loads whose last attempt failed.
        unfinished: Runs that can be resumed, newest last: (run, list, companies asked for).
        refused: Runs that were refused at publishing, newest last: (run, list, reason).
        damaged: Runs and plans of contacts with a file that cannot be read: (name, file and reason, next step). Of the
            runs, only what resuming or planning needs is read; `verify` reads everything.
        landed_at: When an answer last landed for the newest unfinished run, UTC.
        parked: Companies that lack something, most first: (failed, forbidden, unavailable, waiting or rejected records;
            reason; number of companies and datasets).
        incomplete: For each list, and without a list for all companies: dataset, cause, and companies that lack it.
        open_contacts: The newest plan of contacts that is not settled: its file, its list, and its open contacts.
        companies: Companies by dataset and status, over all runs.
        oldest_answer_at: When the oldest answer held was received, UTC.
        newest_answer_at: When the newest answer held was received, UTC.
        credits_remaining: Credits left, as the service reported them last.
        credits_told_at: When the service reported them, UTC.
        refresh_off: Why no company is refreshed for free; empty if they may, or without settings.
        bill: Credits and free refreshes of this month, and the credits of the next four weeks; None without settings
            or before the first run.
        exports: The last export to each place.
        disk_bytes: Sizes of the folders landing, staged and warehouse.
        disk_free_bytes: Free space on their disk.
        next_step: What to do next.
    """

    data: Path
    running: str
    last_run: RunSummary | None
    lists: list[ListStatus]
    failures: list[LastFailure]
    failure: LastFailure | None
    outdated: str
    held: str
    undelivered: list[LastFailure]
    unfinished: list[tuple[str, str, int]]
    refused: list[tuple[str, str, str]]
    damaged: list[tuple[str, str, str]]
    landed_at: datetime | None
    parked: list[tuple[str, str, int]]
    incomplete: list[Incomplete]
    open_contacts: tuple[Path, int, int] | None
    companies: dict[str, dict[str, int]]
    oldest_answer_at: datetime | None
    newest_answer_at: datetime | None
    credits_remaining: int | None
    credits_told_at: datetime | None
    refresh_off: str
    bill: Bill | None
    exports: list[LastExport]
    disk_bytes: dict[str, int]
    disk_free_bytes: int
    next_step: str
