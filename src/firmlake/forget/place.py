"""Places where a forgotten subject is named."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl

__all__ = ["Place", "count_changed"]


class Place(NamedTuple):
    """A part of a file or object that names a forgotten subject.

    Attributes:
        what: "answers", "list", "plan", "staged", a table, ...
        row_count: The number of records, rows or lines that name a forgotten subject.
    """

    path: Path | str
    what: str
    row_count: int


def count_changed(before: pl.DataFrame, after: pl.DataFrame) -> int:
    """Count the rows that were changed or removed."""
    if before is after:
        return 0
    if before.height != after.height:
        return before.height - after.height
    differs = (before[name].ne_missing(after[name]) for name in before.columns)
    return int(pl.DataFrame([each.alias(str(n)) for n, each in enumerate(differs)]).max_horizontal().sum())
