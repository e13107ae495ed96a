"""Read an archive: fetch its runs, flatten their shards into the archive, and collect the staged tables."""

from __future__ import annotations

import atexit
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from shutil import rmtree

import msgspec

from firmlake.core.errors import DamagedError, UsageError
from firmlake.core.files import sha256_of, write_file
from firmlake.core.folders import Folders
from firmlake.core.run import Run, open_run
from firmlake.core.runs import read_runs
from firmlake.exports.destination import Destination, open_destination
from firmlake.rebuild.archive import LIST_NAMES, LISTS, WRITTEN_LAST, object_differs, read_object
from firmlake.tables.stage import Manifest, StagedFile, finish_stage, stage_shard
from firmlake.warehouse.list_names import NameChange, write_name_changes

__all__ = ["collect_staged", "fetch_runs", "stage_archived"]


def fetch_runs(destination: Destination, folders: Folders) -> tuple[list[Run], dict[str, DamagedError]]:
    """Fetch everything but staged tables that a load into the warehouse needs: plans, outcomes, answers about lists.

    Args:
        destination: The archive.
        folders: A data folder for this purpose only. Its runs count as pruned, because the archive has their answers.

    Returns:
        The runs, oldest first; and, by name, the runs whose plan, outcome or targets were changed in the archive. A
        damaged run leaves nothing in the data folder.

    Raises:
        UsageError: The data folder has its own runs, or the archive has no run or runs of several services. The message
            says which, and what to do.
    """
    if own := next(folders.landed.glob("run=*"), None):
        raise UsageError(
            f"{own}: this data folder already has its own runs", "Name an empty folder for the replay in paths.data"
        )
    there = destination.sizes("runs")
    for name in {path.split("/")[1] for path in there if path.endswith(f"/{WRITTEN_LAST}")}:
        _fetch(destination, folders, [path for path in there if path.startswith(f"runs/{name}/")], last=WRITTEN_LAST)
    for folder in LISTS:
        _fetch(destination, folders, list(destination.sizes(folder)))
    write_name_changes(folders, (_name_change(destination, path) for path in destination.sizes(LIST_NAMES)))
    runs, damaged = _read_fetched(destination, folders)
    if not (runs or damaged):
        raise UsageError(f"{destination.url} holds no run", "Add runs with `firmlake archive`")
    if len(services := sorted({run.plan.service for run in runs})) > 1:
        raise UsageError(
            f"{destination.url} holds answers of {' and '.join(services)}", "Keep an archive for each service"
        )
    for run in runs:
        run.mark_pruned()
    return runs, damaged


def stage_archived(address: str, replay: str, run_id: str, shard: int) -> Manifest:
    """Flatten a shard of an archived run into the archive, unless it is already staged there. Safe on any machine.

    Args:
        address: The address of the archive, as given to `open_destination`.
        replay: A name for one replay with one version of the code. Shards staged under this name are reused.
        run_id: The run.
        shard: The number of the shard.

    Raises:
        DamagedError: A landed answer was changed; restore it in the archive.
    """
    destination = open_destination(address)
    folder = f"staged/{replay}/run={run_id}"
    marker = f"{folder}/shard={shard:05}.json"
    if staged := destination.read(marker):
        return msgspec.json.decode(staged.content, type=Manifest)
    with _fetched(destination, run_id, shard) as run:
        try:
            manifest = stage_shard(run, shard)
        except DamagedError as error:
            raise _in_archive(destination, run.folders, error) from None
        for file in manifest.files:
            content = (run.folders.staged(run_id) / file.path).read_bytes()
            # An existing object has this content, since its name holds the hash.
            destination.create(_staged_path(folder, file), content)
    if not destination.create(marker, msgspec.json.encode(manifest)):
        return stage_archived(address, replay, run_id, shard)  # another worker was first
    return manifest


def collect_staged(destination: Destination, replay: str, run: Run, shards: Sequence[Manifest]) -> Manifest:
    """Fetch the staged tables of a run from the archive, and finish its staging in the data folder.

    Raises:
        DamagedError: A file was changed; restore it in the archive.
    """
    folder = f"staged/{replay}/run={run.run_id}"
    for file in (file for manifest in shards for file in manifest.files):
        path = run.folders.staged(run.run_id) / file.path
        if not path.exists() or sha256_of(path) != file.sha256:
            content = read_object(destination, _staged_path(folder, file))
            if hashlib.sha256(content).hexdigest() != file.sha256:
                raise object_differs(destination, _staged_path(folder, file))
            _write(path, content)
    return finish_stage(run, shards)


# ---------------------------------------------------------------------------------------------------------------------


def _read_fetched(destination: Destination, folders: Folders) -> tuple[list[Run], dict[str, DamagedError]]:
    """Read the fetched runs. The folder of a damaged run is removed, so that the run is fetched again once restored."""
    runs, damaged = read_runs(folders)
    for run in runs:
        try:
            for name in run.plan.sha256:
                run.checked(name)
        except DamagedError as error:
            damaged[run.run_id] = error
    for run_id in damaged:
        damaged[run_id] = _in_archive(destination, folders, damaged[run_id])
        rmtree(folders.run(run_id))
    return [run for run in runs if run.run_id not in damaged], damaged


def _fetch(destination: Destination, folders: Folders, names: list[str], last: str = "") -> None:
    for name in sorted(names, key=lambda name: name.endswith(f"/{last}")):
        path = folders.data / name
        if not path.exists():  # an existing file is complete, since files are renamed into place
            _write(path, read_object(destination, name))


def _name_change(destination: Destination, path: str) -> NameChange:
    try:
        return msgspec.json.decode(read_object(destination, path), type=NameChange)
    except msgspec.DecodeError as error:
        raise DamagedError(f"{destination.url}/{path} is damaged: {error}", "Restore it in the archive") from error


@contextmanager
def _fetched(destination: Destination, run_id: str, shard: int) -> Iterator[Run]:
    """Fetch a shard of a run while the context is open. Files of the whole run are kept for its next shard."""
    run = _fetch_run(destination.url, run_id)
    folders = run.folders
    landing = folders.landing(run_id, shard)
    try:
        _fetch(destination, folders, list(destination.sizes(landing.relative_to(folders.data).as_posix())))
        yield run
    finally:
        rmtree(landing, ignore_errors=True)
        for path in folders.staged(run_id).rglob(f"shard={shard:05}.*"):
            path.unlink()


@cache
def _fetch_run(address: str, run_id: str) -> Run:
    """Fetch the plan and targets of a run, once for all shards that this process works on."""
    folders = Folders(Path(tempfile.mkdtemp(prefix="firmlake-")))
    atexit.register(rmtree, folders.data, ignore_errors=True)
    destination = open_destination(address)
    _fetch(destination, folders, [f"runs/{run_id}/plan.json"])
    run = open_run(folders, run_id)
    _fetch(destination, folders, [f"runs/{run_id}/{run.plan.files.get('targets', 'targets.parquet')}"])
    return run


def _staged_path(folder: str, file: StagedFile) -> str:
    """Name a file by its content, so that files of two workers never get mixed up."""
    return f"{folder}/{file.path.removesuffix('.parquet')}.{file.sha256}.parquet"


def _write(path: Path, content: bytes) -> None:
    write_file(path, lambda aside: aside.write_bytes(content))


def _in_archive(destination: Destination, folders: Folders, error: DamagedError) -> DamagedError:
    """Return the error with the file in the archive instead of its local copy."""
    where = error.message.replace(str(folders.data), destination.url)
    return DamagedError(where, "Restore it in the archive, from the data folder or a copy")
