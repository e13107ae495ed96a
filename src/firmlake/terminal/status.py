"""The output about a data folder: its state, what `prune` and `forget` remove, and whether its parts agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from firmlake.core.text import count_of, duration
from firmlake.report.feed import describe_counts
from firmlake.report.summary import shown_statuses
from firmlake.terminal.rows import Part, Table

if TYPE_CHECKING:
    from firmlake.forget.forget import Forgetting
    from firmlake.forget.proof import Receipt
    from firmlake.forget.retention import Expired
    from firmlake.landing.run import Run
    from firmlake.rebuild.prune import Pinned, Removable
    from firmlake.rebuild.verify import TableCheck, Unchanged
    from firmlake.report.bill import Bill
    from firmlake.report.status import ListStatus, Status
    from firmlake.report.summary import RunSummary


def status_parts(status: Status, now: datetime) -> Iterator[Part]:
    """Yield the state of a data folder. The next step comes last, just above the prompt."""

    def moment(at: datetime | None) -> str:
        return "never" if at is None else f"{at:%Y-%m-%d %H:%M} UTC ({_ago(now, at)})"

    yield f"Data folder: {status.data.absolute()}"
    yield from _outcome_parts(status, now, moment)
    yield f"Running: {status.running or 'nothing'}"
    for run_id, list_name, count in status.unfinished:
        landed = f", last answer landed {moment(status.landed_at)}" if run_id == status.unfinished[-1][0] else ""
        yield f"Unfinished: {run_id} over {list_name}, {count_of(count, 'company')}{landed}"
    for run_id, list_name, reason in status.refused:
        yield f"Not published: {run_id} over {list_name}: {reason}"
    if status.held:
        yield f"{status.held}"
    for run_id, line, next_step in status.damaged:
        yield f"Damaged: {run_id}: {line}. {next_step}"
    statuses = [name for name in shown_statuses(status.companies) if name != "fresh"]  # it has a meaning in runs only
    rows = [[dataset, *(counts.get(s, 0) for s in statuses)] for dataset, counts in status.companies.items()]
    yield Table(("companies by dataset", *(s.replace("_", " ") for s in statuses)), rows)
    if status.companies:
        yield f"Answers held: oldest {moment(status.oldest_answer_at)}, newest {moment(status.newest_answer_at)}"
    if status.credits_remaining is not None:
        yield f"Credits left: {status.credits_remaining:,}, as of {moment(status.credits_told_at)}"
    yield from describe_bill(status.bill) if status.bill else ()
    yield Table(
        ("incomplete list", "because of", "dataset", "companies"),
        [
            (each.list_name, each.cause, each.dataset, each.company_count)
            for each in status.incomplete
            if each.list_name
        ],
    )
    yield Table(("parked", "because", "companies and datasets"), status.parked)
    for each in status.undelivered:
        yield (
            f"Not delivered: {each.what}, {moment(each.at)}, exit code {each.exit_code}: {each.line}. {each.next_step}"
        )
    for export in status.exports:
        done, target = ("Loaded", ", schema ".join(export.database)) if export.is_load else ("Exported", export.target)
        what = f"generation {export.generation}" if export.generation else "a list or an earlier day"
        yield f"{done}: {what} to {target}, {moment(export.exported_at)}"
    sizes = ", ".join(f"{name} {size / 1e6:,.1f} MB" for name, size in status.disk_bytes.items())
    free = status.disk_free_bytes
    yield f"On disk: {sizes}; " + (f"{free / 1e9:,.1f} GB free" if free >= 1e9 else f"{free / 1e6:,.1f} MB free")
    yield f"Next: {status.next_step}"


def describe_bill(bill: Bill) -> Iterator[str]:
    """Describe the bill of a data folder, or of the companies of a list in it."""
    limit = "" if bill.budget is None else f" of at most {bill.budget:,}"
    yield f"Credits in {bill.month:%B %Y}: {bill.spent:,}{limit}"
    if bill.free_refreshes:
        yield (
            f"Refreshed for free: {count_of(bill.month_free_refreshes, 'company')} this month, "
            f"{bill.free_refreshes:,} in all, each saving a credit"
        )
    dues = [f"{each.day:%a %d %b} {each.credits:,}" for each in bill.days if each.credits]
    by_day = f", by the day they fall due: {', '.join(dues)}" if dues else ""
    yield f"Next four weeks: {count_of(bill.forecast, 'credit')}{by_day}"


def checks_parts(checks: Sequence[TableCheck], runs: Sequence[Run]) -> Iterator[Part]:
    """Print, table by table, whether the warehouse and a replay of all runs agree, and what the replay read."""
    rows = [(c.table, c.rows, c.replayed_rows, "same" if c.agrees else "DIFFERENT") for c in checks]
    yield Table(("table", "rows in the warehouse", "rows in a replay", "content"), rows)
    pruned = sum(run.is_pruned for run in runs)
    landed, are_pruned = len(runs) - pruned, f"{count_of(pruned, 'run')}, whose landed answers were pruned,"
    proof = f"The landed answers of {count_of(landed, 'run')}" if landed else f"The staged tables of {are_pruned}"
    if all(check.agrees for check in checks):
        rest = f". For {are_pruned} only the staged tables were compared" if landed and pruned else ""
        yield f"{proof} and the warehouse agree in all {count_of(len(checks), 'table')}{rest}"


def unchanged_parts(found: Unchanged) -> Iterator[Part]:
    """Yield how many files are unchanged."""
    yield (
        f"{count_of(found.files, 'file')} ({_megabytes(found.bytes):,} MB) of {count_of(found.runs, 'run')} and the "
        "warehouse: none has changed since it was written. To prove that they also agree, run it without --files"
    )


def removable_parts(
    removable: Sequence[Removable], is_dry: bool, expired: Sequence[Expired] = (), pinned: Sequence[Pinned] = ()
) -> Iterator[Part]:
    """Yield what was removed, or would be in a dry run: files, and personal data older than `privacy.keep_days`.

    The generations that are kept only for an export or a load come first.
    """
    yield Table(
        ("kept for the next export or load", "of", "MB", "record"),
        [(one.generation.name, one.target, _megabytes(one.byte_count), one.record) for one in pinned],
    )
    if pinned:
        yield "If a target no longer exists, delete its record. `firmlake forget` then no longer replaces what it holds"
    if expired:
        rows_of = [(each.kind, f"{each.ended_at:%Y-%m-%d}", each.row_count, each.path) for each in expired]
        yield Table(("personal data", "from", "rows", "folder or file"), rows_of)
        done = "would be" if is_dry else "was"
        yield f"This personal data {done} removed there, and from staged tables and generations"
    if not removable:
        yield from () if expired else ["There is nothing to remove"]
        return
    rows = [
        (each.kind, f"{each.ended_at:%Y-%m-%d}" if each.ended_at else None, _megabytes(each.byte_count), each.path)
        for each in removable
    ]
    yield Table(("kind", "run ended", "MB", "folder or file"), rows)
    total = f"{_megabytes(sum(each.byte_count for each in removable)):,} MB"
    yield f"Would free {total}; to remove these files, run it without --dry-run" if is_dry else f"Freed {total}"


def _outcome_parts(status: Status, now: datetime, moment: Callable[[datetime | None], str]) -> Iterator[Part]:
    last = status.last_run
    if last:
        yield (
            f"Last run: {last.outcome.replace('_', ' ')}, {moment(last.finished_at)}, {last.run_id} over "
            f"{last.list_name}, {count_of(last.company_count, 'company')} ({last.target_count:,} asked for), "
            f"{count_of(last.request_count, 'request')}"
            + f", {count_of(last.refused_count, 'line')} refused"
            * bool(last.refused_count)
        )
    elif status.outdated:
        yield f"Warehouse: {status.outdated}"
    else:
        yield "Last run: none has been published yet"
    yield from _remarks(last) if last else ()
    if len(status.lists) > 1:
        yield Table(
            ("list", "last run", "ended", "companies", "asked for", "exit code"),
            [_list_row(each, now) for each in status.lists],
        )
    for failure in status.failures:
        when = "Failed since" if last else "Failed"
        yield f"{when}: {failure.what}, {moment(failure.at)}, exit code {failure.exit_code}: {failure.line}"


def _list_row(each: ListStatus, now: datetime) -> tuple[str | int | None, ...]:
    """Return the last outcome of a list: a failure or an interruption since its last run comes first."""
    run = each.last_run
    published = run["outcome"].replace("_", " ") if run else None
    outcome = "failed" if each.failure else "unfinished" if each.unfinished else published
    at = each.failure.at if each.failure else run["finished_at"] if run else None
    ended = f"{at:%Y-%m-%d %H:%M} ({_ago(now, at)})" if at else None
    counts = (run["company_count"], run["target_count"]) if run else (None, None)
    return each.name, outcome, ended, *counts, each.exit_code


def _remarks(last: RunSummary) -> Iterator[str]:
    """Yield what a person should know about the last run: why it is not done, its bill, alerts and doubts."""
    if last.reason:
        yield f"Why: {last.reason}"
    if last.unexplained_bill:
        yield last.unexplained_bill
    if last.alerts:
        yield f"Alerts: {describe_counts(last.alerts)}; `firmlake alerts` lists them"
    yield from last.doubts


def _ago(now: datetime, at: datetime) -> str:
    seconds = (now - (at if at.tzinfo else at.replace(tzinfo=UTC))).total_seconds()
    if seconds < -3600:
        return "in the future: a clock was wrong"
    return f"{seconds / 86_400:.0f} days ago" if seconds > 2 * 86_400 else f"{duration(max(seconds, 0))} ago"


def _megabytes(byte_count: int) -> float:
    return round(byte_count / 1e6, 1)


def forgetting_parts(done: Forgetting, *, is_dry: bool) -> Iterator[Part]:
    """Yield each place that named a subject, and the copies that are out of reach."""
    yield Table(("place", "what", "rows"), [(str(one.path), one.what, f"{one.row_count:,}") for one in done.places])
    subjects, places = count_of(done.subject_count, "subject"), count_of(len(done.places), "place")
    if is_dry:
        yield f"{places} would be cleaned for {subjects}; nothing was changed"
        if done.names:
            yield f"{count_of(len(done.names), 'different name')} would go:"
            yield from (f"  {name}" for name in done.names)
    else:
        finished = f", and {done.finished_count} from an interrupted call" if done.finished_count else ""
        yield f"{places} cleaned for {subjects}{finished}. Prove it with `firmlake verify --forgotten`"
    yield "Out of reach:"
    yield from (f"  {line}" for line in done.out_of_reach)


def receipt_parts(receipt: Receipt, path: Path | None) -> Iterator[Part]:
    """Yield what a search read and found."""
    for place, what, count in receipt.found:
        yield f"{place}: {what}, {count:,}"
    for place, why in receipt.unread:
        yield f"{place} cannot be read: {why}"
    yield (
        f"{receipt.file_count:,} files, {receipt.byte_count:,} bytes ({receipt.content_byte_count:,} decompressed) "
        f"searched for {len(receipt.tombstones)} forgotten: {len(receipt.found)} places found"
    )
    if path:
        yield f"Receipt: {path}"
