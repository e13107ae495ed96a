"""Stage a shard: turn its landed answers into Parquet files, with a manifest of their content and origin.

    staged/run=<id>/<table>/shard=00001.parquet     typed rows
    staged/run=<id>/shard=00001.json                a shard is staged once this exists
    staged/run=<id>/manifest.json                   a run is staged once this exists

The files depend only on the landed answers and the plan, so staging again gives the same content.
"""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import msgspec
import polars as pl

from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.files import read_json, sha256_of, write_json, write_parquet
from firmlake.core.folders import Folders
from firmlake.core.process import collecting_rarely, hidden_token
from firmlake.core.settings import ContractSettings
from firmlake.landing.progress import Progress
from firmlake.landing.run import Run
from firmlake.landing.segments import list_segments

SCHEMA_VERSION = 10
"""Raised when staged files of an earlier version can no longer be loaded as they are."""


class StagedFile(msgspec.Struct, frozen=True):
    """One file: its path below the run's folder, what it holds and its checksum."""

    table: str
    path: str
    row_count: int
    byte_count: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What was staged, from which landed segments (path below the data folder, to sha256), and by which settings."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    files: tuple[StagedFile, ...]
    segments: dict[str, str]
    contract: ContractSettings = ContractSettings()


@collecting_rarely()
def stage_shard(run: Run, shard: int, progress: Progress | None = None) -> Manifest:
    """Flatten a shard and write its files, unless they exist and are complete.

    `progress` is its landed answers, with records, if still in memory; None reads them from disk.
    """
    marker = run.folders.staged(run.run_id) / f"shard={shard:05}.json"
    landed = list_segments(run.folders.landing(run.run_id, shard))
    segments = {str(path.relative_to(run.folders.data)): sha256_of(path) for path in landed}
    manifest = Manifest(run_id=run.run_id, files=(), segments=segments, contract=run.plan.contract)
    earlier = _read_manifest(marker)
    if earlier and msgspec.structs.replace(earlier, files=()) == manifest:
        with suppress(DamagedError):
            check_staged(run, earlier)
            return earlier
    from firmlake.tables.flatten import flatten_shard  # here, because who reads a manifest needs no pyarrow

    with ThreadPoolExecutor(1, thread_name_prefix="stage") as disk:  # a table is written while the next one is made
        tables = flatten_shard(run, shard, progress)
        written = [disk.submit(_write_table, run, table, f"shard={shard:05}", frame) for table, frame in tables]
    manifest = msgspec.structs.replace(manifest, files=tuple(file.result() for file in written))
    write_json(marker, manifest)
    return manifest


def stage_shards(run: Run, processes: int = 1) -> list[Manifest]:
    """Stage all shards of a run, several at once if there are several processes.

    Each takes some hundred MB; more than one is faster from about 10,000 companies. If one is killed, that is a
    FirmlakeError.
    """
    shards = run.shards()
    if min(processes, len(shards)) <= 1:
        return [stage_shard(run, shard) for shard in shards]
    # Not forked: the threads of Polars would be lost in the copy. The parent answers to Ctrl-C.
    pool_of_processes = ProcessPoolExecutor(
        min(processes, len(shards)), get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)
    )
    with hidden_token(), pool_of_processes as pool:
        try:
            return list(pool.map(partial(stage_shard, run), shards))
        except BrokenProcessPool:
            raise FirmlakeError(
                "A staging process was killed, probably for lack of memory", "Run again with fewer --processes"
            ) from None


def clear_stage(run: Run) -> None:
    """Forget which shards are staged, because their answers will be read in another way."""
    for marker in run.folders.staged(run.run_id).glob("*.json"):
        marker.unlink()


def finish_stage(run: Run, shards: Iterable[Manifest]) -> Manifest:
    """Write the tables of the run as a whole and its manifest, which completes the staging."""
    from firmlake.tables.flatten import shape_table

    shards = list(shards)
    lines = pl.scan_parquet(run.checked("list"), glob=False).filter(status="refused")
    given = pl.col("given").str.head(_LONGEST_GIVEN)
    refused = lines.select("line", given, "reason", list_name=pl.lit(run.plan.list_name)).collect()
    manifest = Manifest(
        run_id=run.run_id,
        files=(
            *(file for shard in shards for file in shard.files),
            _write_table(run, "refused_lines", "list", shape_table("refused_lines", refused, run.run_id)),
        ),
        segments={path: sha256 for shard in shards for path, sha256 in shard.segments.items()},
        contract=run.plan.contract,
    )
    write_json(run.folders.staged(run.run_id) / "manifest.json", manifest)
    return manifest


def read_manifest(run: Run) -> Manifest | None:
    """Read the manifest of a run; None if the run is not staged or the manifest is damaged."""
    return _read_manifest(run.folders.staged(run.run_id) / "manifest.json")


def required_manifest(run: Run) -> Manifest:
    """Read the manifest of a run that is staged; DamagedError if it is missing or damaged."""
    if manifest := read_manifest(run):
        return manifest
    folder = run.folders.staged(run.run_id)
    raise DamagedError(f"{folder} has no manifest, or a damaged one", "Rebuild it with `firmlake replay`")


def check_landed(run: Run, manifest: Manifest) -> None:
    """Check that the landed answers that a manifest was made from are unchanged; more may have landed since.

    The DamagedError names the segment that is missing or was changed, and says how to restore it.
    """
    _check(run.folders.data, manifest.segments, answers_lost(run))


def answers_lost(run: Run) -> str:
    """Return the next step for a run that has ended and whose landed answers cannot be read."""
    return (
        "Restore it from a copy, then run `firmlake replay`. Without a copy, its answers are lost, and the next run "
        f"requests them again: remove it and {Folders(run.folders.data).staged(run.run_id)}, then run `firmlake replay`"
    )


def check_staged(run: Run, manifest: Manifest) -> None:
    """Check that the staged files exist and are unchanged.

    After a DamagedError, `firmlake replay` makes the file again from the landed answers, unless these were pruned.
    """
    checksums = {file.path: file.sha256 for file in manifest.files}
    try:
        _check(run.folders.staged(run.run_id), checksums, "Rebuild it with `firmlake replay`")
    except DamagedError as error:
        if not run.is_pruned:
            raise
        folders = Folders(run.folders.data)
        step = (
            "Restore it from a copy, because the answers it was made from were pruned. Without a copy, move "
            f"{folders.landing(run.run_id)}, {folders.staged(run.run_id)} and {folders.warehouse} elsewhere, then run "
            "`firmlake replay`: the next run asks again for what only this one fetched"
        )
        raise DamagedError(error.message, step) from None


def replace_staged(run: Run, manifest: Manifest, frames: Mapping[StagedFile, pl.DataFrame]) -> None:
    """Replace staged files by files with new names. After a crash, either all old or all new files are in use."""
    folder, mark = run.folders.staged(run.run_id), secrets.token_hex(3)
    files = [
        _write_table(run, file.table, f"{Path(file.path).stem.partition('~')[0]}~{mark}", frames[file])
        if file in frames
        else file
        for file in manifest.files
    ]
    write_json(folder / "manifest.json", msgspec.structs.replace(manifest, files=tuple(files)))
    named = {folder / file.path for file in files}
    for path in [*folder.rglob("*.parquet"), *folder.glob("shard=*.json")]:
        if path not in named:
            path.unlink()


_LONGEST_GIVEN = 200


def _check(folder: Path, checksums: Mapping[str, str], next_step: str) -> None:
    """Check that files exist and are unchanged, by their paths below a folder."""
    for name, sha256 in checksums.items():
        path = folder / name
        if not path.exists() or sha256_of(path) != sha256:
            raise DamagedError(f"{path} is missing or was changed", next_step)


def _read_manifest(path: Path) -> Manifest | None:
    try:
        return read_json(path, Manifest)
    except DamagedError:
        return None


def _write_table(run: Run, table: str, name: str, frame: pl.DataFrame) -> StagedFile:
    folder = run.folders.staged(run.run_id)
    path = folder / table / f"{name}.parquet"
    write_parquet(path, frame)
    return StagedFile(table, str(path.relative_to(folder)), frame.height, path.stat().st_size, sha256_of(path))
