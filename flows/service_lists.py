"""The overview of service lists under Prefect: read all lists into the warehouse, and show what changed.

python flows/service_lists.py [--type STATIC] [--config FILE] [--set KEY=VALUE ...]      by hand
firmlake.flows.service_lists.service_lists                                              its entrypoint
"""

from __future__ import annotations

if __name__ == "__main__":
    from by_hand import start

    start(__file__)  # before Prefect is imported, which reads its environment then; never returns

from artifacts import show_table
from firmlake.api.requests import ListKind
from firmlake.service_lists.apply import read_service_lists
from firmlake.terminal.service_lists import describe_overview, service_lists_parts
from job import as_task, end, job, read_settings, show_parts


@job(hours=6)
def service_lists(
    *, kind: ListKind = "OVERVIEW", config: str | None = None, overrides: dict[str, str] | None = None
) -> str:
    """Read all lists of the service into the warehouse.

    Args:
        kind (--type): `STATIC`, `SMART`, or `OVERVIEW` for both.
        config: A settings file. None reads config/firmlake.toml.
        overrides: Settings by dotted key. Prefect stores and shows all parameters: pass no secrets.

    Returns:
        The name of the overview.
    """
    settings = read_settings(config, overrides)
    overview, events = read_service_lists(settings, kind, "the flow service_lists", as_task)
    show_parts(service_lists_parts(overview, events))
    show_table("service-lists-changes", events, f"Changes that overview {overview.plan.overview_id} found")
    return end(overview.plan.overview_id, describe_overview(overview))
