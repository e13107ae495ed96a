"""Freezing: the plan and the tables of a run are written before its first request, and removed if nothing landed."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import polars as pl

from firmlake.core.files import sha256_of, write_file, write_json, write_parquet
from firmlake.core.folders import Folders
from firmlake.core.run import Run, RunPlan

__all__ = ["Frozen", "freeze_again", "freeze_run", "remove_rests", "remove_run"]

Frozen = pl.DataFrame | Callable[[Path], object]
"""A table to freeze, or a function that writes its file."""


def freeze_run(folders: Folders, plan: RunPlan, targets: pl.DataFrame, tables: Mapping[str, Frozen]) -> Run:
    """Freeze a plan and its tables; `plan.json` is written last, so a run is complete or does not exist."""
    _remove_never_started(folders)
    return _freeze(Run(folders, plan), {**tables, "targets": targets})


def freeze_again(run: Run, plan: RunPlan, tables: Mapping[str, Frozen]) -> Run:
    """Replace some frozen tables of a run.

    New tables get new file names, so after a crash the run is complete with either the old tables or the new ones.

    Args:
        run: The run.
        plan: The run's plan with any other changes.
        tables: The new tables, by name.
    """
    mark = secrets.token_hex(3)
    files = {name: f"{name}-{mark}.parquet" for name in tables}
    again = _freeze(Run(run.folders, msgspec.structs.replace(plan, files={**run.plan.files, **files})), tables)
    remove_rests(again)
    return again


def remove_rests(run: Run) -> None:
    """Remove frozen tables that the plan does not name: replaced ones, and whole or partial files left by a crash."""
    named = {run.plan.files.get(name, f"{name}.parquet") for name in run.plan.sha256}
    for path in run.folder.iterdir():
        if path.suffix in (".parquet", ".part") and path.name not in named:
            path.unlink()


def remove_run(run: Run) -> None:
    """Remove a run without landed answers; its plan goes last, because landed files without a plan look like a loss."""
    shutil.rmtree(run.folders.landing(run.run_id), ignore_errors=True)
    shutil.rmtree(run.folder, ignore_errors=True)


# ---------------------------------------------------------------------------------------------------------------------


def _freeze(run: Run, tables: Mapping[str, Frozen]) -> Run:
    sha256 = dict(run.plan.sha256)
    for name, table in tables.items():
        path = run.folder / run.plan.files.get(name, f"{name}.parquet")
        if isinstance(table, pl.DataFrame):
            write_parquet(path, table)
        else:
            write_file(path, table)
        sha256[name] = sha256_of(path)
    plan = msgspec.structs.replace(run.plan, sha256=sha256)
    write_json(run.folder / "plan.json", plan)
    return Run(run.folders, plan)


def _remove_never_started(folders: Folders) -> None:
    """Remove folders without a plan, left by a crash before a run started; nothing can have landed for them."""
    for folder in folders.runs.glob("*"):
        if not (folder / "plan.json").exists() and not folders.landing(folder.name).exists():
            shutil.rmtree(folder, ignore_errors=True)
