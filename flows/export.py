"""The export under Prefect: write the newest generation to `export.target` after each enrichment.

    firmlake.flows.export.export     its entrypoint, for deployments; by hand, use `firmlake export`

An export that already exists is not made again, so it does no harm if Prefect starts the flow twice.
"""

from __future__ import annotations

from artifacts import show_table
from firmlake.core.folders import Folders
from firmlake.delivery.deliver import deliver, export_request
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
    if is_deployed() and not settings.export.target:
        return end("", "Skipped: no export target is named. Set FIRMLAKE_EXPORT__TARGET to export after each run")
    if is_deployed() and is_before_first_run(settings):
        return end("", NO_RUN_YET)
    request = export_request(settings)
    done = as_task(f"export to {request.target}", lambda: deliver(Folders.existing(settings), request, tell))
    tell(done.describe())
    rows = [
        {"table": table.name, "rows": table.row_count, "files": len(table.files), **table.changes}
        for table in done.record.tables
    ]
    show_table("export-tables", rows, done.describe())
    return end(done.record.delivery_id, done.describe())
