"""Archive the landed answers of one or several data folders in an object store, where any machine can flatten them.

    runs/<run>/plan.json                          written first: reserves the name
    landing/run=<run>/shard=00001/00001.zst       segments, byte for byte
    runs/<run>/*.parquet                          the frozen tables
    runs/<run>/outcome.json                       written last: marks the run as archived
    landing/service_lists/... contacts/...        answers about service lists, byte for byte
    state/list_names/<sha256>.json                one for each company list that was renamed or removed
    staged/<replay>/run=<run>/<table>/shard=00001.<sha256>.parquet
    staged/<replay>/run=<run>/shard=00001.json    written last: marks the shard as staged

Every object is created once and never changed: the store refuses a second object with the same name. A second worker,
after a crash or in parallel, uses the object of the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.core.run import Run
from firmlake.exports.destination import Destination
from firmlake.rebuild.finished import read_finished
from firmlake.tables.stage import check_landed, read_manifest
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake.warehouse.list_names import read_name_changes
from firmlake.warehouse.loads import loaded_runs

__all__ = ["LISTS", "LIST_NAMES", "WRITTEN_LAST", "archive", "object_differs", "read_object"]

LISTS = ("landing/service_lists", "landing/contacts")
LIST_NAMES = "state/list_names"
WRITTEN_LAST = "outcome.json"


class Archived(NamedTuple):
    """What one call added to an archive.

    Attributes:
        damaged: Runs that were skipped, by name. The error says what is wrong and what to do.
    """

    runs: list[str]
    file_count: int
    byte_count: int
    damaged: dict[str, DamagedError]


def archive(folders: Folders, destination: Destination, tell: Callable[[str], object] = lambda line: None) -> Archived:
    """Add published runs, overviews of service lists and contacts that the archive lacks. Call again to resume.

    A run that has ended but is not published may still change its outcome, so it is archived later. A run is skipped if
    it is damaged, if it differs from the archived run of the same name, or if it was pruned.

    Args:
        folders: The data folder. The caller holds its lock; see `lock`.
        destination: The archive. Several data folders of one service may share it.
        tell: Called with a line for each run that is added.

    Raises:
        DamagedError: An archived file about service lists differs from the file of the same name in the data folder.
            Find out which of the two is right.
    """
    there = destination.sizes("runs") | destination.sizes("landing")
    runs: list[str] = []
    sizes: list[int] = []
    published = _published(folders)
    due = {run_id for run_id in published if f"runs/{run_id}/{WRITTEN_LAST}" not in there}
    finished, unreadable = read_finished(folders, published)
    damaged = {run_id: error for run_id, error in unreadable.items() if run_id in due}
    for run in (run for run, _ in finished if run.run_id in due):
        try:
            _check(run)
            tell(f"Archiving run {run.run_id}")
            sizes += _add(folders, destination, _files_of(run), there)
            runs.append(run.run_id)
        except DamagedError as error:
            damaged[run.run_id] = error
    for folder in LISTS:
        sizes += _add(folders, destination, _files_below(folders.data / folder), there)
    sizes += _add_list_names(folders, destination)
    return Archived(runs, len(sizes), sum(sizes), damaged)


# ---------------------------------------------------------------------------------------------------------------------


def _published(folders: Folders) -> list[str]:
    if newest(folders) is None:
        return []
    with open_warehouse(folders) as connection:
        return loaded_runs(connection)


def _check(run: Run) -> None:
    """Check that a run is complete and that its files are unchanged."""
    if run.is_pruned:
        raise DamagedError(
            f"Run {run.run_id} cannot be archived, because its landed answers were pruned",
            "Archive before you prune; to omit this run, archive from a copy without its folder in runs",
        )
    for name in run.plan.sha256:
        run.checked(name)
    if manifest := read_manifest(run):
        check_landed(run, manifest)


def _files_of(run: Run) -> Iterator[Path]:
    yield run.folder / "plan.json"
    yield from _files_below(run.folders.landing(run.run_id))
    yield from map(run.checked, sorted(run.plan.sha256))
    yield run.folder / WRITTEN_LAST


def _files_below(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]


def _add_list_names(folders: Folders, destination: Destination) -> Iterator[int]:
    """Create an object for each change of a list's name, named by its content; yield the size of each new one."""
    for change in read_name_changes(folders):
        content = msgspec.json.encode(change)
        if destination.create(f"{LIST_NAMES}/{hashlib.sha256(content).hexdigest()}.json", content):
            yield len(content)


def _add(
    folders: Folders, destination: Destination, paths: Iterator[Path] | list[Path], there: dict[str, int]
) -> Iterator[int]:
    """Create the files that the archive lacks, one by one, and yield the size of each."""
    for path in paths:
        name = path.relative_to(folders.data).as_posix()
        size = path.stat().st_size
        if path.name != "plan.json" and name in there:
            if there[name] != size:
                raise object_differs(destination, name)
            continue
        content = path.read_bytes()
        if destination.create(name, content):
            yield size
        elif read_object(destination, name) != content:
            raise object_differs(destination, name)


def read_object(destination: Destination, name: str) -> bytes:
    """Read an archived object.

    Raises:
        DamagedError: The object is missing. Restore it, or archive again.
    """
    found = destination.read(name)
    if found is None:
        raise DamagedError(f"{destination.url}/{name} is missing", "Restore it, or archive again from the data folder")
    return found.content


def object_differs(destination: Destination, name: str) -> DamagedError:
    """Return the error for an object that differs from the data folder's file of the same name."""
    return DamagedError(
        f"{destination.url}/{name} differs from the file of the same name in the data folder",
        "Find out which of the two is intact. An archive holds data folders of one service, and each run once",
    )
