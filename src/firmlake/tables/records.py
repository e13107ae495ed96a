"""Convert raw records to a frame by the contract: at full speed if they have its exact shape, else value by value.

Records whose texts differ only in their digits go through `regular.py`. Those of another dialect do too, once
`rewritten.py` has written them again. All others go through `tolerant.py`, which takes several times as long. All ways
return the same frame.
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
from firmlake.tables.rewritten import Known, known_keys, rewrite
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
    known: Known | None
    tolerant: Tolerant


@lru_cache(maxsize=64)
def _shapes(dataset: str, name: str, contract: bytes) -> _Shapes:
    group = DATASETS[dataset].groups[name]
    leaves = leaves_of(dataset, name, msgspec.json.decode(contract, type=ContractSettings))
    regular = regular_shape(group, leaves)
    return _Shapes(regular, known_keys(regular) if regular else None, tolerant_shape(group, leaves))


def _read_batches(shapes: _Shapes, raws: Sequence[Raw]) -> Iterator[Records]:
    """Read batches as fast as possible: only thousands of records with something irregular are read the slow way."""
    for start in range(0, len(raws), _BATCH):
        batch = raws[start : start + _BATCH]
        if whole := _read_fast(shapes, batch, start):
            yield whole
        else:
            yield from _read_pieces(shapes, batch, start)


def _read_pieces(shapes: _Shapes, raws: Sequence[Raw], begin: int) -> Iterator[Records]:
    """Read the pieces of a batch; consecutive irregular pieces are read together, which is faster."""
    odd = 0
    for start in range(0, len(raws), _PIECE):
        piece = raws[start : start + _PIECE]
        if read := _read_fast(shapes, piece, begin + start):
            if odd < start:
                yield read_tolerantly(shapes.tolerant, raws[odd:start], begin + odd)
            odd = start + len(piece)
            yield read
    if odd < len(raws):
        yield read_tolerantly(shapes.tolerant, raws[odd:], begin + odd)


def _read_fast(shapes: _Shapes, raws: Sequence[Raw], start: int) -> Records | None:
    """Read records as they are, or written again as the contract has them; None where one is odd."""
    if shapes.regular is None or shapes.known is None:
        return None
    if whole := read_regular(shapes.regular, raws, start):
        return whole
    rewritten = rewrite(shapes.known, shapes.tolerant.shape, raws, start)
    if rewritten is None or (read := read_regular(shapes.regular, rewritten.lines, start)) is None:
        return None
    if not rewritten.extra:
        return read
    extra = pl.Series("extra_json", rewritten.extra, pl.String)
    return Records(read.frame.with_columns(extra), [], rewritten.observations)
