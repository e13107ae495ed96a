"""Staging: a shard's landed answers become Parquet files, with a manifest of what they hold and came from.

    staged/run=<id>/<table>/shard=00001.parquet     typed rows
    staged/run=<id>/shard=00001.json                a shard is staged when this is there
    staged/run=<id>/manifest.json                   a run is staged when this is there

The files depend on the landed answers and the frozen plan alone, so that staging again gives the same content.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from datetime import datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.company import Company
from firmlake.errors import DamagedError, FirmlakeError
from firmlake.files import read_json, sha256_of, write_json, write_parquet
from firmlake.landing.fetch import load_progress
from firmlake.landing.progress import Progress, Track
from firmlake.landing.segments import Header, list_segments
from firmlake.memory import collecting_rarely
from firmlake.run import Run
from firmlake.tables.answered import Answered, Drift, Gathered, payload_hash, shape_table
from firmlake.tables.drift import drift_table, new_values
from firmlake.tables.financials import flatten_financials
from firmlake.tables.lookalikes import flatten_lookalikes
from firmlake.tables.records import Observation
from firmlake.tables.relationships import flatten_relationships
from firmlake.tables.schemas import TABLES, polars_schema

__all__ = [
    "FLATTEN",
    "SCHEMA_VERSION",
    "Manifest",
    "StagedFile",
    "check_landed",
    "check_staged",
    "finish_stage",
    "flatten_shard",
    "is_staged",
    "read_manifest",
    "stage_shard",
    "stage_shards",
]

SCHEMA_VERSION = 2
"""Raised when staged files of an earlier version can no longer be loaded as they are."""

FLATTEN: dict[str, Callable[[Sequence[Answered]], tuple[dict[str, pl.DataFrame], list[Gathered]]]] = {
    "financials": flatten_financials,
    "lookalikes": flatten_lookalikes,
    "relationships": flatten_relationships,
}


class StagedFile(msgspec.Struct, frozen=True):
    """One file: its path below the run's folder, what it holds and its checksum."""

    table: str
    path: str
    row_count: int
    byte_count: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What was staged, and from which landed segments (path below the data folder, to sha256)."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    files: tuple[StagedFile, ...]
    segments: dict[str, str]


@collecting_rarely()
def stage_shard(run: Run, shard: int, progress: Progress | None = None) -> Manifest:
    """Flatten a shard and write its files, unless they are there and whole already.

    Args:
        run: The run.
        shard: Its number.
        progress: All that landed of it, with records, where that is still in memory; None reads it back.
    """
    marker = run.folders.staged(run.run_id) / f"shard={shard:05}.json"
    segments = _segments(run, shard)
    held = _read_manifest(marker)
    if held and held.segments == segments and held.schema_version == SCHEMA_VERSION and is_staged(run, held):
        return held
    files = []
    for table, frame in flatten_shard(run, shard, progress).items():
        files.append(_write_table(run, table, f"shard={shard:05}", frame))
    manifest = Manifest(run_id=run.run_id, files=tuple(files), segments=segments)
    write_json(marker, manifest)
    return manifest


def stage_shards(run: Run, processes: int = 1) -> list[Manifest]:
    """Stage all shards of a run, several at once where there are processes for it.

    Args:
        run: The run.
        processes: Each starts anew and takes some hundred MB, and is worth it from some ten thousand companies on.

    Raises:
        DamagedError: A landed answer is not what was written.
        FirmlakeError: A process was ended from outside.
    """
    shards = run.shards()
    if min(processes, len(shards)) <= 1:
        return [stage_shard(run, shard) for shard in shards]
    # Not forked: the threads of Polars would be lost in the copy.
    with ProcessPoolExecutor(min(processes, len(shards)), get_context("spawn"), _leave_signals_to_parent) as pool:
        try:
            return list(pool.map(partial(stage_shard, run), shards))
        except BrokenProcessPool:
            raise FirmlakeError("A process that staged was ended from outside", "Run again with fewer") from None


def finish_stage(run: Run, shards: Iterable[Manifest]) -> Manifest:
    """Add the tables that concern the run as a whole and write its manifest: the run is staged."""
    shards = list(shards)
    refused = run.table("refused_lines").with_columns(pl.lit(run.plan.list_name).alias("list_name"))
    manifest = Manifest(
        run_id=run.run_id,
        files=(
            *(file for shard in shards for file in shard.files),
            _write_table(run, "refused_lines", "list", shape_table("refused_lines", refused, run.run_id)),
        ),
        segments={path: sha256 for shard in shards for path, sha256 in shard.segments.items()},
    )
    write_json(run.folders.staged(run.run_id) / "manifest.json", manifest)
    return manifest


def read_manifest(run: Run) -> Manifest | None:
    """Read what was staged of a run; None where it was not, or the manifest is not what was written."""
    return _read_manifest(run.folders.staged(run.run_id) / "manifest.json")


def check_landed(run: Run, manifest: Manifest) -> None:
    """Make sure that everything is still there which a manifest was made from; more may have landed since.

    Raises:
        DamagedError: A segment is missing or changed; it is named. Restore it, or do without it.
    """
    for name, sha256 in manifest.segments.items():
        path = run.folders.data / name
        if not path.exists() or sha256_of(path) != sha256:
            raise DamagedError(
                f"{path} is missing or not what was written",
                f"Restore it from a copy; to do without its answers, remove {run.folders.staged(run.run_id)}",
            )


def is_staged(run: Run, manifest: Manifest) -> bool:
    """Tell whether every file of a manifest is there and holds what was written."""
    folder = run.folders.staged(run.run_id)
    return all(
        (folder / file.path).exists() and sha256_of(folder / file.path) == file.sha256 for file in manifest.files
    )


def check_staged(run: Run, manifest: Manifest) -> None:
    """Make sure that the staged files hold what was written.

    Raises:
        DamagedError: One does not; it is named. `firmlake replay` makes it again from the landed answers.
    """
    folder = run.folders.staged(run.run_id)
    for file in manifest.files:
        path = folder / file.path
        if not path.exists() or sha256_of(path) != file.sha256:
            raise DamagedError(f"{path} is missing or not what was written", "`firmlake replay` makes it again")


def flatten_shard(run: Run, shard: int, progress: Progress | None = None) -> dict[str, pl.DataFrame]:
    """Turn what has landed of a shard into frames of the tables' schemas; nothing is written.

    Args:
        run: The run.
        shard: Its number.
        progress: As for `stage_shard`.
    """
    progress = progress or load_progress(run, shard, keep_records=True)
    tables: dict[str, pl.DataFrame] = {}
    rejects: list[pl.DataFrame] = []
    drift = _drift_of_envelopes(progress)
    states: list[pl.DataFrame] = []
    for dataset in run.plan.datasets:
        tracks = progress.datasets[dataset]
        answers = [Answered(company, track.parts) for company, track in tracks.items() if track.status == "answered"]
        made, gathered = FLATTEN[dataset](answers)
        tables |= {name: shape_table(name, frame, run.run_id) for name, frame in made.items()}
        rejects += [part.rejects for part in gathered]
        drift += [seen for part in gathered for seen in (*part.drift, *new_values(dataset, part.frame))]
        hashes = {answer.company: payload_hash(answer, DATASETS[dataset].groups) for answer in answers}
        states.append(_states(tracks, dataset, hashes))
    tables["rejects"] = _table("rejects", run, rejects)
    tables["company_state"] = shape_table("company_state", _with_counts(states, tables["rejects"]), run.run_id)
    tables["dead_letters"] = _frame("dead_letters", run, _dead_letters(progress))
    tables["companies"] = shape_table("companies", _companies(progress), run.run_id)
    tables["requests"] = _frame("requests", run, _requests(run, progress))
    tables["drift"] = shape_table("drift", drift_table(drift), run.run_id)
    return tables


# ---------------------------------------------------------------------------------------------------------------------


def _leave_signals_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _segments(run: Run, shard: int) -> dict[str, str]:
    paths = list_segments(run.folders.landing(run.run_id, shard))
    return {str(path.relative_to(run.folders.data)): sha256_of(path) for path in paths}


def _read_manifest(path: Path) -> Manifest | None:
    try:
        return read_json(path, Manifest)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _write_table(run: Run, table: str, name: str, frame: pl.DataFrame) -> StagedFile:
    folder = run.folders.staged(run.run_id)
    path = folder / table / f"{name}.parquet"
    write_parquet(path, frame)
    return StagedFile(table, str(path.relative_to(folder)), frame.height, path.stat().st_size, sha256_of(path))


def _frame(table: str, run: Run, rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    schema = polars_schema(TABLES[table])
    return shape_table(table, pl.DataFrame(list(rows), schema=schema), run.run_id)


def _table(table: str, run: Run, parts: list[pl.DataFrame]) -> pl.DataFrame:
    parts = [part for part in parts if part.height]
    return shape_table(table, pl.concat(parts), run.run_id) if parts else _frame(table, run, [])


def _states(tracks: dict[Company, Track], dataset: str, hashes: dict[Company, str]) -> pl.DataFrame:
    """Say of each company how far its dataset is."""
    held = [track if track.status in ("answered", "not_found") else None for track in tracks.values()]
    return pl.DataFrame(
        {
            **_columns_of(tracks.keys()),
            "dataset": [dataset] * len(tracks),
            "status": [_status(track) for track in tracks.values()],
            "record_count": [
                track and sum(len(raws) for part in track.parts for raws in part.records.values()) for track in held
            ],
            "payload_hash": [
                hashes.get(company, "" if track.status == "not_found" else None) for company, track in tracks.items()
            ],
            "fetched_at": _moments(track.answered_at if track else None for track in held),
        },
        schema_overrides=dict.fromkeys(("dataset", "status", "payload_hash"), pl.String) | {"record_count": pl.Int64},
    )


def _columns_of(companies: Collection[Company]) -> dict[str, pl.Series]:
    return {
        name: pl.Series([company[place] for company in companies], dtype=pl.String)
        for place, name in enumerate(Company._fields)
    }


def _moments(values: Iterable[datetime | None]) -> pl.Series:
    """Make a column of times that are UTC without saying so; few are different, and each is converted once."""
    places: dict[datetime | None, int] = {}
    column = [places.setdefault(value, len(places)) for value in values]
    distinct = pl.Series([value and value.replace(tzinfo=None) for value in places], dtype=pl.Datetime("us"))
    return distinct.gather(column)


def _status(track: Track) -> str:
    if track.status == "answered":
        return "reported" if track.next_offset else "empty"
    return {"pending": "waiting"}.get(track.status, track.status)


def _with_counts(states: list[pl.DataFrame], rejects: pl.DataFrame) -> pl.DataFrame:
    """Count each company's rejected records apart from those held."""
    key = ("country", "company_number", "dataset")
    counts = rejects.group_by(key).agg(pl.len().cast(pl.Int64).alias("rejected"))
    return (
        pl.concat(states)
        .join(counts, on=key, how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("record_count").is_not_null()).then(pl.col("rejected").fill_null(0)).alias("reject_count"),
            pl.col("record_count") - pl.col("rejected").fill_null(0),
        )
        .drop("rejected")
    )


def _dead_letters(progress: Progress) -> Iterable[dict[str, Any]]:
    for (company, dataset), track in progress.tracks.items():
        if track.status == "failed":
            yield {
                **company._asdict(),
                "dataset": dataset,
                "reason": track.reason,
                "attempt_count": track.attempts,
                "request_id": track.request_id,
                "failed_at": _utc(track.ended_at),
            }


def _companies(progress: Progress) -> pl.DataFrame:
    """Name and place as the first dataset that answered gives them, in the order datasets are asked.

    Paid from the first page of any dataset, also where the rest of it never came.
    """
    answered: dict[Company, Track | None] = {}
    paid: dict[Company, datetime | None] = {}
    for (company, _), track in progress.tracks.items():
        answered[company] = answered.get(company) or (track if track.status == "answered" else None)
        paid[company] = min(filter(None, (paid.get(company), track.first_at)), default=None)
    tracks = answered.values()
    return pl.DataFrame(
        {
            **_columns_of(answered.keys()),
            "name": [track and track.name for track in tracks],
            "place": [track and track.place for track in tracks],
            "fetched_at": _moments(track.answered_at if track else None for track in tracks),
            "paid_at": _moments(paid.values()),
        },
        schema_overrides={"name": pl.String, "place": pl.String},
    )


def _requests(run: Run, progress: Progress) -> Iterable[dict[str, Any]]:
    """Everything that was sent; the same request may be sent again after a crash, and its attempts are counted on."""
    attempts: Counter[str] = Counter()
    for header in progress.headers:
        if header.kind != "given_up":
            attempts[header.request_id] += 1
            yield _request(header, attempts[header.request_id], run)


def _request(header: Header, attempt: int, run: Run) -> dict[str, Any]:
    names = run.plan.names
    return {
        "request_id": header.request_id,
        "attempt": attempt,
        "dataset": header.dataset,
        "shard": header.shard,
        "company_count": len(header.companies),
        "page_limit": header.limit,
        "page_offset": header.offset,
        "status": header.status,
        "error": header.error or None,
        "body_bytes": header.body_bytes,
        "duration_seconds": header.duration_seconds,
        "credits_charged": _credits(header, names.credits_charged_header),
        "credits_remaining": _credits(header, names.credits_remaining_header),
        "fetched_at": _utc(header.fetched_at),
    }


def _credits(header: Header, name: str) -> int | None:
    text = header.headers.get(name.lower(), "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _drift_of_envelopes(progress: Progress) -> list[Drift]:
    new = [
        Drift(h.dataset, Observation("new_field", f"[].{path}", None, 0), h.fetched_at) for h, path in progress.unknown
    ]
    foreign = [
        Drift(h.dataset, Observation("foreign_element", "[].identifier", what, 0), h.fetched_at)
        for h, what in progress.foreign
    ]
    return new + foreign


def _utc(moment: Any) -> Any:
    """Timestamps in tables are UTC without saying so."""
    return moment and moment.replace(tzinfo=None)
