"""Types shared by all ways of reading records: the description of a field, and the result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl
from msgspec import Raw

from firmlake.api.contract import FieldKind
from firmlake.tables.number_texts import MARKS
from firmlake.tables.schemas import KIND_TYPES

__all__ = ["Leaf", "Observation", "Records", "Reject", "Unknown", "record_schema"]


class Leaf(NamedTuple):
    """One value of a record and how to read it: a field of the contract under the settings of a run.

    Attributes:
        name: Our name of the field, and of its column.
        path: Dotted place in the service's JSON record.
        kind: Type that the value must fit.
        required: A record without this value is rejected.
        shift: Decimal places by which the point moves to the left: 2 reads 45 as 0.45.
        mode: What happens to a value that does not fit: "discard_value", "discard_record" or "stop". A required value
            always takes its record with it.
        is_company_number: The value is a text that services may also write as a JSON integer.
        marks: The marks that may separate decimals where a number comes as a text.
    """

    name: str
    path: str
    kind: FieldKind
    required: bool
    shift: int = 0
    mode: str = "discard_value"
    is_company_number: bool = False
    marks: str = MARKS


class Reject(NamedTuple):
    """A value or a record that does not fit.

    Attributes:
        record: Index of the record.
        path: Place of the value; empty for the record as a whole.
        value: JSON of the value; None if it is missing.
        reason: What is wrong with it.
        effect: "value": the value is null in its column, and kept in `extra_json`. "record": the record is left out.
            "stop": as "value", and the run may not be published.
    """

    record: int
    path: str
    value: str | None
    reason: str
    effect: str


class Observation(NamedTuple):
    """A difference from the contract: its kind, place, an example, the first record and the number of records."""

    kind: str
    path: str
    example: str | None
    record: int
    records: int = 1


class Records(NamedTuple):
    """Records as read.

    Attributes:
        frame: One row per record that was not rejected: `record` (index), the fields by our names, `extra_json`.
        rejects: Discarded values and rejected records, in the order of the records.
        observations: Differences by which no value was lost.
    """

    frame: pl.DataFrame
    rejects: list[Reject]
    observations: list[Observation]


class Unknown(NamedTuple):
    """The unknown fields of records.

    Attributes:
        extra: Those of each record as JSON by path, or None if it has none.
        seen: By path the place of the first record that has it, its value there, and the number of records with it.
    """

    extra: list[str | None]
    seen: dict[str, tuple[int, Raw, int]]


def record_schema(leaves: Iterable[Leaf]) -> pl.Schema:
    """Return the schema of `Records.frame` for these fields."""
    types = {leaf.name: KIND_TYPES[leaf.kind] for leaf in leaves}
    return pl.Schema({"record": pl.UInt32(), **types, "extra_json": pl.String()})
