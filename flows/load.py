"""The load under Prefect: put the newest generation into the tables of `load.target` after each enrichment.

    firmlake.flows.load.load     its entrypoint, for deployments; by hand, use `firmlake load`

A load that the target already holds is not repeated, so it does no harm if Prefect starts the flow twice.
"""

from __future__ import annotations

from artifacts import show_table
from firmlake.core.folders import Folders
from firmlake.delivery.deliver import deliver, load_request
from job import NO_RUN_YET, as_task, end, is_before_first_run, is_deployed, job, read_settings, tell


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
    if is_deployed() and not settings.load.target:
        return end("", "Skipped: no target is named. Set FIRMLAKE_LOAD__TARGET to load after each run")
    if is_deployed() and is_before_first_run(settings):
        return end("", NO_RUN_YET)
    request = load_request(settings, is_whole=whole)
    done = as_task("load", lambda: deliver(Folders.of(settings), request, tell))
    message = done.describe()
    show_table(
        "load-tables", [{"table": name, "rows": count} for name, count in done.record.row_counts.items()], message
    )
    return end(done.record.delivery_id, message)
