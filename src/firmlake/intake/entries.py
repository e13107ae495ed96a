"""The lines of a list with the company that each names: common ground of company lists and contact lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from firmlake.core.settings import IntakeSettings
from firmlake.intake.choice import choose_columns
from firmlake.intake.columns import COMPANY_COLUMNS, Synonyms
from firmlake.intake.readers import open_table
from firmlake.intake.resolve import resolve_lines
from firmlake.intake.table import field

__all__ = ["Entries", "read_entries"]


@dataclass(frozen=True)
class Entries:
    """A list while it is read.

    Attributes:
        columns: The names of the columns of the list, in its order, each only once: see `Table.columns`.
        header_count: Lines before the data.
        batches: What `firmlake.intake.resolve.resolve_lines` gives for one batch of lines after the other.
        guesses: One sentence for each thing that was not plain in the list, and how to overrule it.
    """

    columns: tuple[str, ...]
    header_count: int
    batches: Iterator[pl.DataFrame]
    guesses: tuple[str, ...]


def read_entries(
    path: Path,
    options: IntakeSettings,
    synonyms: Synonyms = COMPANY_COLUMNS,
    mapping: Mapping[str, str] | None = None,
    *,
    with_cells: bool = False,
) -> Entries:
    """Read the lines of a list of any format, and the company that each of them names.

    Args:
        path: The file.
        options: How to read it.
        synonyms: The roles of columns and the header names they go by: `COMPANY_COLUMNS`, and any others needed.
        mapping: Columns of such other roles where they are not found: header name, or position from 1 without header.
        with_cells: Whether the batches also hold the text of every column of the list, as `field(n)` for the column
            `columns[n]`, and `text`: the whole line where its fields cannot be told.

    Raises:
        CompanyListError: The file cannot be used, now or while its batches are read; do what the next step says.
    """
    table = open_table(path, options, synonyms)
    choice, guesses = choose_columns(path, table, options, synonyms, mapping or {})
    positions = sorted({position for positions in choice.values() for position in positions})
    kept = ("text", *map(field, range(table.width))) if with_cells else ()
    resolve = partial(resolve_lines, choice=choice, default_country=options.default_country or None, kept=kept)
    batches = table.batches(range(table.width) if with_cells else positions)
    return Entries(table.columns, table.header_count, map(resolve, batches), (*table.guesses, *guesses))
