"""Convert raw records to a frame by the contract: at full speed if they have its exact shape, else value by value.

Records that differ only in their digits go through `regular.py`, whether or not they leave out nulls or have unknown
fields. All others go through `tolerant.py`, which takes two to three times as long. Both return the same frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
import polars as pl
from msgspec import Raw

from firmlake.api.contract import DATASETS
from firmlake.core.settings import ContractSettings
from firmlake.tables.leaves import leaves_of
from firmlake.tables.reading import Records
from firmlake.tables.regular import Regular, read_regular, regular_shape
from firmlake.tables.tolerant import Tolerant, read_tolerantly, tolerant_shape

__all__ = ["read_records"]

_DEFAULT = ContractSettings()

_BATCH, _PIECE = 8000, 1000
"""Records read at once: so many cost least; where one of them is odd, only its thousand is read value by value."""


def read_records(dataset: str, group: str, raws: Sequence[Raw], contract: ContractSettings = _DEFAULT) -> Records:
    """Read records of one group of a dataset: valid JSON, as extracted by `firmlake.api.answers`.

    A value is exact, or null if it does not fit. A record is rejected only if a field that identifies it does not fit.
    Fractions, ratios and decimals of more digits than their type are rounded half to even, and that is an observation
    ("rounded_value").
    """
    shapes = _shapes(dataset, group, msgspec.json.encode(contract))
    parts = list(_read_batches(shapes, raws))
    return Records(
        pl.concat([part.frame for part in parts]) if parts else pl.DataFrame(schema=shapes.tolerant.schema),
        [reject for part in parts for reject in part.rejects],
        [observation for part in parts for observation in part.observations],
    )


# ---------------------------------------------------------------------------------------------------------------------


class _Shapes(NamedTuple):
    """The shape of a group for each way of reading."""

    regular: Regular | None
    tolerant: Tolerant


@lru_cache(maxsize=64)
def _shapes(dataset: str, name: str, contract: bytes) -> _Shapes:
    leaves = leaves_of(dataset, name, msgspec.json.decode(contract, type=ContractSettings))
    tolerant = tolerant_shape(DATASETS[dataset].groups[name], leaves)
    return _Shapes(regular_shape(tolerant.shape, leaves), tolerant)


def _read_batches(shapes: _Shapes, raws: Sequence[Raw]) -> Iterator[Records]:
    """Read batches as fast as possible: only thousands of records with something irregular are read the slow way."""
    for start in range(0, len(raws), _BATCH):
        batch = raws[start : start + _BATCH]
        if whole := _read_fast(shapes, batch, start):
            yield whole
            continue
        for begin in range(start, start + len(batch), _PIECE):
            piece = raws[begin : begin + _PIECE]
            yield _read_fast(shapes, piece, begin) or read_tolerantly(shapes.tolerant, piece, begin)


def _read_fast(shapes: _Shapes, raws: Sequence[Raw], start: int) -> Records | None:
    return read_regular(shapes.regular, raws, start) if shapes.regular else None
