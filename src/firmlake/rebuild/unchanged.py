"""Check that no file has changed since it was written, which takes seconds instead of the minutes of a replay."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from firmlake.core.files import read_json
from firmlake.core.folders import Folders
from firmlake.core.run import Run
from firmlake.landing.segments import read_segment
from firmlake.rebuild.finished import finished_runs
from firmlake.rebuild.restage import read_pruned
from firmlake.rebuild.verify import content_hashes
from firmlake.tables.stage import Manifest, check_landed, check_staged, required_manifest
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake.warehouse.loads import loaded_runs

__all__ = ["Unchanged", "check_unchanged"]


class Unchanged(NamedTuple):
    """The unchanged files that were read: number of runs, files and bytes."""

    runs: int
    files: int
    bytes: int


def check_unchanged(folders: Folders, *, memory_limit: str) -> Unchanged:
    """Compare every landed and staged file, and the newest generation, with their checksums.

    Args:
        folders: The data folder.
        memory_limit: Memory limit of DuckDB, such as "512MB".

    Raises:
        DamagedError: A file is missing or was changed. The message names it and says how to restore it.
    """
    with open_warehouse(folders, memory_limit=memory_limit) as warehouse:
        loaded = loaded_runs(warehouse)
        content_hashes(warehouse)  # DuckDB compares the checksum of each block that it reads
    generation = newest(folders)
    files = {generation} if generation else set()
    runs = [run for run, _ in finished_runs(folders, loaded)]
    for run in runs:
        files.update(run.checked(name) for name in run.plan.sha256)
        if manifest := _manifest(run):
            check_staged(run, manifest)
            files.update(folders.staged(run.run_id) / file.path for file in manifest.files)
            if not run.is_pruned:
                check_landed(run, manifest)
                files.update(folders.data / name for name in manifest.segments)
    for path in set(folders.landed.rglob("*.zst")) - files:  # of other runs, service lists and contacts
        deque(read_segment(path), maxlen=0)
        files.add(path)
    for path in folders.landed.rglob("*.json"):
        read_json(path, msgspec.Raw)
        files.add(path)
    return Unchanged(len(runs), len(files), sum(path.stat().st_size for path in files))


def _manifest(run: Run) -> Manifest | None:
    """Return the manifest of a run's files; None if it has only landed answers."""
    if run.is_pruned:
        return read_pruned(run)
    return required_manifest(run) if run.folders.staged(run.run_id).exists() else None
