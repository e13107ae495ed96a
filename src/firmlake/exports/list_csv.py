"""A list as CSV that the spreadsheet program which made the list opens rightly."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

import polars as pl
import pyarrow as pa

from firmlake.exports.formats import guarded

__all__ = ["write_csv"]


def write_csv(path: Path, batches: Iterable[pa.RecordBatch], delimiter: str) -> None:
    """Write CSV: UTF-8 with a byte order mark, text in quotes, null as nothing at all.

    Spreadsheet programs take text without a byte order mark for the code page of their country. Where they separate
    fields by semicolons, the decimal sign is a comma, and so it is in the numbers written here. Text stays as it is.

    Args:
        path: The file.
        batches: At least one, in the order of the lines.
        delimiter: What separates the fields.
    """
    with path.open("wb") as file:
        for batch in batches:
            cast("pl.DataFrame", pl.from_arrow(guarded(batch))).write_csv(
                file,
                include_bom=not file.tell(),
                include_header=not file.tell(),
                separator=delimiter,
                decimal_comma=delimiter == ";",
                quote_style="non_numeric",
            )
