"""The archive: landed answers of one or several data folders on an object store, where any machine can flatten them.

    runs/<run>/plan.json                          written first: reserves the name
    landing/run=<run>/shard=00001/00001.zst       segments, byte for byte
    runs/<run>/*.parquet                          the frozen tables
    runs/<run>/outcome.json                       written last: marks the run as archived
    landing/service_lists/... contacts/...        answers about service lists, byte for byte
    staged/<replay>/run=<run>/<table>/shard=00001.<sha256>.parquet
    staged/<replay>/run=<run>/shard=00001.json    written last: marks the shard as staged
    staged/<replay>/run=<run>/whole=00001.json    the same, for a shard staged with the records that were already held

Every object is created once and never changed: the store refuses a second object of the same name. A worker that comes
second, after a crash or in parallel, uses the object of the first.
"""

from __future__ import annotations

import atexit
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from shutil import rmtree
from typing import NamedTuple

import msgspec

from firmlake.core.errors import DamagedError, FirmlakeError, UsageError
from firmlake.core.files import sha256_of, write_file
from firmlake.core.folders import Folders
from firmlake.core.run import Run, open_run
from firmlake.core.runs import read_runs
from firmlake.exports.targets import Target, open_target
from firmlake.rebuild.replay import read_finished
from firmlake.tables.stage import Manifest, StagedFile, check_landed, finish_stage, read_manifest, stage_shard
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake.warehouse.load import loaded_runs

__all__ = ["Archived", "archive", "collect_staged", "fetch_runs", "stage_archived", "stage_archived_whole"]

_LISTS = ("landing/service_lists", "landing/contacts")
_LAST = "outcome.json"


class Archived(NamedTuple):
    """What one call added to an archive.

    Attributes:
        damaged: Runs that were left out, by name. The error says what is wrong and what to do.
    """

    runs: list[str]
    file_count: int
    byte_count: int
    damaged: dict[str, DamagedError]


def archive(folders: Folders, target: Target, tell: Callable[[str], object] = lambda line: None) -> Archived:
    """Add published runs, overviews of service lists and contacts that the archive lacks. Call again to resume.

    A run that has ended but is not published may still change its outcome, so it is archived later. A run is left out
    if it is damaged, if it differs from the archived run of the same name, or if it was pruned before.

    Args:
        folders: The data folder. The caller holds its lock; see `lock`.
        target: The archive. Several data folders of one service may share it.
        tell: Called with a line for each run that is added.

    Raises:
        DamagedError: An archived file about service lists differs from the file of the same name in the data folder.
            Find out which of the two is right.
    """
    there = target.sizes("runs") | target.sizes("landing")
    runs: list[str] = []
    sizes: list[int] = []
    published = _published(folders)
    due = {run_id for run_id in published if f"runs/{run_id}/{_LAST}" not in there}
    finished, unreadable = read_finished(folders, published)
    damaged = {run_id: error for run_id, error in unreadable.items() if run_id in due}
    for run in (run for run, _ in finished if run.run_id in due):
        try:
            _check(run)
            tell(f"Archiving run {run.run_id}")
            sizes += _add(folders, target, _files_of(run), there)
            runs.append(run.run_id)
        except DamagedError as error:
            damaged[run.run_id] = error
    for folder in _LISTS:
        sizes += _add(folders, target, _files_below(folders.data / folder), there)
    return Archived(runs, len(sizes), sum(sizes), damaged)


def fetch_runs(target: Target, folders: Folders) -> tuple[list[Run], dict[str, DamagedError]]:
    """Fetch what a machine needs to load the warehouse besides staged tables: plans, outcomes, answers about lists.

    Args:
        target: The archive.
        folders: A data folder for this purpose only. Its runs count as pruned, since the archive has their answers.

    Returns:
        The runs, oldest first; and by name the runs whose plan, outcome or targets are not what was archived. A damaged
        run leaves nothing in the data folder.

    Raises:
        UsageError: The data folder has runs of its own, or the archive holds no run or runs of several services. The
            message says which, and what to do.
    """
    if own := next((folders.data / "landing").glob("run=*"), None):
        raise UsageError(f"{own} is a run of this data folder's own", "Name another folder in paths.data")
    there = target.sizes("runs")
    for name in {path.split("/")[1] for path in there if path.endswith(f"/{_LAST}")}:
        _fetch(target, folders, [path for path in there if path.startswith(f"runs/{name}/")], last=_LAST)
    for folder in _LISTS:
        _fetch(target, folders, list(target.sizes(folder)))
    runs, damaged = _read_fetched(target, folders)
    if not (runs or damaged):
        raise UsageError(f"{target.url} holds no run", "Add runs with `firmlake archive`")
    if len(services := sorted({run.plan.service for run in runs})) > 1:
        raise UsageError(f"{target.url} holds answers of {' and '.join(services)}", "Keep an archive for each service")
    for run in runs:
        run.mark_pruned()
    return runs, damaged


def stage_archived(address: str, replay: str, run_id: str, shard: int, *, is_whole: bool = False) -> Manifest:
    """Flatten a shard of an archived run into the archive, unless it is staged there already. Safe on any machine.

    Args:
        address: The address of the archive, as given to `open_target`.
        replay: A name for one replay with one version of the code. What is staged under this name is reused.
        run_id: The run.
        shard: The number of the shard.
        is_whole: True stages all records; False leaves out records that were held when the run was frozen.

    Raises:
        DamagedError: A landed answer is not what was written; restore it in the archive.
    """
    target = open_target(address)
    folder = f"staged/{replay}/run={run_id}"
    marker = f"{folder}/{'whole' if is_whole else 'shard'}={shard:05}.json"
    if held := target.read(marker):
        return msgspec.json.decode(held.content, type=Manifest)
    with _fetched(target, run_id, shard) as run:
        try:
            manifest = stage_shard(run, shard, is_whole=is_whole)
        except DamagedError as error:
            raise _in_archive(target, run.folders, error) from None
        for file in manifest.files:
            content = (run.folders.staged(run_id) / file.path).read_bytes()
            target.create(
                _staged_path(folder, file), content
            )  # an existing object has this content: its name holds the hash
    if not target.create(marker, msgspec.json.encode(manifest)):
        return stage_archived(address, replay, run_id, shard, is_whole=is_whole)  # another worker was first
    return manifest


def collect_staged(target: Target, replay: str, run: Run, shards: Sequence[Manifest]) -> Manifest:
    """Fetch the staged tables of a run from the archive, and finish its staging in the data folder.

    Raises:
        DamagedError: A file is not what was written; restore it in the archive.
    """
    folder = f"staged/{replay}/run={run.run_id}"
    for file in (file for manifest in shards for file in manifest.files):
        path = run.folders.staged(run.run_id) / file.path
        if not path.exists() or sha256_of(path) != file.sha256:
            content = _read(target, _staged_path(folder, file))
            if hashlib.sha256(content).hexdigest() != file.sha256:
                raise _changed(target, _staged_path(folder, file))
            _write(path, content)
    return finish_stage(run, shards)


def stage_archived_whole(target: Target, replay: str, run: Run) -> Manifest:
    """Stage an archived run with all its records in this process, and fetch its tables; used by `load_staged`."""
    shards = [stage_archived(target.url, replay, run.run_id, shard, is_whole=True) for shard in run.shards()]
    return collect_staged(target, replay, run, shards)


# ---------------------------------------------------------------------------------------------------------------------


def _published(folders: Folders) -> list[str]:
    if newest(folders) is None:
        return []
    with open_warehouse(folders) as connection:
        return loaded_runs(connection)


def _check(run: Run) -> None:
    """Check that a run is complete and that its files are what was written."""
    if run.is_pruned:
        raise DamagedError(
            f"Run {run.run_id} cannot be archived: its landed answers were pruned",
            "Archive before you prune; to leave the run out, archive from a copy without its folder in runs",
        )
    for name in run.plan.sha256:
        run.checked(name)
    if manifest := read_manifest(run):
        check_landed(run, manifest)


def _read_fetched(target: Target, folders: Folders) -> tuple[list[Run], dict[str, DamagedError]]:
    """Read the fetched runs. The folder of a damaged run is removed, so that the restored run is fetched again."""
    runs, damaged = read_runs(folders)
    for run in runs:
        try:
            for name in run.plan.sha256:
                run.checked(name)
        except DamagedError as error:
            damaged[run.run_id] = error
    for run_id in damaged:
        damaged[run_id] = _in_archive(target, folders, damaged[run_id])
        rmtree(folders.run(run_id))
    return [run for run in runs if run.run_id not in damaged], damaged


def _files_of(run: Run) -> Iterator[Path]:
    yield run.folder / "plan.json"
    yield from _files_below(run.folders.landing(run.run_id, 1).parent)
    yield from (run.folder / f"{name}.parquet" for name in sorted(run.plan.sha256))
    yield run.folder / _LAST


def _files_below(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]


def _add(folders: Folders, target: Target, paths: Iterator[Path] | list[Path], there: dict[str, int]) -> Iterator[int]:
    """Create the files that the archive lacks, one by one, and yield the size of each."""
    for path in paths:
        name = path.relative_to(folders.data).as_posix()
        size = path.stat().st_size
        if path.name != "plan.json" and name in there:
            if there[name] != size:
                raise _changed(target, name)
            continue
        content = path.read_bytes()
        if target.create(name, content):
            yield size
        elif _read(target, name) != content:
            raise _changed(target, name)


def _fetch(target: Target, folders: Folders, names: list[str], last: str = "") -> None:
    for name in sorted(names, key=lambda name: name.endswith(f"/{last}")):
        path = folders.data / name
        if not path.exists():  # an existing file is complete, since files are renamed into place
            _write(path, _read(target, name))


@contextmanager
def _fetched(target: Target, run_id: str, shard: int) -> Iterator[Run]:
    """Fetch a shard of a run for the time of the context. Files of the whole run are kept for its next shard."""
    run = _fetch_run(target.url, run_id)
    folders = run.folders
    landing = folders.landing(run_id, shard)
    try:
        _fetch(target, folders, list(target.sizes(landing.relative_to(folders.data).as_posix())))
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
    _fetch(open_target(address), folders, [f"runs/{run_id}/{name}" for name in ("plan.json", "targets.parquet")])
    return open_run(folders, run_id)


def _staged_path(folder: str, file: StagedFile) -> str:
    """Name a file by its content, so that files of two workers never get mixed up."""
    return f"{folder}/{file.path.removesuffix('.parquet')}.{file.sha256}.parquet"


def _read(target: Target, name: str) -> bytes:
    found = target.read(name)
    if found is None:
        raise DamagedError(f"{target.url}/{name} is missing", "Restore it, or archive again from the data folder")
    return found.content


def _write(path: Path, content: bytes) -> None:
    write_file(path, lambda aside: aside.write_bytes(content))


def _in_archive(target: Target, folders: Folders, error: DamagedError) -> DamagedError:
    """Name the file in the archive instead of its local copy in an error about damage."""
    where = error.message.replace(str(folders.data), target.url)
    return DamagedError(where, "Restore it in the archive, from the data folder or a copy")


def _changed(target: Target, name: str) -> FirmlakeError:
    return DamagedError(
        f"{target.url}/{name} differs from the file of the same name in the data folder",
        "Find out which of the two is intact; an archive takes data folders of one service, and each run once",
    )
