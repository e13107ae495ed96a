"""What leaves after each enrichment, under Prefect: the export to `export.target`, the load into `load.target`.

    firmlake.flows.deliveries.export     its entrypoints, for deployments
    firmlake.flows.deliveries.load       by hand, use `firmlake export` and `firmlake load`

What the target already has is not delivered again, so it does no harm if Prefect starts a flow twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from artifacts import show_table
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings
from firmlake.delivery.deliver import Request, deliver, export_request, load_request
from job import NO_RUN_YET, as_task, end, is_before_first_run, is_deployed, job, read_settings, tell


@job(hours=12)
def export(config: str | None = None, overrides: dict[str, str] | None = None) -> str:
    """Export the newest generation to `export.target`.

    Args:
        config: A settings file. None reads config/firmlake.toml.
        overrides: Settings by dotted key. Prefect stores and shows all parameters: pass no secrets.

    Returns:
        The name of the export; empty if a deployed run has no place to export to, or nothing to export yet.
    """
    settings = read_settings(config, overrides)
    return _deliver("export", settings, settings.export.target, export_request)


@job(hours=12)
def load(whole: bool = False, config: str | None = None, overrides: dict[str, str] | None = None) -> str:
    """Load the newest generation, or its changes since the last load, into `load.target`.

    Args:
        whole: Compare all rows, even if the changes since the last load would do.
        config: A settings file. None reads config/firmlake.toml.
        overrides: Settings by dotted key. Prefect stores and shows all parameters: pass no secrets.

    Returns:
        The name of the load; empty if a deployed run has no target, or nothing to load yet.
    """
    settings = read_settings(config, overrides)
    return _deliver("load", settings, settings.load.target, partial(load_request, is_whole=whole))


def _deliver(what: str, settings: Settings, target: str, request_of: Callable[[Settings], Request]) -> str:
    """Deliver to a target; a deployed run without one, or before the first run, is skipped."""
    if is_deployed() and not target:
        noun = "export target" if what == "export" else "target"
        return end("", f"Skipped: no {noun} is named. Set FIRMLAKE_{what.upper()}__TARGET to {what} after each run")
    if is_deployed() and is_before_first_run(settings):
        return end("", NO_RUN_YET)
    request = request_of(settings)
    done = as_task(what, lambda: deliver(Folders.existing(settings), request, tell))
    tell(done.describe())
    rows = [
        {"table": table.name, "rows": table.row_count, **({} if done.is_load else {"files": len(table.files)}),
         **table.changes}
        for table in done.record.tables
    ]  # fmt: skip
    show_table(f"{what}-tables", rows, done.describe())
    return end(done.record.delivery_id, done.describe())
