"""The archive: add runs to it, and build one warehouse from those that several data folders added."""

from __future__ import annotations

import hashlib
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import NamedTuple

import msgspec

from firmlake.core.errors import DamagedError, FirmlakeError, UsageError
from firmlake.core.files import sha256_of, write_file
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings
from firmlake.core.text import count_of
from firmlake.core.work import Clock, lock, utc_now
from firmlake.delivery.destination import Destination, open_destination
from firmlake.landing.run import BEGUN, CHARGED, ENDED, Run, list_runs, open_run
from firmlake.rebuild.replay import load_staged, read_finished
from firmlake.tables.stage import Manifest, StagedFile, check_landed, finish_stage, read_manifest, stage_shard
from firmlake.warehouse.generations import newest_of_all, open_warehouse
from firmlake.warehouse.loads import loaded_runs

BESIDE_RUNS = ("landing/service_lists", "landing/contacts", "landing/list_names")
LOG_FOLDER = "log"


class Archived(NamedTuple):
    """What one call added to an archive."""

    runs: list[str]
    file_count: int
    byte_count: int
    damaged: dict[str, DamagedError]  # runs that were skipped, by name; the error says what is wrong and what to do


def archive(folders: Folders, destination: Destination, tell: Callable[[str], object] = lambda line: None) -> Archived:
    """Add published runs, overviews of service lists and contacts that the archive lacks. Call again to resume.

    The caller holds the lock of the data folder. Several data folders of one service may share an archive. A run that
    has ended but is not published may still change its outcome, so it is archived later. A run is skipped if it is
    damaged, if it differs from the archived run of the same name, or if it was pruned.

    Raises:
        DamagedError: An archived file about service lists differs from the file of the same name in the data folder.
            Find out which of the two is right.
    """
    there = destination.sizes("landing")
    runs: list[str] = []
    sizes: list[int] = []
    published: list[str] = []
    if newest_of_all(folders):
        with open_warehouse(folders, with_held=True) as connection:
            published = loaded_runs(connection)
    due = {run_id for run_id in published if _name_of_end(folders, run_id) not in there}
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
    for folder in BESIDE_RUNS:
        sizes += _add(folders, destination, _files_below(folders.data / folder), there)
    return Archived(runs, len(sizes), sum(sizes), damaged)


def _check(run: Run) -> None:
    """Check that a run is complete and that its files are unchanged."""
    if run.is_pruned:
        raise DamagedError(
            f"Run {run.run_id} cannot be archived, because its landed answers were pruned",
            "Archive before you prune; to omit this run, archive from a copy without its folder in landing",
        )
    run.check()
    if manifest := read_manifest(run):
        check_landed(run, manifest)


def _files_of(run: Run) -> Iterator[Path]:
    """Yield the files of a run: first how it began, which reserves its name; last how it ended, which completes it."""
    log = run.log()
    yield from (log[kind].path for kind in (BEGUN, CHARGED) if kind in log)
    for shard in sorted(run.folders.landing(run.run_id).glob("shard=*")):
        yield from _files_below(shard)
    yield from run.check()
    yield log[ENDED].path


def _name_of_end(folders: Folders, run_id: str) -> str:
    """Return the name of the last object of a run in an archive; empty if the run cannot be read."""
    try:
        return open_run(folders, run_id).log()[ENDED].path.relative_to(folders.data).as_posix()
    except (DamagedError, KeyError):
        return ""


def _files_below(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]


def _add(
    folders: Folders, destination: Destination, paths: Iterator[Path] | list[Path], there: dict[str, int]
) -> Iterator[int]:
    """Create the files that the archive lacks, one by one, and yield the size of each."""
    for path in paths:
        name = path.relative_to(folders.data).as_posix()
        size = path.stat().st_size
        if path.parent.name != LOG_FOLDER and name in there:
            if there[name] != size:
                raise object_differs(destination, name)
            continue
        content = path.read_bytes()
        if destination.put_if(name, content):
            yield size
        elif read_object(destination, name) != content:
            raise object_differs(destination, name)


def read_object(destination: Destination, name: str) -> bytes:
    """Read an archived object. If it is missing (DamagedError), restore it, or archive again."""
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


def fetch_runs(destination: Destination, folders: Folders) -> list[Run]:
    """Fetch all but staged tables that a load into the warehouse needs; return the complete runs, oldest first.

    The data folder is for this purpose only. Its runs count as pruned, because the archive has their answers.

    Raises:
        UsageError: The data folder has its own runs, or the archive has no run or runs of several services. The message
            says which, and what to do.
        DamagedError: A log, list or targets were changed in the archive. Nothing stays in the data folder.
    """
    if own := next(folders.landed.glob("run=*/shard=*"), None):
        raise UsageError(
            f"{own}: this data folder already has its own runs", "Name an empty folder for the replay in paths.data"
        )
    there = destination.sizes("landing")
    with _named_in_archive(destination, folders):
        _fetch(destination, folders, [path for path in there if f"/{LOG_FOLDER}/" in path])
        begun = list_runs(folders)
        runs = [run for run in begun if run.outcome()]
        _fetch(destination, folders, sorted({_name_of(run, name) for run in runs for name in run.plan.files}))
        for run in runs:
            run.check()
    for run in (run for run in begun if run not in runs):
        rmtree(folders.landing(run.run_id))
    for folder in BESIDE_RUNS:
        _fetch(destination, folders, destination.sizes(folder))
    if not runs:
        raise UsageError(f"{destination.url} holds no run", "Add runs with `firmlake archive`")
    if len(services := sorted({run.plan.service for run in runs})) > 1:
        raise UsageError(
            f"{destination.url} holds answers of {' and '.join(services)}", "Keep an archive for each service"
        )
    for run in (run for run in runs if not run.is_pruned):
        run.mark_pruned(utc_now())
    return runs


def list_shards(folders: Folders) -> list[tuple[str, int]]:
    """List the shards to stage, as (run, shard), after `fetch_runs` has fetched the runs into a data folder."""
    return [(run.run_id, shard) for run in list_runs(folders) for shard in run.shards()]


def stage_archived(address: str, replay: str, run_id: str, shard: int) -> Manifest:
    """Flatten a shard of an archived run into the archive, unless it is already staged there. Safe on any machine.

    Shards staged under the name of this `replay`, with one version of the code, are reused. After a DamagedError,
    restore the landed answer in the archive.
    """
    destination = open_destination(address)
    folder = f"staged/{replay}/run={run_id}"
    marker = f"{folder}/shard={shard:05}.json"
    if staged := destination.read(marker):
        return msgspec.json.decode(staged.content, type=Manifest)
    with tempfile.TemporaryDirectory(prefix="firmlake-") as room:
        folders = Folders(Path(room))
        with _named_in_archive(destination, folders):
            _fetch(destination, folders, _below(destination, folders, folders.log(run_id)))
            run = open_run(folders, run_id)
            _fetch(destination, folders, [_name_of(run, "targets")])
            _fetch(destination, folders, _below(destination, folders, folders.landing(run_id, shard)))
            manifest = stage_shard(run, shard)
        for file in manifest.files:  # an existing object has this content, since its name holds the hash
            destination.put_if(_staged_path(folder, file), (folders.staged(run_id) / file.path).read_bytes())
    destination.put_if(marker, msgspec.json.encode(manifest))
    return manifest


def collect_staged(destination: Destination, replay: str, run: Run, shards: Sequence[Manifest]) -> Manifest:
    """Fetch the staged tables of a run from the archive, and finish its staging in the data folder.

    After a DamagedError, restore the file in the archive.
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


def _fetch(destination: Destination, folders: Folders, names: Iterable[str]) -> None:
    for name in names:
        path = folders.data / name
        if not path.exists():  # an existing file is complete, since files are renamed into place
            _write(path, read_object(destination, name))


def _below(destination: Destination, folders: Folders, folder: Path) -> dict[str, int]:
    return destination.sizes(folder.relative_to(folders.data).as_posix())


@contextmanager
def _named_in_archive(destination: Destination, folders: Folders) -> Iterator[None]:
    """Name the file in the archive that a fetched copy shows to be damaged; the copies go, to be fetched again."""
    try:
        yield
    except DamagedError as error:
        rmtree(folders.landed, ignore_errors=True)
        where = error.message.replace(str(folders.data), destination.url)
        raise DamagedError(
            where,
            "Restore it in the archive, from the data folder or a copy, or move its run out of the archive. Then run "
            "again with the same name",
        ) from None


def _name_of(run: Run, table: str) -> str:
    return run.path(table).relative_to(run.folders.data).as_posix()


def _staged_path(folder: str, file: StagedFile) -> str:
    """Name a file by its content, so that files of two workers never get mixed up."""
    return f"{folder}/{file.path.removesuffix('.parquet')}.{file.sha256}.parquet"


def _write(path: Path, content: bytes) -> None:
    write_file(path, lambda aside: aside.write_bytes(content))


class Replayed(NamedTuple):
    """The warehouse built from an archive."""

    warehouse: Path
    run_count: int

    def __str__(self) -> str:
        return f"{count_of(self.run_count, 'run')} replayed into {self.warehouse}"


def stage_here(destination: Destination, name: str, folders: Folders) -> list[Manifest | Exception]:
    """Stage all shards of an archive in this process, one by one, in the order of `list_shards`."""
    return [stage_archived(destination.url, name, *shard) for shard in list_shards(folders)]


def replay_archive(
    settings: Settings,
    destination: Destination,
    name: str,
    holder: str,
    stage_all: Callable[[Destination, str, Folders], Sequence[Manifest | Exception]] = stage_here,
    now: Clock = utc_now,
    clean: Callable[[Folders], object] = lambda folders: None,
) -> Replayed:
    """Build one warehouse in `paths.data` from all runs in an archive.

    Args:
        settings: The data folder, which has no runs of its own, and the limits of the warehouse.
        destination: The archive.
        name: The name of this replay. The same name, with the same code, resumes an interrupted replay.
        stage_all: Stages all shards, on any number of machines. Called with the archive, the name and the data folder;
            returns the staged files of each shard in `list_shards`, or the error that ended its staging.
        clean: Removes forgotten subjects from the fetched and staged files before they are loaded; see
            `firmlake.forget.forget.clean_restored`.

    Raises:
        UsageError: The data folder has runs of its own, or the archive holds no run or runs of several services. The
            message says which, and what to do.
        FirmlakeError: A file in the archive is damaged, or a shard could not be staged. Nothing was published. Run
            again with the same name to resume.
    """
    folders = Folders.of(settings)
    with lock(folders, holder):
        runs = fetch_runs(destination, folders)
        staged = defaultdict[str, list[Manifest]](list)
        for (run_id, shard), result in zip(list_shards(folders), stage_all(destination, name, folders), strict=True):
            if isinstance(result, FirmlakeError):
                raise result
            if isinstance(result, Exception):
                raise FirmlakeError(
                    f"Shard {shard} of run {run_id} was not staged: {type(result).__name__}: {result}",
                    "Check the workers, first of all their memory; then run again with the same name",
                ) from result
            staged[run_id].append(result)
        for run in runs:
            collect_staged(destination, name, run, staged[run.run_id])
        clean(folders)
        return Replayed(load_staged(folders, now, settings.run), len(runs))
