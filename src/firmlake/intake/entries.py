"""Read the lines of a company list or contact list, each with its company."""

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
from firmlake.intake.table import KINDS, TextTable, field

__all__ = ["read_entries"]


@dataclass(frozen=True)
class Entries:
    """A list while it is read.

    Attributes:
        table: The list as a table of texts.
        batches: Results of `firmlake.intake.resolve.resolve_lines`, batch by batch.
        guesses: One sentence for each guess about the list, with the way to override it.
    """

    table: TextTable
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
    """Read the lines of a list of any format, with the company of each line.

    Args:
        path: The file.
        options: How to read the file.
        synonyms: Header names by role: `COMPANY_COLUMNS`, and those of other roles.
        mapping: Columns of these other roles, if they cannot be detected: header name, or position from 1.
        with_cells: Whether batches also hold the text of every column (`field(n)` for `table.columns[n]`), the whole
            line in `text` if it cannot be split into fields, and `KINDS` if the table has them.

    Raises:
        CompanyListError: The file cannot be used, now or while its batches are read. Follow the next step.
    """
    table = open_table(path, options, synonyms)
    choice, guesses = choose_columns(path, table, options, synonyms, mapping or {})
    positions = sorted({position for positions in choice.values() for position in positions})
    kept = ("text", *map(field, range(table.width)), *([KINDS] * table.has_kinds)) if with_cells else ()
    resolve = partial(resolve_lines, choice=choice, default_country=options.default_country or None, kept=kept)
    batches = table.batches(range(table.width) if with_cells else positions)
    return Entries(table, map(resolve, batches), (*table.guesses, *guesses))
