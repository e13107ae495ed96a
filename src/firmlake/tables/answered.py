"""The records of many companies as one frame, each with its origin, and their differences from the contract (drift)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import NamedTuple

import polars as pl
from msgspec import Raw

from firmlake.api.contract import KNOWN_VALUES, RECORDS
from firmlake.core.company import Company
from firmlake.core.settings import ContractSettings
from firmlake.landing.progress import Part
from firmlake.tables.leaves import AS_IT_IS
from firmlake.tables.records import read_records
from firmlake.tables.schemas import TABLES, polars_schema

DRIFT = pl.Schema({name: kind for name, kind in polars_schema(TABLES["drift"]).items() if name != "run_id"})
"""The table `drift`, without the run."""
Answers = Mapping[Company, Sequence[Part]]
"""The complete answers for a dataset: the pages of each company, in order."""
_PAGES = pl.Schema(
    {
        **dict.fromkeys(("country", "company_number", "request_id"), pl.String()),
        "fetched_at": pl.Datetime("us"),
        **dict.fromkeys(("position", "end"), pl.Int64()),
    }
)
_REJECT = pl.Schema(
    {"record": pl.UInt32(), **dict.fromkeys(("path", "value", "reason_code", "reason", "effect"), pl.String())}
)
_OBSERVATION = pl.Schema(
    {**dict.fromkeys(("kind", "path", "example"), pl.String()), "record": pl.UInt32(), "record_count": pl.Int64()}
)


class Gathered(NamedTuple):
    """The records of one group, as read.

    Attributes:
        frame: The fields of `read_records` and country, company_number, position, request_id, fetched_at.
        rejects: Rows of the table `rejects`, without run_id but with `record`, the number of the record in the frame.
        drift: Rows of the table `drift`, without run_id; several may count the same difference.
    """

    frame: pl.DataFrame
    rejects: pl.DataFrame
    drift: pl.DataFrame


def gather(dataset: str, group: str, answers: Answers, contract: ContractSettings = AS_IT_IS) -> Gathered:
    """Read one group's records of many companies together, because reading company by company is slow."""
    raws = list(chain.from_iterable([part.records[group] for parts in answers.values() for part in parts]))
    return gather_records(dataset, group, raws, _origin(answers, group), contract)


def gather_records(
    dataset: str, group: str, raws: Sequence[Raw], origin: pl.DataFrame, contract: ContractSettings = AS_IT_IS
) -> Gathered:
    """Read the records of one group.

    Args:
        dataset: Of the records.
        group: Of the records.
        raws: The records, each valid JSON.
        origin: One row per record, with `fetched_at` and more; its columns are added to those of `Gathered`.
        contract: Settings by which to read them.
    """
    read = read_records(dataset, group, raws, contract)
    has_all = read.frame.height == len(raws)
    frame = pl.concat([origin if has_all else origin[read.frame["record"]], read.frame], how="horizontal")
    key = RECORDS[dataset].groups[group].key
    prefix = f"{key}[]." if key else ""  # parents and children are counted apart

    def placed(rows: Sequence[tuple[object, ...]], schema: pl.Schema) -> pl.DataFrame:
        found = pl.DataFrame(rows, schema=schema, orient="row")
        found = pl.concat([found, origin[found["record"]]], how="horizontal")
        return found.with_columns(pl.lit(dataset).alias("dataset"), (pl.lit(prefix) + pl.col("path")).alias("path"))

    texts = [
        bytes(raws[reject.record]).decode("utf-8", "replace") if reject.effect == "record" else None
        for reject in read.rejects
    ]
    rejects = placed(read.rejects, _REJECT).with_columns(
        pl.col("path").str.strip_chars_end("."), pl.Series("record_json", texts, pl.String)
    )
    observed = placed(read.observations, _OBSERVATION).rename({"fetched_at": "first_seen_at"}).select(DRIFT.names())
    return Gathered(frame, rejects, pl.concat([observed, find_drift(dataset, frame, rejects)]))


def moments(values: Iterable[datetime | None]) -> pl.Series:
    """Make a column of UTC times without a zone. Each distinct time is converted once, because there are few."""
    values = list(values)
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    distinct = pl.Series([value and value.replace(tzinfo=None) for value in places], dtype=pl.Datetime("us"))
    return distinct.gather([places[value] for value in values])


def find_drift(dataset: str, records: pl.DataFrame, rejects: pl.DataFrame) -> pl.DataFrame:
    """Find values that did not fit, values of another scale, and new values in fields with an open set of values.

    Args:
        dataset: Of the records.
        records: The frame of `gather`.
        rejects: The rejects of `gather`. Rejected records are counted elsewhere.
    """
    counted = [
        values.group_by("path", maintain_order=True)
        .agg(
            pl.lit(dataset).alias("dataset"),
            pl.lit(kind).alias("kind"),
            pl.col("value").first().alias("example"),
            pl.len().cast(pl.Int64).alias("record_count"),
            pl.col("fetched_at").min().alias("first_seen_at"),
        )
        .select(DRIFT.names())
        for kind, values in _differing(dataset, records, rejects)
        if values.height
    ]
    return pl.concat([pl.DataFrame(schema=DRIFT), *counted])


def merge_drift(frame: pl.DataFrame) -> pl.DataFrame:
    """Merge counted differences, those of each run if there is a column for it: the first example, all counts."""
    key = [name for name in ("dataset", "kind", "path", "run_id") if name in frame.columns]
    return (
        frame.sort("first_seen_at", maintain_order=True)
        .group_by(key)
        .agg(pl.col("example").first(), pl.col("record_count").sum(), pl.col("first_seen_at").first())
        .sort(key)
    )


def _origin(answers: Answers, group: str) -> pl.DataFrame:
    """Return the origin of each record of these answers, in their order."""
    pages = []
    for (country, number), parts in answers.items():
        position = 0
        for part in parts:
            if count := len(part.records[group]):
                pages.append((country, number, part.request_id, part.fetched_at, position, position + count))
                position += count
    countries, numbers, request_ids, times, starts, ends = zip(*pages, strict=True) if pages else [()] * 6
    return (
        pl.DataFrame(
            {
                "country": countries,
                "company_number": numbers,
                "request_id": request_ids,
                "fetched_at": moments(times),
                "position": starts,
                "end": ends,
            },
            schema=_PAGES,
        )
        .with_columns(pl.int_ranges("position", "end"))
        .explode("position")
        .drop("end")
    )


def _differing(dataset: str, records: pl.DataFrame, rejects: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the kind of a difference and the values that have it: path, value and fetched_at."""
    yield "discarded_value", rejects.filter(pl.col("effect") != "record")
    # Fractions and scores above 1: the service may send percentages. A fraction of up to 2 was read.
    yield "other_scale", rejects.filter(pl.col("reason_code") == "beyond_one")
    for name, field in RECORDS[dataset].fields.items():
        if field.kind in ("fraction", "score") and name in records:
            yield "other_scale", _values(name, pl.lit(field.path), records.filter(pl.col(name) > 1))
    for (of, name), known in KNOWN_VALUES.items():
        if of == dataset:
            field = RECORDS[dataset].fields[name]
            is_array = field.kind == "codes"
            path, each = f"{field.path}[]" if is_array else field.path, records.explode(name) if is_array else records
            unseen = each.filter(pl.col(name).is_not_null() & ~pl.col(name).is_in(known))
            yield "new_value", _values(name, pl.lit(f"{path}=") + pl.col(name), unseen)


def _values(column: str, path: pl.Expr, records: pl.DataFrame) -> pl.DataFrame:
    return records.select(path.alias("path"), pl.col(column).cast(pl.String).alias("value"), "fetched_at")
