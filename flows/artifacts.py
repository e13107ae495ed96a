"""What others see and hear of a run in Prefect: its page, with progress, a summary and tables; and events."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from itertools import count
from typing import Any, cast
from uuid import UUID

import duckdb
import msgspec
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.events import emit_event

from firmlake.core.text import one_line
from firmlake.enrich.events import Published
from firmlake.report.feed import Alert, describe_counts, describe_evidence, read_alerts
from firmlake.report.summary import FailureGroup, RunSummary, failures
from firmlake.service_lists.contacts import ContactPlan
from firmlake.terminal.progress import Counter
from firmlake.terminal.rows import Part, Table
from firmlake.terminal.runs import summary_parts
from firmlake.terminal.service_lists import contact_plan_parts
from firmlake.warehouse.generations import open_warehouse
from job import is_cancelled, plain, record, tell

_UPDATE_EVERY_SECONDS = 5.0
_LOG_EVERY = 12
"""Every twelfth update, once a minute, is also a line of the log, which unlike the artifact keeps them all."""

_ALERTS_TOLD = 10
"""A notice tells this many alerts."""

_ROWS_MAX = 200
"""Limit per table, because Prefect keeps artifacts in its database. The warehouse has all rows."""

_ASK_EVERY = 4
"""Every fourth update, the server is asked whether the run was cancelled."""


class ProgressArtifact:
    """Shows the progress of fetching, updated every few seconds while the context is open, and logs it every minute."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._id: UUID | None = None
        self._is_over = threading.Event()

    def __enter__(self) -> ProgressArtifact:
        """Begin to show progress. If the server rejects it, it is not sent again."""
        _takes("progress", self._create)
        self._thread = threading.Thread(target=copy_context().run, args=(self._update,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop updating the progress."""
        self._is_over.set()
        self._thread.join()

    def finish(self) -> None:
        """Show that everything is fetched."""
        self._show(100.0, self._counter.summary())

    def _create(self) -> None:
        made = create_progress_artifact(0.0, key="enrich-progress", description="No answer yet")
        self._id = cast("UUID", made)

    def _update(self) -> None:
        counter, updates = self._counter, count(1)
        for number in count(1):
            if self._is_over.wait(_UPDATE_EVERY_SECONDS):
                return
            if number % _ASK_EVERY == 0 and is_cancelled():
                tell("Cancelled in Prefect: the run ends once the requests in flight are answered")
                os.kill(os.getpid(), signal.SIGTERM)
                return
            if counter.done or counter.why:
                self._show(100 * counter.share(), counter.line())
                if next(updates) % _LOG_EVERY == 0:
                    record(counter.line())

    def _show(self, percentage: float, line: str) -> None:
        known = self._id
        if known and not _takes("progress", lambda: update_progress_artifact(known, round(percentage, 1), line)):
            self._id = None


def show_on_page(published: Published) -> None:
    """Show the result of a run on its page, and announce it. Prefect also has a page per key that compares runs."""
    summary = published.summary
    show_markdown("enrich-summary", summary_markdown(summary, published.failed), summary_line(summary))
    with open_warehouse(published.run.folders, with_held=True) as connection:
        rows = failure_rows(connection, summary.run_id)
        alerts = group_alerts(connection, summary.run_id)
    every = "dead_letters and rejects of the warehouse have all of it"
    show_table("enrich-failures", rows, f"What failed in run {summary.run_id}; {every}", 2 * _ROWS_MAX)
    if summary.alerts:
        show_table("enrich-alerts", alert_rows(alerts), f"Alerts: {describe_counts(summary.alerts)}")
    announce(published, alerts["opened"][:_ALERTS_TOLD])


def summary_line(summary: RunSummary) -> str:
    """Describe the result of a run in one line."""
    return (
        f"Run {summary.run_id}: {summary.target_count:,} of {summary.company_count:,} companies asked for, "
        f"{summary.request_count:,} requests, {_credits(summary)} credits, "
        f"generation {summary.generation}{f'; alerts: {describe_counts(summary.alerts)}' if summary.alerts else ''}"
    )


def summary_markdown(summary: RunSummary, failed: Sequence[FailureGroup] = ()) -> str:
    """Write the result of a run as Markdown."""
    facts = [
        ("time", f"{summary.started_at:%Y-%m-%d %H:%M:%S} to {summary.finished_at:%H:%M:%S} UTC"),
        ("companies", f"{summary.company_count:,}, {summary.fresh_count:,} of them fresh"),
        ("lines refused, repeated", f"{summary.refused_count:,}, {summary.repeated_count:,}"),
        ("companies changed", summary.changed_company_count),
    ]
    reasons = [f"{text}." for text in (summary.reason, summary.next_step) if text]
    parts: list[Part] = [*reasons, Table(("run", summary.run_id), facts), *summary_parts(summary, failed)]
    return f"## {_cell(summary.list_name)}: {summary.outcome.replace('_', ' ')}\n\n{markdown(parts)}"


def plan_markdown(plan: ContactPlan) -> str:
    """Write what a plan of contacts would add to which list, as Markdown."""
    return markdown([*contact_plan_parts(plan, (), _ROWS_MAX), f"Plan {plan.plan_id} of {plan.source} has all of them"])


def markdown(parts: Iterable[Part]) -> str:
    """Write a result for a person as Markdown."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(_cell(part))
        elif part.rows:
            texts += [*([f"### {_cell(part.title)}"] if part.title else []), _table(part.columns, part.rows)]
    return "\n\n".join(texts)


def show_markdown(key: str, text: str, description: str) -> None:
    """Show a text on the page of a run."""
    _takes(key, lambda: create_markdown_artifact(text, key=key, description=description))


def show_table(key: str, rows: list[dict[str, Any]], description: str, most: int = _ROWS_MAX) -> None:
    """Show a table on the page of a run. Prefect keeps it in its database, so only its first rows."""
    _takes(key, lambda: create_table_artifact(rows[:most], key=key, description=description))


def failure_rows(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[dict[str, Any]]:
    """List the first companies that failed, then the first records that were rejected."""
    failed = [
        {"what": "company failed", **_company(row), "attempts": attempts, "reason": reason}
        for *row, reason, attempts in failures(connection, run_id, _ROWS_MAX)
    ]
    rejected = [
        {"what": "record rejected", **_company(row), "attempts": "", "reason": f"{path}: {reason}"}
        for *row, path, reason in connection.execute(_REJECTS, [run_id, _ROWS_MAX]).fetchall()
    ]
    return failed + rejected


def group_alerts(connection: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, list[Alert]]:
    """Group the alerts: those that the run opened, those that it closed, and those still open."""
    found = read_alerts(connection, with_closed=True)
    return {
        "opened": [alert for alert in found if alert["opened_run"] == run_id and not alert["closed_run"]],
        "closed": [alert for alert in found if alert["closed_run"] == run_id],
        "still open": [alert for alert in found if alert["opened_run"] != run_id and not alert["closed_run"]],
    }


def alert_rows(groups: Mapping[str, Sequence[Alert]]) -> list[dict[str, Any]]:
    """List alerts by group, each with its evidence."""
    return [
        {
            "alert": name, "severity": alert["severity"], "what": alert["says"], "name": alert["name"] or "",
            "country": alert["country"], "company_number": alert["company_number"],
            "evidence": alert["closed_because"] or describe_evidence(alert),
        }
        for name, alerts in groups.items() for alert in alerts
    ]  # fmt: skip


def _takes(what: str, function: Callable[[], object]) -> bool:
    """Send something to Prefect's server, and return whether it was accepted. A failure never stops the run."""
    try:
        function()
    except Exception as error:
        tell(f"Prefect's server rejects the {what} ({type(error).__name__}); it is not shown any more")
        return False
    return True


_REJECTS = """
    SELECT country, company_number, dataset, path, reason
    FROM rejects WHERE run_id = ? AND effect = 'record' ORDER BY ALL LIMIT ?
"""


def _company(row: Sequence[str]) -> dict[str, str]:
    return dict(zip(("country", "company_number", "dataset"), row, strict=True))


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    rows = list(rows)
    sides = ["---:" if all(isinstance(row[place], int) for row in rows) else "---" for place in range(len(columns))]
    lines = [[_cell(name) for name in columns], sides, *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    """Escape a value: names of files and fields come from outside, and must not end a cell or become markup."""
    text = f"{value:,}" if isinstance(value, int) else one_line(str(value))
    return re.sub(r"([\\|`!\[\]])", r"\\\1", text).replace("<", "&lt;")


def _credits(summary: RunSummary) -> str:
    """Format the credits charged: 0 if no request was sent, unknown if the service does not report charges."""
    is_unknown = summary.credit_count is None and summary.request_count
    return "unknown" if is_unknown else f"{summary.credit_count or 0:,}"


def announce(published: Published, opened: Sequence[Alert]) -> None:
    """Emit the events that the automations `firmlake stale` and `firmlake alerts` wait for, with the first alerts."""
    folder, summary = published.run.folders.data.resolve(), published.summary
    resource = {"prefect.resource.id": f"firmlake.warehouse.{folder}", "prefect.resource.name": folder.name}
    payload = {"generation": summary.generation, "run_id": summary.run_id}
    emit_event("firmlake.generation.published", resource=resource, payload=payload)
    if summary.alerts and summary.alerts.opened:
        lines = [
            plain(f"{a['says']}: {a['name'] or ''} ({a['country']} {a['company_number']}): {describe_evidence(a)}")
            for a in opened
        ]
        text = "\n".join([describe_counts(summary.alerts), *lines])
        counts = msgspec.structs.asdict(summary.alerts)
        emit_event("firmlake.alerts.opened", resource=resource, payload={**payload, **counts, "text": text})
