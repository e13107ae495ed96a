"""What every reader gives: the header, some first rows, and all rows in batches of text columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

__all__ = ["BATCH_ROWS", "BLANK", "SAMPLE_ROWS", "Table", "field"]

BATCH_ROWS: Final = 500_000
SAMPLE_ROWS: Final = 1_000

BLANK: Final = "blank"
"""The `defect` of a line that holds nothing."""


@dataclass(frozen=True)
class Table:
    """A list as a reader sees it.

    Attributes:
        names: Header names in the order of the columns; None where the file has no header.
        width: Number of columns.
        header_count: Lines that are not data: 0, 1, or 2 with the `sep=;` line of a spreadsheet.
        sample: `fields`: the fields of some first rows of data, as lists of text.
        batches: Gives for the positions of some columns, in file order, one row for each line after the header:

            - `line`: its number from 1.
            - `field("position")` for each position: the text there, null where there is none.
            - `defect`: why its fields cannot be told, `BLANK` where it is blank, else null.
            - `text`: the line itself where it has a defect, else null.
    """

    names: tuple[str, ...] | None
    width: int
    header_count: int
    sample: pl.DataFrame
    batches: Callable[[Sequence[int]], Iterator[pl.DataFrame]]


def field(position: int) -> str:
    """Give the name of the batch column with the text of a column of the file."""
    return f"field_{position}"
