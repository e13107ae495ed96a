"""Clean staged tables: make them again from changed answers, or clean them directly if the answers were pruned."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import polars as pl

from firmlake.core.files import sha256_of, write_json, write_parquet
from firmlake.core.folders import Folders
from firmlake.forget.place import Place, count_changed
from firmlake.landing.run import Run, list_runs
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.frames import clean_frame
from firmlake.tables.stage import Manifest, StagedFile, finish_stage, read_manifest, stage_shards

__all__ = ["clean_staged", "replace_staged", "stage_again"]

_COMPANY = ["country", "company_number"]


def clean_staged(folders: Folders, forgotten: Forgotten, *, write: bool) -> Iterator[Place]:
    """Clean the staged tables of all runs, after their landed answers, lists and targets were cleaned.

    Yields:
        A place for each staged table that names a forgotten subject.
    """
    for run in list_runs(folders):
        manifest = read_manifest(run)
        if manifest is None or not folders.staged(run.run_id).exists():
            if write and not run.is_pruned and folders.staged(run.run_id).exists():
                stage_again(run)  # a crash left tables without a manifest, made before the answers were cleaned
            continue
        changes = dict(_find(run, manifest, forgotten))
        if write and run.is_pruned and changes:
            frames = {path: after for path, (_, after) in changes.items()}
            frames |= _without_hashes(run, manifest, changes, forgotten)
            replace_staged(run, manifest, frames | _with_other_names(run, manifest, changes, frames, forgotten))
        elif write and not run.is_pruned and (changes or not _is_current(run, manifest)):
            stage_again(run)
        for path, (before, after) in changes.items():
            yield Place(folders.staged(run.run_id) / path, "staged", count_changed(before, after))


def stage_again(run: Run) -> None:
    """Stage a run again with its original settings. Shards that did not change are kept."""
    if manifest := read_manifest(run):
        run = run.read_by(manifest.contract)
    finish_stage(run, stage_shards(run))


def replace_staged(run: Run, manifest: Manifest, frames: dict[str, pl.DataFrame]) -> None:
    """Replace staged files by files with new names. After a crash, either all old or all new files are in use."""
    folder, mark = run.folders.staged(run.run_id), secrets.token_hex(3)
    files = []
    for file in manifest.files:
        if file.path in frames:
            path = folder / Path(file.path).with_stem(f"{Path(file.path).stem.partition('~')[0]}~{mark}")
            write_parquet(path, frames[file.path])
            file = StagedFile(
                file.table,
                path.relative_to(folder).as_posix(),
                frames[file.path].height,
                path.stat().st_size,
                sha256_of(path),
            )
        files.append(file)
    write_json(folder / "manifest.json", msgspec.structs.replace(manifest, files=tuple(files)))
    named = {folder / file.path for file in files}
    for path in folder.rglob("*.parquet"):
        if path not in named:
            path.unlink()
    for marker in folder.glob("shard=*.json"):
        marker.unlink()


# ---------------------------------------------------------------------------------------------------------------------


def _find(
    run: Run, manifest: Manifest, forgotten: Forgotten
) -> Iterator[tuple[str, tuple[pl.DataFrame, pl.DataFrame]]]:
    for file in manifest.files:
        path = run.folders.staged(run.run_id) / file.path
        if path.exists():
            before = pl.read_parquet(path, glob=False)
            after = clean_frame(before, forgotten)
            if after is not before:
                yield file.path, (before, after)


def _is_current(run: Run, manifest: Manifest) -> bool:
    return all(
        (run.folders.data / name).exists() and sha256_of(run.folders.data / name) == sha256
        for name, sha256 in manifest.segments.items()
    )


def _without_hashes(
    run: Run, manifest: Manifest, changes: Mapping[str, tuple[pl.DataFrame, pl.DataFrame]], forgotten: Forgotten
) -> dict[str, pl.DataFrame]:
    """Replace the answer hashes of companies whose rows changed by keyed hashes, so that nobody can test a guess."""
    parts = [
        before.join(after, on=before.columns, how="anti", nulls_equal=True).select(_COMPANY)
        for before, after in changes.values()
        if set(_COMPANY) <= set(before.columns)
    ]
    if not parts:
        return {}
    changed = pl.concat(parts).unique().with_columns(is_changed=pl.lit(value=True))
    found = {}
    for file in (file for file in manifest.files if file.table == "company_state"):
        held = changes.get(file.path)
        frame = held[1] if held else pl.read_parquet(run.folders.staged(run.run_id) / file.path, glob=False)
        keyed = pl.col("payload_hash").map_elements(lambda value: value and forgotten.keyed(value) * 2, pl.String)
        joined = frame.join(changed, on=_COMPANY, how="left", maintain_order="left")
        found[file.path] = joined.with_columns(
            pl.when("is_changed").then(keyed).otherwise("payload_hash").alias("payload_hash")
        ).drop("is_changed")
    return found


def _with_other_names(
    run: Run,
    manifest: Manifest,
    changes: Mapping[str, tuple[pl.DataFrame, pl.DataFrame]],
    frames: Mapping[str, pl.DataFrame],
    forgotten: Forgotten,
) -> dict[str, pl.DataFrame]:
    """Change the ids of all requests of a run from which a company was removed.

    The id of a request is a hash of its companies, and the tables do not show which requests named the company.
    """
    if not any(before.height > after.height for before, after in changes.values()):
        return {}
    found = {}
    for file in manifest.files:
        held = frames.get(file.path)
        frame = pl.read_parquet(run.folders.staged(run.run_id) / file.path, glob=False) if held is None else held
        if "request_id" in frame.columns:
            renamed = {name: forgotten.keyed(name) for name in frame["request_id"].drop_nulls().unique()}
            found[file.path] = frame.with_columns(pl.col("request_id").replace(renamed))
    return found
