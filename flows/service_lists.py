"""The overview of the service's lists under Prefect: all of them, into the warehouse, with what changed.

python flows/service_lists.py [--type STATIC] [--config FILE] [--set KEY=VALUE ...]      by hand
flows/service_lists.py:service_lists                                                     its entrypoint
"""

from __future__ import annotations

if __name__ == "__main__":
    from by_hand import service_lists_by_hand

    # Before Prefect is imported, which reads its environment then. It imports this file again and does not come back.
    service_lists_by_hand()

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast, get_args

from prefect import flow

from artifacts import show_table
from firmlake import __version__
from firmlake.api import service
from firmlake.api.requests import ListKind
from firmlake.core.errors import UsageError
from firmlake.core.lock import lock
from firmlake.core.run import Folders
from firmlake.core.settings import Settings
from firmlake.lists.load import publish_lists, read_list_changes
from firmlake.lists.overview import Overview, take_overview
from firmlake.terminal.lists import describe_overview, show_lists
from firmlake.warehouse.generations import open_warehouse
from job import end, in_one_line, read_settings, show, step

_ROWS_MAX = 200
"""Prefect keeps artifacts in its database, the warehouse has them all."""


@flow(version=__version__, persist_result=False, retries=0)
@in_one_line
def service_lists(kind: str = "OVERVIEW", config: str | None = None, overrides: dict[str, str] | None = None) -> str:
    """Read all lists of the service into the warehouse.

    Args:
        kind: `STATIC`, `SMART`, or `OVERVIEW` for both.
        config: A settings file. None takes config/firmlake.toml.
        overrides: Settings by dotted key. Prefect stores and shows all three: nothing secret belongs here.

    Returns:
        The overview's name.
    """
    if kind not in get_args(ListKind):
        raise UsageError(f"{kind} is no kind of lists", f"Name one of {', '.join(get_args(ListKind))}")
    settings = read_settings(config, overrides)
    service.check_access(settings)
    folders = Folders(Path(settings.paths.data))
    with lock(folders, "the flow service_lists"):
        service.check_service(settings, folders)
        overview = read_lists(settings, folders, cast("ListKind", kind), return_state=True).result()
        events = publish(settings, folders, overview, return_state=True).result()
    show(lambda: show_lists(overview, events))
    show_table("service-lists-changes", events[:_ROWS_MAX], f"What overview {overview.plan.overview_id} found changed")
    return end(overview.plan.overview_id, describe_overview(overview))


@step("read lists")
def read_lists(settings: Settings, folders: Folders, kind: ListKind) -> Overview:
    """Ask for all lists, as often as it takes until none can have slipped through."""
    with service.connect(settings) as client:
        return take_overview(client, settings, folders, service.service_name(settings), kind)


@step("publish")
def publish(settings: Settings, folders: Folders, overview: Overview) -> list[dict[str, Any]]:
    """Load the overview into the next generation of the warehouse; gives what it found changed."""
    service.stamp_service(settings, folders)
    publish_lists(folders, settings.run, overview.plan.overview_id, lambda: datetime.now(UTC), overview)
    with open_warehouse(folders) as connection:
        return read_list_changes(connection, overview.plan.overview_id)
