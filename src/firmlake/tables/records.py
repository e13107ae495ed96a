"""Convert raw records to a frame by the contract: all at once if they are regular, otherwise column by column.

Records that differ only in their digits go through `regular.py`, whether or not they leave out nulls or have unknown
fields. All others go through `tolerant.py`, which takes two to five times as long. Both return the same frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import polars as pl
from msgspec import Raw

from firmlake.core.settings import ContractSettings
from firmlake.tables.leaves import AS_IT_IS, renamed_keys, without_renames
from firmlake.tables.notes import Notes, Records
from firmlake.tables.objects import Shape, shape_of
from firmlake.tables.regular import read_regular
from firmlake.tables.schemas import KIND_TYPES
from firmlake.tables.tolerant import read_tolerantly

__all__ = ["read_records"]

_BATCH, _PIECE = 8000, 1000
"""Records read at once, for the least cost; if a record is irregular, only its piece is read column by column."""


def read_records(dataset: str, group: str, raws: Sequence[Raw], contract: ContractSettings = AS_IT_IS) -> Records:
    """Read records of one group of a dataset: valid JSON, as extracted by `firmlake.api.answers`.

    A value is exact, or null if it does not fit. A record is rejected only if a field that identifies it does not fit.
    Fractions, ratios and decimals with more digits than their type are rounded half to even, which is recorded as an
    observation ("rounded_value").
    """
    parts = list(_read_parts(dataset, group, raws, contract)) or [_no_records(shape_of(dataset, group, contract))]
    return Records(
        pl.concat([part.frame for part in parts]),
        [reject for part in parts for reject in part.rejects],
        [observation for part in parts for observation in part.observations],
    )


# ---------------------------------------------------------------------------------------------------------------------


def _no_records(shape: Shape) -> Records:
    return Notes(0).records([pl.Series(leaf.name, [], KIND_TYPES[leaf.kind]) for leaf in shape.leaves], 0)


def _read_parts(dataset: str, group: str, raws: Sequence[Raw], contract: ContractSettings) -> Iterator[Records]:
    """Read records by the names that each has: those from before the service renamed a field have ours."""
    shape = shape_of(dataset, group, contract)
    keys = renamed_keys(dataset, contract)
    if not keys:
        yield from _read_batches(shape, raws, 0, len(raws))
        return
    shapes = {True: shape, False: shape_of(dataset, group, without_renames(dataset, contract))}
    start = 0
    for is_renamed, same in groupby(raws, lambda raw: any(key in bytes(raw) for key in keys)):
        end = start + sum(1 for _ in same)
        yield from _read_batches(shapes[is_renamed], raws, start, end)
        start = end


def _read_batches(shape: Shape, raws: Sequence[Raw], first: int, last: int) -> Iterator[Records]:
    """Read batches as fast as possible: only pieces with an irregular record are read column by column."""
    for start in range(first, last, _BATCH):
        batch = raws[start : min(start + _BATCH, last)]
        if whole := read_regular(shape, batch, start):
            yield whole
            continue
        for begin in range(start, start + len(batch), _PIECE):
            piece = batch[begin - start : begin - start + _PIECE]
            yield read_regular(shape, piece, begin) or read_tolerantly(shape, piece, begin)
