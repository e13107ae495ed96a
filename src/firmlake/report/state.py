"""The state of a data folder: the last run, how it ended, what is open, and what to do next."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from firmlake.core.failure import LastFailure
from firmlake.report.bill import Bill
from firmlake.report.summary import RunSummary
from firmlake.warehouse.exported import LastExport

__all__ = ["Status"]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a data folder.

    Attributes:
        running: The process that holds the folder; empty if none does.
        failure: How work on the folder failed, unless the same work succeeded, or the run or a later one was published.
        undelivered: Exports and loads whose last attempt failed.
        unfinished: Runs that can be resumed, newest last: (run, list, companies asked for).
        refused: Runs that were refused at publishing, newest last: (run, list, reason).
        damaged: Runs and plans of contacts with a file that cannot be read: (name, file and reason, next step). Of the
            runs, only what resuming or planning needs is read; `verify` reads everything.
        landed_at: When an answer last landed for the newest unfinished run, UTC.
        parked: Companies that lack something, most first: (failed, forbidden, unavailable, waiting or rejected records;
            reason; number of companies and datasets).
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
    failure: LastFailure | None
    undelivered: list[LastFailure]
    unfinished: list[tuple[str, str, int]]
    refused: list[tuple[str, str, str]]
    damaged: list[tuple[str, str, str]]
    landed_at: datetime | None
    parked: list[tuple[str, str, int]]
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
