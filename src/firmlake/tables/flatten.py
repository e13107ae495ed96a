"""Flatten: turn the landed answers of a shard into frames of the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any

import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.core.company import Company
from firmlake.core.run import Run
from firmlake.landing.landed import load_progress
from firmlake.landing.progress import Progress, Track
from firmlake.landing.segments import GIVEN_UP, Header, credits_in
from firmlake.tables.answered import Answered, Drift, Gathered, payload_hash, shape_table
from firmlake.tables.drift import discarded_values, drift_table, new_values, other_scales
from firmlake.tables.financials import flatten_financials
from firmlake.tables.lookalikes import flatten_lookalikes
from firmlake.tables.reading import Observation
from firmlake.tables.relationships import flatten_relationships
from firmlake.tables.schemas import TABLES, polars_schema

__all__ = ["FLATTEN", "flatten_shard"]

FLATTEN: dict[str, Callable[..., tuple[dict[str, pl.DataFrame], list[Gathered]]]] = {
    "financials": flatten_financials,
    "lookalikes": flatten_lookalikes,
    "relationships": flatten_relationships,
}


def flatten_shard(run: Run, shard: int, progress: Progress | None = None) -> dict[str, pl.DataFrame]:
    """Turn the landed answers of a shard into frames of the tables' schemas; nothing is written.

    Args:
        run: The run.
        shard: The number of the shard.
        progress: What landed, with records; None reads it from disk.
    """
    progress = progress or load_progress(run, shard, keep_records=True)
    tables: dict[str, pl.DataFrame] = {}
    rejects: list[pl.DataFrame] = []
    drift = _drift_of_envelopes(progress)
    states: list[pl.DataFrame] = []
    contract = run.plan.contract
    for dataset in run.plan.datasets:
        tracks = progress.datasets[dataset]
        answers = [Answered(company, track.parts) for company, track in tracks.items() if track.status == "answered"]
        hashes = {answer.company: payload_hash(answer, DATASETS[dataset].groups, contract) for answer in answers}
        made, gathered = FLATTEN[dataset](answers, contract)
        tables |= {name: shape_table(name, frame, run.run_id) for name, frame in made.items()}
        rejects += [part.rejects for part in gathered]
        for part in gathered:
            drift += [*part.drift, *discarded_values(dataset, part.rejects), *new_values(dataset, part.frame)]
            drift += other_scales(dataset, part)
        states.append(_states(tracks, dataset, hashes))
    tables["rejects"] = _table("rejects", run, rejects)
    tables["company_state"] = shape_table("company_state", _with_counts(states, tables["rejects"]), run.run_id)
    tables["dead_letters"] = _frame("dead_letters", run, _dead_letters(progress))
    tables["companies"] = shape_table("companies", _companies(progress), run.run_id)
    tables["requests"] = _frame("requests", run, _requests(run, progress))
    tables["drift"] = shape_table("drift", drift_table(drift), run.run_id)
    return tables


# ---------------------------------------------------------------------------------------------------------------------


def _frame(table: str, run: Run, rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    schema = polars_schema(TABLES[table])
    return shape_table(table, pl.DataFrame(list(rows), schema=schema), run.run_id)


def _table(table: str, run: Run, parts: list[pl.DataFrame]) -> pl.DataFrame:
    parts = [part for part in parts if part.height]
    return shape_table(table, pl.concat(parts), run.run_id) if parts else _frame(table, run, [])


def _states(tracks: dict[Company, Track], dataset: str, hashes: dict[Company, str]) -> pl.DataFrame:
    """Return the state of a dataset for each company."""
    answered = [track if track.status in ("answered", "not_found") else None for track in tracks.values()]
    return pl.DataFrame(
        {
            **_columns_of(tracks.keys()),
            "dataset": [dataset] * len(tracks),
            "status": [_status(track) for track in tracks.values()],
            "record_count": [track and track.next_offset for track in answered],
            "payload_hash": [
                hashes.get(company, "" if track.status == "not_found" else None) for company, track in tracks.items()
            ],
            "fetched_at": _moments(track.answered_at if track else None for track in answered),
        },
        schema_overrides=dict.fromkeys(("dataset", "status", "payload_hash"), pl.String) | {"record_count": pl.Int64},
    )


def _columns_of(companies: Collection[Company]) -> dict[str, pl.Series]:
    columns = zip(*companies, strict=True) if companies else ((), ())
    return {name: pl.Series(column, dtype=pl.String) for name, column in zip(Company._fields, columns, strict=True)}


def _moments(values: Iterable[datetime | None]) -> pl.Series:
    """Make a column of UTC times without a zone. Few differ, so each is converted once."""
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
    counts = rejects.filter(pl.col("effect") == "record").group_by(key).agg(pl.len().cast(pl.Int64).alias("rejected"))
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
        if track.status in GIVEN_UP.values():
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
        if header.kind not in GIVEN_UP:
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
        "credits_charged": credits_in(header, names.credits_charged_header),
        "credits_remaining": credits_in(header, names.credits_remaining_header),
        "fetched_at": _utc(header.fetched_at),
    }


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
