"""Types shared by all ways of reading records: the description of a field, and the result."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from firmlake.api.contract import FieldKind
from firmlake.tables.number_texts import MARKS

__all__ = ["Leaf", "Observation", "Records", "Reject"]


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
