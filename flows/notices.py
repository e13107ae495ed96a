"""What others hear of a published run: events of Prefect, from which automations make notices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import msgspec
from prefect.events import emit_event

from firmlake.enrich.observer import Published
from firmlake.report.feed import describe_counts, describe_evidence, read_alerts
from job import plain

_ALERTS_MAX = 200
"""Prefect keeps tables of a page in its database. `firmlake alerts` lists all."""
_ALERTS_TOLD = 10
"""A notice tells this many alerts."""


def announce(published: Published, alerts: Sequence[Mapping[str, str]] = ()) -> None:
    """Emit the events that the automations `firmlake stale` and `firmlake alerts` wait for.

    Args:
        published: The run.
        alerts: Its alerts, as `alert_rows` lists them; the first that it opened are told.
    """
    folder, summary = published.run.folders.data.resolve(), published.summary
    resource = {"prefect.resource.id": f"firmlake.warehouse.{folder}", "prefect.resource.name": folder.name}
    payload = {"generation": summary.generation, "run_id": summary.run_id}
    emit_event("firmlake.generation.published", resource=resource, payload=payload)
    if summary.alerts and summary.alerts.opened:
        opened = [alert for alert in alerts if alert["alert"] == "opened"][:_ALERTS_TOLD]
        lines = [
            plain(f"{each['what']}: {each['name']} ({each['country']} {each['company_number']}): {each['evidence']}")
            for each in opened
        ]
        text = "\n".join([describe_counts(summary.alerts), *lines])
        counts = msgspec.structs.asdict(summary.alerts)
        emit_event("firmlake.alerts.opened", resource=resource, payload={**payload, **counts, "text": text})


def alert_rows(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[dict[str, Any]]:
    """List the first alerts: those that the run opened, those that it closed, and those still open."""
    found = read_alerts(connection, with_closed=True)
    groups = {
        "opened": [alert for alert in found if alert.opened_run == run_id and not alert.closed_run],
        "closed": [alert for alert in found if alert.closed_run == run_id],
        "still open": [alert for alert in found if alert.opened_run != run_id and not alert.closed_run],
    }
    rows = [
        {
            "alert": name, "severity": alert.severity, "what": alert.says, "name": alert.name or "",
            "country": alert.country, "company_number": alert.company_number,
            "evidence": alert.closed_because or describe_evidence(alert),
        }
        for name, alerts in groups.items() for alert in alerts
    ]  # fmt: skip
    return rows[:_ALERTS_MAX]
