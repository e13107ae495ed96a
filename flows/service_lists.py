"""The overview of service lists under Prefect: read all lists into the warehouse, and show what changed.

python flows/service_lists.py [--type STATIC] [--config FILE] [--set KEY=VALUE ...]      by hand
firmlake.flows.service_lists.service_lists                                              its entrypoint
"""

from __future__ import annotations

if __name__ == "__main__":
    from by_hand import service_lists_by_hand

    # Before Prefect is imported, since it reads its environment on import. Imports this file again, and never returns.
    service_lists_by_hand()

from typing import cast, get_args

from artifacts import show_table
from firmlake.api.requests import ListKind
from firmlake.core.errors import UsageError
from firmlake.service_lists.apply import read_service_lists
from firmlake.terminal.service_lists import describe_overview, show_service_lists
from job import as_task, end, job, read_settings, show

_ROWS_MAX = 200
"""Limit per table, because Prefect keeps artifacts in its database. The warehouse has all rows."""


@job(hours=6)
def service_lists(kind: str = "OVERVIEW", config: str | None = None, overrides: dict[str, str] | None = None) -> str:
    """Read all lists of the service into the warehouse.

    Args:
        kind: `STATIC`, `SMART`, or `OVERVIEW` for both.
        config: A settings file. None reads config/firmlake.toml.
        overrides: Settings by dotted key. Prefect stores and shows all parameters: pass no secrets.

    Returns:
        The name of the overview.
    """
    if kind not in get_args(ListKind):
        raise UsageError(f"{kind}: there is no such kind of list", f"Name one of {', '.join(get_args(ListKind))}")
    settings = read_settings(config, overrides)
    overview, events = read_service_lists(settings, cast("ListKind", kind), "the flow service_lists", as_task)
    show(lambda: show_service_lists(overview, events))
    show_table("service-lists-changes", events[:_ROWS_MAX], f"Changes that overview {overview.plan.overview_id} found")
    return end(overview.plan.overview_id, describe_overview(overview))
