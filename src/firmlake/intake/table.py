"""What every reader gives: the header, some first rows, and all rows in batches of text columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as member
from typing import Final

import polars as pl

__all__ = ["BATCH_ROWS", "BLANK", "SAMPLE_ROWS", "Table", "field", "unique_names"]

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
        header_count: Lines before the data: titles, the header, the `sep=;` line of a spreadsheet.
        sample: `fields`: the fields of some first rows of data, as lists of text.
        batches: Gives for the positions of some columns, in file order, one row for each line after the header:

            - `line`: its number from 1.
            - `field("position")` for each position: the text there, null where there is none. A line with more filled
              fields than the header has a defect, and its first fields are given all the same.
            - `defect`: why its fields cannot be told, `BLANK` where it is blank, else null.
            - `text`: the line itself where it has a defect, else null.
        guesses: One sentence for each thing that was not plain and how to overrule it.
        unusable: Positions of columns that cannot hold numbers: the message and the next step where one is chosen.
    """

    names: tuple[str, ...] | None
    width: int
    header_count: int
    sample: pl.DataFrame
    batches: Callable[[Sequence[int]], Iterator[pl.DataFrame]]
    guesses: tuple[str, ...] = ()
    unusable: Mapping[int, tuple[str, str]] = member(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for each column, by which it can be told from the others: its own, numbered where that is taken."""
        return unique_names(self.names or ("",) * self.width)


def field(position: int) -> str:
    """Give the name of the batch column with the text of a column of the file."""
    return f"field_{position}"


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Give names that differ, whatever their case: a repeated one is numbered, an empty one is named by its position.

    Example:
        >>> unique_names(["naam", "", "Naam", "naam"])
        ('naam', 'column_2', 'Naam_2', 'naam_3')
    """
    taken = {name.casefold() for name in names}
    found: list[str] = []
    seen: set[str] = set()
    for position, given in enumerate(names, 1):
        base = given or f"column_{position}"
        name, number = base, 1
        while name.casefold() in seen or (number > 1 and name.casefold() in taken):
            number += 1
            name = f"{base}_{number}"
        seen.add(name.casefold())
        found.append(name)
    return tuple(found)
