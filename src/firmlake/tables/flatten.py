"""Flatten: turn the landed answers of a shard into frames of the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.core.run import Run
from firmlake.landing.landed import load_progress
from firmlake.landing.progress import NOT_SENT, Progress
from firmlake.landing.segments import GIVEN_UP, Header, credits_in
from firmlake.landing.track import LEFT_OUT, Track
from firmlake.tables.answered import Answered, Gathered, hash_heads, moments, payload_hash, shape_table
from firmlake.tables.drift import DRIFT, merge_drift
from firmlake.tables.financials import flatten_financials
from firmlake.tables.lookalikes import flatten_lookalikes
from firmlake.tables.relationships import flatten_relationships
from firmlake.tables.schemas import TABLES, polars_schema

__all__ = ["flatten_shard"]

_FOUND = ("reported", "empty")
_ANSWERED = (*_FOUND, "not_found")
_UNHASHED = {"not_found": ""}
"""Hashes of companies without records, by status; None for the others."""

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
        progress: What landed, with records, which are released once they are read; None reads it from disk.
    """
    progress = progress or load_progress(run, shard, keep_records=True)
    tables: dict[str, pl.DataFrame] = {}
    rejects: list[pl.DataFrame] = []
    drift = [_drift_of_envelopes(progress)]
    hashes: list[str | None] = []
    contract = run.plan.contract
    for dataset in run.plan.datasets:
        tracks = progress.datasets[dataset]
        answers = [Answered(company, track.parts) for company, track in tracks.items() if track.status == "answered"]
        heads = hash_heads(DATASETS[dataset].groups, contract)
        hashes += [
            payload_hash(heads, track.parts) if track.status == "answered" else _UNHASHED.get(track.status)
            for track in tracks.values()
        ]
        made, gathered = FLATTEN[dataset](answers, contract)
        tables |= {name: shape_table(name, frame, run.run_id) for name, frame in made.items()}
        rejects += [part.rejects for part in gathered]
        drift += [part.drift for part in gathered]
        del answers
        for track in tracks.values():
            track.parts = []
    tracked = _tracked(progress, run.plan.datasets, hashes)
    tables["rejects"] = _table("rejects", run, rejects)
    tables["company_state"] = shape_table("company_state", _states(tracked, tables["rejects"]), run.run_id)
    tables["dead_letters"] = _frame("dead_letters", run, _dead_letters(progress))
    tables["companies"] = shape_table("companies", _companies(tracked), run.run_id)
    tables["requests"] = _frame("requests", run, _requests(run, progress))
    tables["drift"] = shape_table("drift", merge_drift(pl.concat(drift)), run.run_id)
    return tables


# ---------------------------------------------------------------------------------------------------------------------


def _frame(table: str, run: Run, rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    schema = polars_schema(TABLES[table])
    return shape_table(table, pl.DataFrame(list(rows), schema=schema), run.run_id)


def _table(table: str, run: Run, parts: list[pl.DataFrame]) -> pl.DataFrame:
    parts = [part for part in parts if part.height]
    return shape_table(table, pl.concat(parts), run.run_id) if parts else _frame(table, run, [])


def _tracked(progress: Progress, datasets: Iterable[str], hashes: Iterable[str | None]) -> pl.DataFrame:
    """Return one row for each dataset, in the order they are asked, and company."""
    tracks = [track for dataset in datasets for track in progress.datasets[dataset].values()]
    companies = [company for dataset in datasets for company in progress.datasets[dataset]]
    countries, numbers = zip(*companies, strict=True) if companies else ((), ())
    texts: dict[str, Iterable[str | None]] = {
        "country": countries,
        "company_number": numbers,
        "dataset": chain.from_iterable(repeat(dataset, len(progress.datasets[dataset])) for dataset in datasets),
        "status": map(_status, tracks),
        "name": map(attrgetter("name"), tracks),
        "place": map(attrgetter("place"), tracks),
        "payload_hash": hashes,
    }
    return pl.DataFrame(
        {
            **{name: pl.Series(list(values), dtype=pl.String) for name, values in texts.items()},
            "record_count": pl.Series(list(map(attrgetter("next_offset"), tracks)), dtype=pl.Int64),
            "fetched_at": moments(map(attrgetter("answered_at"), tracks)),
            "paid_at": moments(map(attrgetter("first_at"), tracks)),
        }
    )


def _status(track: Track) -> str:
    if track.status == "answered":
        return "reported" if track.next_offset else "empty"
    return "waiting" if track.status == "pending" else track.status


def _states(tracked: pl.DataFrame, rejects: pl.DataFrame) -> pl.DataFrame:
    """Return the state of each company and dataset, with its rejected records counted apart from those held."""
    key = ("country", "company_number", "dataset")
    counts = rejects.filter(pl.col("effect") == "record").group_by(key).agg(pl.len().cast(pl.Int64).alias("rejected"))
    is_answered = pl.col("status").is_in(_ANSWERED)
    rejected = pl.col("rejected").fill_null(0)
    return tracked.join(counts, on=key, how="left", maintain_order="left").with_columns(
        pl.when(is_answered).then(rejected).alias("reject_count"),
        pl.when(is_answered).then(pl.col("record_count") - rejected),
        pl.when(is_answered).then("fetched_at"),
    )


def _companies(tracked: pl.DataFrame) -> pl.DataFrame:
    """Name and place as the first dataset that answered gives them, in the order datasets are asked.

    Paid from the first page of any dataset, also where the rest of it never came.
    """
    answered = pl.col("name", "place", "fetched_at").filter(pl.col("status").is_in(_FOUND))
    return tracked.group_by("country", "company_number", maintain_order=True).agg(
        answered.first(), pl.col("paid_at").min()
    )


def _dead_letters(progress: Progress) -> Iterable[dict[str, Any]]:
    for company, dataset, track in progress.tracks():
        if track.status in GIVEN_UP.values():
            yield {
                **company._asdict(),
                "dataset": dataset,
                "reason": track.reason,
                "attempt_count": track.attempts,
                "request_id": track.request_id,
                "failed_at": _utc(track.ended_at),
            }


def _requests(run: Run, progress: Progress) -> Iterable[dict[str, Any]]:
    """Yield a row for each request sent. A request may be sent again after a crash; its attempts then count on."""
    attempts: Counter[str] = Counter()
    for header in progress.headers:
        if header.kind not in NOT_SENT:
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


def _drift_of_envelopes(progress: Progress) -> pl.DataFrame:
    """Return a row for each difference between an answer and the contract outside of records."""
    rows = [
        *((h, "new_field", f"[].{path}", None, 1) for h, path in progress.unknown),
        *((h, "foreign_element", "[].identifier", what, 1) for h, what in progress.foreign),
        *((h, "other_count", "[].pagination.total", what, 1) for h, what in progress.cut),
        *((h, "left_out", "[]", str(h.companies[0]), len(h.companies)) for h in progress.headers if _is_left_out(h)),
    ]
    return pl.DataFrame([(h.dataset, *row, _utc(h.fetched_at)) for h, *row in rows], schema=DRIFT, orient="row")


def _is_left_out(header: Header) -> bool:
    return header.kind == "unknown" and header.error == LEFT_OUT and bool(header.companies)


def _utc(moment: Any) -> Any:
    """Drop the zone: timestamps in tables are UTC."""
    return moment and moment.replace(tzinfo=None)
