"""Convert raw records to a frame by the contract: all at once if they are regular, otherwise value by value.

Records that differ only in their digits go through `regular.py`, whether or not they leave out nulls or have unknown
fields. All others go through `tolerant.py`, which takes two to three times as long. Both return the same frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec
import polars as pl
from msgspec import Raw

from firmlake.api.contract import DATASETS
from firmlake.core.settings import ContractSettings
from firmlake.tables.leaves import leaves_of
from firmlake.tables.objects import Shape, shape_of
from firmlake.tables.reading import Records, record_schema
from firmlake.tables.regular import read_regular
from firmlake.tables.tolerant import read_tolerantly

__all__ = ["read_records"]

_DEFAULT = ContractSettings()

_BATCH, _PIECE = 8000, 1000
"""Records read at once, for the least cost; if a record is irregular, only its piece is read value by value."""


def read_records(dataset: str, group: str, raws: Sequence[Raw], contract: ContractSettings = _DEFAULT) -> Records:
    """Read records of one group of a dataset: valid JSON, as extracted by `firmlake.api.answers`.

    A value is exact, or null if it does not fit. A record is rejected only if a field that identifies it does not fit.
    Fractions, ratios and decimals with more digits than their type are rounded half to even, which is recorded as an
    observation ("rounded_value").
    """
    shape = _shape(dataset, group, msgspec.json.encode(contract))
    parts = list(_read_batches(shape, raws))
    return Records(
        pl.concat([part.frame for part in parts]) if parts else pl.DataFrame(schema=record_schema(shape.leaves)),
        [reject for part in parts for reject in part.rejects],
        [observation for part in parts for observation in part.observations],
    )


# ---------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _shape(dataset: str, name: str, contract: bytes) -> Shape:
    leaves = leaves_of(dataset, name, msgspec.json.decode(contract, type=ContractSettings))
    return shape_of(DATASETS[dataset].groups[name], leaves)


def _read_batches(shape: Shape, raws: Sequence[Raw]) -> Iterator[Records]:
    """Read batches as fast as possible: only pieces with an irregular record are read value by value."""
    for start in range(0, len(raws), _BATCH):
        batch = raws[start : start + _BATCH]
        if whole := read_regular(shape, batch, start):
            yield whole
            continue
        for begin in range(start, start + len(batch), _PIECE):
            piece = raws[begin : begin + _PIECE]
            yield read_regular(shape, piece, begin) or read_tolerantly(shape, piece, begin)
