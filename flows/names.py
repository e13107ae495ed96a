"""Names of flow runs for people, such as "weekly customers 2026-11-23"."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePath
from typing import Any

_SUBJECTS = ("company_list", "contacts", "lists", "archive")
"""Parameters that say what a run is about; the first with a value is taken."""


def run_name() -> str:
    """Name the flow run that begins, by its deployment, what it is about, and the day.

    A run that its parent has named keeps its name.
    """
    from prefect.runtime import deployment, flow_run

    if flow_run.parent_flow_run_id or deployment.name == "portfolio":
        return str(flow_run.name)
    first = deployment.name if deployment.id else f"{flow_run.flow_name} by hand"
    return describe(str(first), flow_run.parameters or {}, flow_run.scheduled_start_time)


def describe(first: str, parameters: dict[str, Any], at: datetime) -> str:
    """Join the parts of a name."""
    subjects = (parameters.get(name) for name in _SUBJECTS)
    about = next((PurePath(str(value)).stem for value in subjects if value), "")
    return " ".join(filter(None, (first, about, f"{at.astimezone():%Y-%m-%d}")))
