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

__all__ = ["Entries", "read_entries"]


@dataclass(frozen=True)
class Entries:
    """A list while it is read.

    Attributes:
        header_count: Lines before the data.
        batches: What `firmlake.intake.resolve.resolve_lines` gives for one batch of lines after the other.
    """

    header_count: int
    batches: Iterator[pl.DataFrame]


def read_entries(
    path: Path,
    options: IntakeSettings,
    synonyms: Synonyms = COMPANY_COLUMNS,
    mapping: Mapping[str, str] | None = None,
) -> Entries:
    """Read the lines of a list of any format, and the company that each of them names.

    Args:
        path: The file.
        options: How to read it.
        synonyms: The roles of columns and the header names they go by: `COMPANY_COLUMNS`, and any others needed.
        mapping: Columns of such other roles where they are not found: header name, or position from 1 without header.

    Raises:
        CompanyListError: The file cannot be used, now or while its batches are read; do what the next step says.
    """
    table = open_table(path, options, synonyms)
    choice = choose_columns(path, table, options, synonyms, mapping or {})
    positions = sorted({position for positions in choice.values() for position in positions})
    resolve = partial(resolve_lines, choice=choice, default_country=options.default_country or None)
    return Entries(table.header_count, map(resolve, table.batches(positions)))
