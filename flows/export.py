"""The export under Prefect: the newest generation leaves for where the settings say, once `enrich` has completed.

    flows/export.py:export      its entrypoint, for deployments; by hand `firmlake export` does the same

An export that is there already is not made again, so that it does no harm when Prefect starts it twice.
"""

from __future__ import annotations

from pathlib import Path

from prefect import flow
from prefect.artifacts import create_table_artifact

from firmlake import __version__
from firmlake.core.errors import UsageError
from firmlake.core.run import Folders
from firmlake.core.settings import Settings
from firmlake.core.settings_layers import load_settings
from firmlake.exports.export import Exported, request_of
from firmlake.exports.export import export as send
from firmlake.exports.manifest import describe_rows
from firmlake.exports.targets import open_target
from job import end, in_one_line, step, tell


@flow(version=__version__, persist_result=False, retries=0)
@in_one_line
def export(config: str | None = None, overrides: dict[str, str] | None = None) -> str:
    """Export the newest generation to `export.target`.

    Args:
        config: A settings file. None takes config/firmlake.toml.
        overrides: Settings by dotted key. Prefect stores and shows both: nothing secret belongs here.

    Returns:
        The export's name.
    """
    settings, _ = load_settings(Path(config) if config else None, overrides)
    if not settings.export.target:
        raise UsageError("No place to export to is named", "Set export.target")
    done = export_tables(settings, settings.export.target, return_state=True).result()
    return end(done.manifest.export_id, describe(done))


@step("export to {target}")
def export_tables(settings: Settings, target: str) -> Exported:
    """Export, and show on the run's page what left."""
    done = send(Folders(Path(settings.paths.data)), request_of(settings), open_target(target), tell)
    tell(describe(done))
    rows = [
        {"table": table.name, "rows": table.row_count, "files": len(table.files), **table.changes}
        for table in done.manifest.tables
    ]
    create_table_artifact(rows, key="export-tables", description=describe(done))
    return done


def describe(done: Exported) -> str:
    """Say in one line what came of an export."""
    made = done.manifest
    what = f"{made.export_id}: {describe_rows(made)}, {made.mode}"
    note = f" ({done.note})" if done.note else ""
    return (f"Exported {what}" if done.is_new else f"Already there: {what}") + note
