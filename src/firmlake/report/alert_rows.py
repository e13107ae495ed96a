"""Alerts as rows of a table on a page."""

from __future__ import annotations

from typing import Any

from firmlake.report.alerts import Alert, describe_evidence

__all__ = ["alert_row"]


def alert_row(alert: Alert, *, with_company: bool = False) -> dict[str, Any]:
    """Return the cells of an alert by column; `with_company` begins with the company's name and number."""
    company = {"company": alert.name, "number": f"{alert.country} {alert.company_number}"} if with_company else {}
    return company | {
        "alert": alert.says,
        "severity": alert.severity,
        "state": alert.state,
        "evidence": describe_evidence(alert),
        "since": alert.opened_at.date(),
        "closed": alert.closed_at and alert.closed_at.date(),
    }
