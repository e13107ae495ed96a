"""The tables that follow from the progress of a shard alone, without its records: companies, requests and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import polars as pl

from firmlake.landing.progress import Progress, Track
from firmlake.landing.run import Run
from firmlake.landing.segments import GIVEN_UP, REQUESTS, Header, credits_in
from firmlake.tables.answered import DRIFT, moments
from firmlake.tables.schemas import TABLES, polars_schema

__all__ = ["ANSWERED", "companies", "dead_letters", "drift_of_envelopes", "list_tracks", "requests"]

_FOUND = ("reported", "empty")
ANSWERED = (*_FOUND, "not_found")
"""The statuses of a company and dataset that the service answered for."""

_TRACKED = pl.Schema(
    {
        **dict.fromkeys(("country", "company_number", "dataset", "status", "name", "place"), pl.String()),
        "record_count": pl.Int64(),
        **dict.fromkeys(("fetched_at", "paid_at"), pl.Datetime("us")),
    }
)


def list_tracks(progress: Progress, datasets: Iterable[str]) -> pl.DataFrame:
    """Return one row for each dataset, in the order they are asked, and company."""
    rows = [(*company, dataset, track) for dataset in datasets for company, track in progress.datasets[dataset].items()]
    countries, numbers, names, tracks = zip(*rows, strict=True) if rows else ((), (), (), ())
    return pl.DataFrame(
        {
            "country": countries,
            "company_number": numbers,
            "dataset": names,
            "status": [_status(track) for track in tracks],
            "name": [track.name for track in tracks],
            "place": [track.place for track in tracks],
            "record_count": [track.next_offset for track in tracks],
            "fetched_at": moments(track.answered_at for track in tracks),
            "paid_at": moments(track.first_at for track in tracks),
        },
        schema=_TRACKED,
    )


def companies(tracked: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each company of `list_tracks`, with name and place as the first dataset gives them.

    A company is paid for from the first page of any dataset, even if the rest of it never came.
    """
    answered = pl.col("name", "place", "fetched_at").filter(pl.col("status").is_in(_FOUND))
    return tracked.group_by("country", "company_number", maintain_order=True).agg(
        answered.first(), pl.col("paid_at").min()
    )


def requests(run: Run, progress: Progress) -> pl.DataFrame:
    """Return a row for each request sent. A request may be sent again after a crash; its attempts then count on."""
    names, attempts, rows = run.plan.names, Counter[str](), []
    for header in progress.headers:
        if header.kind not in REQUESTS:
            continue
        attempts[header.request_id] += 1
        rows.append(
            {
                "request_id": header.request_id,
                "attempt": attempts[header.request_id],
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
        )
    return _frame("requests", rows)


def dead_letters(progress: Progress) -> pl.DataFrame:
    """Return a row for each company and dataset that was given up."""
    rows = [
        {
            **company._asdict(),
            "dataset": dataset,
            "reason_code": track.reason.code,
            "reason": track.reason.text,
            "attempt_count": track.attempts,
            "request_id": track.request_id,
            "failed_at": _utc(track.ended_at),
        }
        for company, dataset, track in progress.tracks()
        if track.status in GIVEN_UP.values()
    ]
    return _frame("dead_letters", rows)


def drift_of_envelopes(progress: Progress) -> pl.DataFrame:
    """Return a row for each difference between an answer and the contract outside of records."""
    rows = [
        *((h, "new_field", f"[].{path}", None, 1) for h, path in progress.unknown),
        *((h, "foreign_element", "[].identifier", what, 1) for h, what in progress.foreign),
        *((h, "other_count", "[].pagination.total", what, 1) for h, what in progress.cut),
        *((h, "left_out", "[]", str(h.companies[0]), len(h.companies)) for h in progress.headers if _is_left_out(h)),
    ]
    return pl.DataFrame([(h.dataset, *row, _utc(h.fetched_at)) for h, *row in rows], schema=DRIFT, orient="row")


# ---------------------------------------------------------------------------------------------------------------------


def _status(track: Track) -> str:
    if track.status == "answered":
        return "reported" if track.next_offset else "empty"
    return "waiting" if track.status == "pending" else track.status


def _is_left_out(header: Header) -> bool:
    return header.kind == "unknown" and header.code == "left_out" and bool(header.companies)


def _frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=polars_schema(TABLES[table]))


def _utc(moment: datetime | None) -> datetime | None:
    """Drop the zone: timestamps in tables are UTC."""
    return moment and moment.replace(tzinfo=None)
