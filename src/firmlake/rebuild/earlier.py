"""Convert the runs of development versions, which kept lists and targets under `runs/`; `firmlake replay` does it.

Settings that have gone since only shaped requests, so nothing that was answered is read in another way.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from firmlake.core.errors import DamagedError
from firmlake.core.files import read_json, sha256_of
from firmlake.core.folders import Folders
from firmlake.core.settings import ContractSettings, NameSettings
from firmlake.intake.lines import LINES, ListColumns, store_lines
from firmlake.landing.run import BEGUN, ENDED, Outcome, Run, RunPlan, begin, read_log
from firmlake.warehouse.list_names import NameChange, record_name_change

_ADDED = {"is_refresh": pl.lit(value=False), "is_barred": pl.lit(value=False), "free_until": pl.lit(None, pl.Datetime)}


def convert_earlier(folders: Folders) -> None:
    """Write the records, list and targets of each run that a development version wrote, and remove its own files.

    Raises:
        DamagedError: A file cannot be read. Restore it from a copy.
    """
    for folder in sorted((folders.data / "runs").glob("*/")):
        plan, ended, is_pruned = _read(folders, folder)
        for section, struct in (("names", NameSettings), ("contract", ContractSettings)):
            settings = plan.get(section, {})
            plan[section] = {name: settings[name] for name in settings.keys() & set(struct.__struct_fields__)}
        tables = dict(_tables(folder, plan))
        known = {name: plan[f"list_{name}"] for name in ("types", "formats", "delimiter") if f"list_{name}" in plan}
        columns = ListColumns(tuple(plan.get("list_columns", ())), **known)
        files = {"list": store_lines(folders.lists, columns, [_lines(tables)]).stem}
        run = Run(folders, msgspec.convert({**plan, "files": files}, RunPlan))
        targets = tables["targets"].drop("held_hash", strict=False)
        run = begin(run, targets.with_columns(**{name: _ADDED[name] for name in _ADDED.keys() - set(targets.columns)}))
        if ended:
            run.note(ENDED, ended, ended.finished_at)
        if is_pruned:
            run.mark_pruned(ended.finished_at if ended else run.plan.started_at)
        shutil.rmtree(folder)
    with suppress(OSError):
        (folders.data / "runs").rmdir()
    names = folders.state / "list_names.json"
    for change in read_json(names, tuple[NameChange, ...]) if names.exists() else ():
        record_name_change(folders, change)
    names.unlink(missing_ok=True)


def _read(folders: Folders, folder: Path) -> tuple[dict[str, Any], Outcome | None, bool]:
    """Read the plan of a run, and what its log lacks: how it ended and whether it was pruned."""
    path, ended = folder / "plan.json", folder / "outcome.json"
    if path.exists():
        outcome = read_json(ended, Outcome) if ended.exists() else None
        return read_json(path, dict[str, Any]), outcome, (folder / "pruned.json").exists()
    begun = read_log(folders, folder.name)[BEGUN]
    return msgspec.json.decode(begun.body), None, False


def _tables(folder: Path, plan: dict[str, Any]) -> Any:
    for name, sha256 in plan.get("sha256", {}).items():
        path = folder / plan.get("files", {}).get(name, f"{name}.parquet")
        if not path.exists() or sha256_of(path) != sha256:
            raise DamagedError(f"{path} is missing or does not match its checksum", "Restore it from a copy")
        yield name, pl.read_parquet(path, glob=False)


def _lines(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the lines of a list; those of one that came from no file are its companies."""
    if "members" in tables:
        lines = tables["members"]
    else:
        accepted = tables["companies"].with_columns(status=pl.lit("accepted"), columns=pl.lit("{}"))
        refused = tables["refused_lines"].with_columns(status=pl.lit("refused"), columns=pl.lit("{}"))
        lines = pl.concat([accepted, refused], how="diagonal").sort("line")
    missing = [pl.lit(None, kind).alias(name) for name, kind in LINES.items() if name not in lines.columns]
    return lines.with_columns(missing).select(LINES.names())
