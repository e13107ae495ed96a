"""The output about alerts."""

from __future__ import annotations

from collections.abc import Sequence

from firmlake.core.text import count_of
from firmlake.report.feed import Alert, describe_evidence
from firmlake.terminal.echo import echo
from firmlake.terminal.rows import show_table


def show_alerts(alerts: Sequence[Alert], *, has_rules: bool) -> None:
    """Print alerts, one row for each.

    Args:
        alerts: The alerts.
        has_rules: Whether the settings name a file of rules; otherwise the output says how to set one.
    """
    if alerts:
        rows = [
            (alert.severity, alert.says, alert.name, f"{alert.country} {alert.company_number}", _state(alert),
             describe_evidence(alert))
            for alert in alerts
        ]  # fmt: skip
        show_table(("severity", "alert", "name", "number", "state", "evidence"), rows)
    open_count = sum(alert.closed_run is None for alert in alerts)
    closed = f", {len(alerts) - open_count:,} closed" if len(alerts) > open_count else ""
    echo(f"{count_of(open_count, 'open alert')}{closed}")
    if not has_rules:
        echo(
            'No file of rules is set. To use the rules that come with firmlake: paths.alert_rules = "config/watch.toml"'
        )


def _state(alert: Alert) -> str:
    if alert.closed_at:
        return f"closed {alert.closed_at:%Y-%m-%d}: {alert.closed_because}"
    return f"{alert.state}, since {alert.opened_at:%Y-%m-%d}" if alert.state != "opened" else "opened"
