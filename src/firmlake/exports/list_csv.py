"""Write a list as CSV that opens correctly in the spreadsheet program that made the list."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

import polars as pl
import pyarrow as pa

from firmlake.exports.table_files import guarded

__all__ = ["write_csv"]


def write_csv(path: Path, batches: Iterable[pa.RecordBatch], delimiter: str) -> None:
    """Write CSV: UTF-8 with a byte order mark, text in quotes, null as an empty field.

    Without a byte order mark, spreadsheet programs read text in the code page of their country. Programs that separate
    fields by semicolons use a decimal comma, so numbers then have a decimal comma. Text is unchanged.

    Args:
        path: The file.
        batches: At least one, in the order of the lines.
        delimiter: The field separator.
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
