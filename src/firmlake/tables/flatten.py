"""Flatten: turn the landed answers of a shard into frames of the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
import polars as pl
from msgspec import Raw
from xxhash import xxh3_128_hexdigest

from firmlake.api.contract import DATASETS
from firmlake.core.run import Run
from firmlake.landing.progress import Part, Progress, load_progress
from firmlake.tables.answered import Gathered, gather
from firmlake.tables.drift import merge_drift
from firmlake.tables.financials import flatten_financials
from firmlake.tables.leaves import AS_IT_IS
from firmlake.tables.related import flatten_lookalikes, flatten_relationships
from firmlake.tables.schemas import KIND_TYPES, TABLES, polars_schema
from firmlake.tables.tracked import ANSWERED, companies, dead_letters, drift_of_envelopes, list_tracks, requests

__all__ = ["FLATTEN", "flatten_shard", "payload_hash", "shape_table"]

_UNHASHED = {"not_found": ""}
"""Hashes of companies without records, by status; None for the others."""

FLATTEN: dict[str, Callable[[Mapping[str, Gathered]], dict[str, pl.DataFrame]]] = {
    "financials": flatten_financials,
    "lookalikes": flatten_lookalikes,
    "relationships": flatten_relationships,
}


def flatten_shard(run: Run, shard: int, progress: Progress | None = None) -> Iterator[tuple[str, pl.DataFrame]]:
    """Turn the landed answers of a shard into frames of the tables' schemas; nothing is written.

    Each table is given as soon as it is made, so that it can be written while the next one is made.

    Args:
        run: The run.
        shard: The number of the shard.
        progress: What landed, with records, which are released once they are read; None reads it from disk.

    Yields:
        The name and the frame of each table.
    """
    progress = progress or load_progress(run, shard, keep_records=True)
    contract = run.plan.contract
    # Held rows are replaced if settings change how they are read.
    read_by = b"" if contract == AS_IT_IS else msgspec.json.encode(contract)
    rejects: list[pl.DataFrame] = []
    drift = [drift_of_envelopes(progress)]
    hashes: list[str | None] = []
    for dataset in run.plan.datasets:
        tracks = progress.datasets[dataset]
        heads = [(group, read_by + group.encode()) for group in DATASETS[dataset].groups]
        hashes += [
            payload_hash(heads, track.parts) if track.status == "answered" else _UNHASHED.get(track.status)
            for track in tracks.values()
        ]
        answers = {company: track.parts for company, track in tracks.items() if track.status == "answered"}
        gathered = {group: gather(dataset, group, answers, contract) for group in DATASETS[dataset].groups}
        for name, frame in FLATTEN[dataset](gathered).items():
            yield name, shape_table(name, frame, run.run_id)
        rejects += [part.rejects for part in gathered.values()]
        drift += [part.drift for part in gathered.values()]
        del answers
        for track in tracks.values():
            track.parts = []
    tracked = list_tracks(progress, run.plan.datasets).with_columns(pl.Series("payload_hash", hashes, pl.String))
    rejected = pl.concat(rejects)
    others = {
        "rejects": rejected,
        "company_state": _states(tracked, rejected),
        "dead_letters": dead_letters(progress),
        "companies": companies(tracked),
        "requests": requests(run, progress),
        "drift": merge_drift(pl.concat(drift)),
    }
    for name, frame in others.items():
        yield name, shape_table(name, frame, run.run_id)


def payload_hash(heads: Iterable[tuple[str, bytes]], parts: Iterable[Part]) -> str:
    """Hash a company's records as received: equal hashes mean equal rows, however the records were paged.

    Args:
        heads: The groups of records, each with what is hashed before them.
        parts: The pages of the company's answer.
    """
    content: list[bytes | Raw] = []
    for group, head in heads:
        content.append(head)
        for part in parts:
            content += part.records[group]
    return xxh3_128_hexdigest(b",".join(content))


def shape_table(name: str, frame: pl.DataFrame, run_id: str) -> pl.DataFrame:
    """Cast a frame to the columns, types and order of a table, and add the run's name.

    An integer that `contract.types` reads as a decimal stays one.
    """
    schema = polars_schema(TABLES[name])
    wider = {column: kind for column, kind in frame.schema.items() if kind == KIND_TYPES["decimal"]}
    schema = pl.Schema({column: wider.get(column, kind) for column, kind in schema.items()})
    return frame.with_columns(pl.lit(run_id).alias("run_id")).select(
        pl.col(column).cast(kind) for column, kind in schema.items()
    )


# ---------------------------------------------------------------------------------------------------------------------


def _states(tracked: pl.DataFrame, rejects: pl.DataFrame) -> pl.DataFrame:
    """Return the state of each company and dataset, with its rejected records counted apart from those held."""
    key = ("country", "company_number", "dataset")
    counts = rejects.filter(pl.col("effect") == "record").group_by(key).agg(pl.len().cast(pl.Int64).alias("rejected"))
    is_answered = pl.col("status").is_in(ANSWERED)
    rejected = pl.col("rejected").fill_null(0)
    return tracked.join(counts, on=key, how="left", maintain_order="left").with_columns(
        pl.when(is_answered).then(rejected).alias("reject_count"),
        pl.when(is_answered).then(pl.col("record_count") - rejected),
        pl.when(is_answered).then("fetched_at"),
    )
