"""Parquet files as a table: columns of text, whole numbers, decimals or 64-bit floats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.intake.table import BATCH_ROWS, Table, field

__all__ = ["open_parquet"]

_DAMAGE: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What Polars raises on damaged files; it panics on some."""


def open_parquet(path: Path) -> Table:
    """Open a Parquet file; its rows are counted from 1.

    Raises:
        CompanyListError: The file is damaged, or (when read) a column cannot hold company numbers.
    """
    try:
        names = tuple(pl.read_parquet_schema(path))
    except _DAMAGE as error:
        raise _damaged(path) from error
    nothing = pl.DataFrame(schema={"fields": pl.List(pl.String)})
    return Table(names, len(names), 0, nothing, partial(_batches, path, names))


def _batches(path: Path, names: Sequence[str], positions: Sequence[int]) -> Iterator[pl.DataFrame]:
    try:
        columns = pl.read_parquet(path, columns=[names[position] for position in positions])
    except _DAMAGE as error:
        raise _damaged(path) from error
    texts = {field(position): _text(path, columns[names[position]]) for position in positions}
    nothing = pl.lit(None, pl.String)
    rows = pl.DataFrame(texts).with_columns(line=pl.int_range(1, pl.len() + 1), defect=nothing, text=nothing)
    return rows.iter_slices(BATCH_ROWS)


def _text(path: Path, column: pl.Series) -> pl.Series:
    if column.dtype in {pl.Float32, pl.Float16}:
        raise CompanyListError(
            f"{path}: column {column.name!r} is {column.dtype}, which holds 7 digits: the last ones are lost",
            "Write it as text from where it comes from",
        )
    if column.dtype.is_nested() or column.dtype == pl.Binary:
        raise CompanyListError(f"{path}: column {column.name!r} is {column.dtype}, not text", "Write it as text")
    return column.cast(pl.String)


def _damaged(path: Path) -> CompanyListError:
    return CompanyListError(f"{path} is a damaged Parquet file", "Copy or export it again")
