"""The records of many companies as one frame, in which each row has its company and the page that it came from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import NamedTuple

import msgspec
import polars as pl
from msgspec import Raw
from xxhash import xxh3_128_hexdigest

from firmlake.api.contract import DATASETS
from firmlake.core.company import Company
from firmlake.core.settings import ContractSettings
from firmlake.landing.track import Part
from firmlake.tables.drift import DRIFT, find_drift
from firmlake.tables.records import read_records
from firmlake.tables.schemas import KIND_TYPES, TABLES, polars_schema

__all__ = [
    "AS_IT_IS",
    "Answered",
    "Gathered",
    "Part",
    "gather",
    "hash_heads",
    "moments",
    "payload_hash",
    "shape_table",
]

AS_IT_IS = ContractSettings()
"""Settings that change nothing about the contract."""


class Answered(NamedTuple):
    """A company's complete answer for a dataset.

    Attributes:
        parts: Its pages, in order.
    """

    company: Company
    parts: Sequence[Part]


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


def gather(dataset: str, group: str, answers: Sequence[Answered], contract: ContractSettings) -> Gathered:
    """Read one group's records of many companies together, because reading company by company is slow."""
    records = [part.records[group] for answer in answers for part in answer.parts]
    raws = list(chain.from_iterable(records))
    read = read_records(dataset, group, raws, contract)
    origin = _origin(answers, map(len, records))
    frame = pl.concat([origin[read.frame["record"]], read.frame], how="horizontal")
    key = DATASETS[dataset].groups[group].key
    prefix = f"{key}[]." if key else ""  # parents and children are counted apart

    def placed(rows: Sequence[tuple[object, ...]], schema: pl.Schema) -> pl.DataFrame:
        found = pl.DataFrame(rows, schema=schema, orient="row")
        found = found.join(origin.with_row_index("record"), on="record", maintain_order="left")
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


def hash_heads(groups: Iterable[str], contract: ContractSettings = AS_IT_IS) -> list[tuple[str, bytes]]:
    """Return the groups of a dataset, each with what stands before its records when they are hashed.

    Settings that change how records are read are part of the hash, so that held rows are replaced if they change.
    """
    settings = b"" if contract == AS_IT_IS else msgspec.json.encode(contract)
    return [(group, settings + group.encode()) for group in groups]


def payload_hash(heads: Iterable[tuple[str, bytes]], parts: Iterable[Part]) -> str:
    """Hash a company's records as received: equal hashes mean equal rows, however the records were paged.

    Args:
        heads: From `hash_heads`.
        parts: The pages of the company's answer.
    """
    content: list[bytes | Raw] = []
    for group, head in heads:
        content.append(head)
        for part in parts:
            content += part.records[group]
    return xxh3_128_hexdigest(b",".join(content))


def moments(values: Iterable[datetime | None]) -> pl.Series:
    """Make a column of UTC times without a zone. Each distinct time is converted once, because there are few."""
    values = list(values)
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    distinct = pl.Series([value and value.replace(tzinfo=None) for value in places], dtype=pl.Datetime("us"))
    return distinct.gather([places[value] for value in values])


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


def _origin(answers: Sequence[Answered], counts: Iterable[int]) -> pl.DataFrame:
    """Return the origin of each record of these answers, in their order; `counts` has the records of each page."""
    parts = [part for answer in answers for part in answer.parts]
    companies = [answer.company for answer in answers for _ in answer.parts]
    earlier = pl.col("count").cum_sum() - pl.col("count")
    of_company = pl.when(pl.col("page") == 0).then(earlier).forward_fill()
    return (
        pl.DataFrame(
            {
                "country": [company.country for company in companies],
                "company_number": [company.company_number for company in companies],
                "page": [page for answer in answers for page in range(len(answer.parts))],
                "request_id": [part.request_id for part in parts],
                "fetched_at": moments([part.fetched_at for part in parts]),
                "count": list(counts),
            },
            schema=_PAGES,
        )
        .with_columns((earlier - of_company).alias("position"))
        .filter(pl.col("count") > 0)
        .select(
            *Company._fields,
            "request_id",
            "fetched_at",
            pl.int_ranges("position", pl.col("position") + pl.col("count")).alias("position"),
        )
        .explode("position")
    )


_PAGES = pl.Schema(
    {
        **dict.fromkeys(Company._fields, pl.String()),
        "page": pl.Int64(),
        "request_id": pl.String(),
        "fetched_at": pl.Datetime("us"),
        "count": pl.Int64(),
    }
)
_REJECT = pl.Schema({"record": pl.UInt32(), **dict.fromkeys(("path", "value", "reason", "effect"), pl.String())})
_OBSERVATION = pl.Schema(
    {**dict.fromkeys(("kind", "path", "example"), pl.String()), "record": pl.UInt32(), "record_count": pl.Int64()}
)
