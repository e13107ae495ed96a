"""The result of every reader: the header, a sample of rows, and all rows in batches of text columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as member
from typing import Final

import polars as pl

BATCH_ROWS: Final = 500_000
SAMPLE_ROWS: Final = 1_000

BLANK: Final = "blank"
"""The `defect` of a blank line."""

KINDS: Final = "kinds"
"""The batch column with the kinds of the cells."""

TAIL: Final = "tail"
"""The batch column with the last fields of a line that has too many: as many as there are columns, else null."""


Formats = dict[str, str | int]
"""Number formats of a column by kind of cell, `n` or `d`: a format code, or the number of a built-in format."""


@dataclass(frozen=True)
class TextTable:
    """A list as a table of texts.

    Attributes:
        names: Header names in column order; None if the file has no header.
        width: Number of columns.
        header_count: Lines before the data: titles, the header, the `sep=;` line of a spreadsheet.
        sample: First rows of data, with `fields` as a list of texts.
        batches: Yields frames for the given column positions, with one row per line after the header, in file order:

            - `line`: the line number, from 1.
            - `field(position)` for each position: the text, null if empty. A line with more filled fields than the
              header has a defect, but its first fields are still returned.
            - `defect`: why the line cannot be split into fields; `BLANK` for a blank line; null if all is well.
            - `text`: the whole line if it has a defect, or null.
        guesses: One sentence for each guess about the file, with the way to override it.
        unusable: Message and next step for columns that cannot hold numbers, by position.
        delimiter: The delimiter of delimited text; empty for other formats and for a single column.
        has_kinds: Whether cells have types, as in workbooks and Parquet. Batches then have a column `KINDS` with a
            letter for each cell of a line: n (number), b (boolean), d (date, time or both), e (error) or s (text, or
            empty).
        types: Types of Parquet columns as DuckDB spells them, by position, if their text can be cast to them.
        formats: Number formats of XLSX columns by kind of cell, by position.
    """

    names: tuple[str, ...] | None
    width: int
    header_count: int
    sample: pl.DataFrame
    batches: Callable[[Sequence[int]], Iterator[pl.DataFrame]]
    guesses: tuple[str, ...] = ()
    unusable: Mapping[int, tuple[str, str]] = member(default_factory=dict)
    delimiter: str = ""
    has_kinds: bool = False
    types: Mapping[int, str] = member(default_factory=dict)
    formats: Mapping[int, Formats] = member(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Unique names of the columns; repeated names are numbered."""
        return unique_names(self.names or ("",) * self.width)


def field(position: int) -> str:
    """Return the name of the batch column for a column position."""
    return f"field_{position}"


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Make names unique, ignoring case: repeated names are numbered, and empty ones named after their position.

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
