"""Raw records become a frame by the contract: the fastest way first, and an exact one for what the fast ones refuse.

Records of the same text but for their digits go through `regular.py`, others through `strict.py`. Any doubt sends a
batch through again in smaller pieces, and the smallest down the exact path, `exact.py`. All give the same frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polars as pl
from msgspec import Raw

from firmlake.api.contract import DATASETS
from firmlake.tables.exact import Exact, exact_shape, read_exactly
from firmlake.tables.reading import Records
from firmlake.tables.regular import Regular, read_regular, regular_shape
from firmlake.tables.strict import Strict, read_strictly, strict_shape

__all__ = ["read_records"]

_BATCHES = (8000, 1000)
"""Records read at once: so many cost least; where one of them is odd, only its thousand goes down the exact path."""


def read_records(dataset: str, group: str, raws: Sequence[Raw]) -> Records:
    """Read records of one group of a dataset, as `firmlake.api.answers` took them out of an answer: valid JSON.

    Money, integers, dates and texts are exact or rejected. Fractions and ratios with more decimals than their type
    are rounded half to even, and that is an observation ("rounded_value").
    """
    shapes = _SHAPES[dataset, group]
    parts = list(_read_batches(shapes, raws, 0, *_BATCHES))
    return Records(
        pl.concat([part.frame for part in parts]) if parts else pl.DataFrame(schema=shapes.exact.schema),
        [reject for part in parts for reject in part.rejects],
        [observation for part in parts for observation in part.observations],
    )


# ---------------------------------------------------------------------------------------------------------------------


class _Shapes(NamedTuple):
    """What each way of reading knows of a group."""

    regular: Regular | None
    strict: Strict
    exact: Exact


_SHAPES = {
    (dataset, name): _Shapes(regular_shape(group), strict_shape(group), exact_shape(group))
    for dataset, of_dataset in DATASETS.items()
    for name, group in of_dataset.groups.items()
}


def _read_batches(shapes: _Shapes, raws: Sequence[Raw], begin: int, size: int, *smaller: int) -> Iterator[Records]:
    """Read batches of a size, those with anything odd in smaller ones, and the smallest exactly."""
    for start in range(0, len(raws), size):
        batch, first = raws[start : start + size], begin + start
        read = read_regular(shapes.regular, batch, first) if shapes.regular else None
        if read := read or read_strictly(shapes.strict, batch, first):
            yield read
        elif smaller:
            yield from _read_batches(shapes, batch, first, *smaller)
        else:
            yield read_exactly(shapes.exact, batch, first)
