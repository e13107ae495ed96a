"""Clean the files of exports: read each into a table, clean it like any table, and write it as the export did.

The manifest has the types of columns, so cells of CSV that name nobody do not change.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import IO, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from firmlake.core.errors import DamagedError
from firmlake.core.guard import RISKY
from firmlake.delivery.files import put_csv
from firmlake.delivery.record import DeliveredFile, DeliveredTable
from firmlake.forget.place import count_changed
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.frames import clean_frame

__all__ = ["Cleaned", "clean_file"]

_TYPES: dict[str, pa.DataType] = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}
_BLOCK = 1 << 26  # bytes; a row must fit


class Cleaned(NamedTuple):
    """A cleaned file, its number of rows, and how many rows were changed or removed."""

    content: bytes
    row_count: int
    changed_count: int


def clean_file(content: bytes, file: DeliveredFile, table: DeliveredTable, forgotten: Forgotten) -> Cleaned:
    """Clean a file of an export.

    Args:
        content: The file.
        file: Its path and country.
        table: The table that the file is a part of.
        forgotten: The forgotten subjects.

    Raises:
        DamagedError: The file was changed since its export, or has an unknown format.
    """
    ending = PurePosixPath(file.path).suffix
    if ending not in _FORMATS:
        raise DamagedError(f"{file.path} has an unknown format", "Export again, and remove this file")
    read, write = _FORMATS[ending]
    try:
        held = read(content, table)
    except (ValueError, pa.ArrowException, pl.exceptions.PolarsError):
        # The error would quote the file.
        raise DamagedError(f"{file.path} was changed since its export", "Export again, and remove this file") from None
    before = _framed(held)
    if file.country:
        before = before.with_columns(country=pl.lit(file.country))
    before = before.with_row_index("row_of_file")
    after = clean_frame(before, forgotten)
    if after is before:
        return Cleaned(content, before.height, 0)
    kept = before.filter(pl.col("row_of_file").is_in(after["row_of_file"].implode()))
    count = before.height - after.height + count_changed(kept, after)
    written = io.BytesIO()
    write(written, table.name, after.select(held.schema.names).to_arrow().cast(held.schema))
    return Cleaned(written.getvalue(), after.height, count)


# ---------------------------------------------------------------------------------------------------------------------


def _framed(table: pa.Table) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(table))


def _schema(table: DeliveredTable) -> pa.Schema:
    return pa.schema([(column.name, _type(column.type)) for column in table.columns])


def _type(name: str) -> pa.DataType:
    return pa.decimal128(*map(int, re.findall(r"\d+", name))) if name.startswith("DECIMAL") else _TYPES[name]


def _read_parquet(content: bytes, _table: DeliveredTable) -> pa.Table:
    return pq.read_table(pa.BufferReader(content), partitioning=None)


def _write_parquet(file: IO[bytes], _name: str, rows: pa.Table) -> None:
    pq.write_table(rows, file, compression="zstd")


def _read_csv(content: bytes, table: DeliveredTable) -> pa.Table:
    """Read the rows without the guard against formulas; quotes tell an empty text from null."""
    schema = _schema(table)
    rows = pyarrow.csv.read_csv(
        pa.BufferReader(content),
        pyarrow.csv.ReadOptions(block_size=_BLOCK),
        pyarrow.csv.ParseOptions(newlines_in_values=True),
        pyarrow.csv.ConvertOptions(
            column_types=schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    text = pl.col(pl.String)
    plain = pl.when(text.str.contains(RISKY)).then(text.str.strip_prefix("'")).otherwise(text)
    return _framed(rows).with_columns(plain).select(schema.names).to_arrow().cast(schema)


def _write_csv(file: IO[bytes], _name: str, rows: pa.Table) -> None:
    put_csv(file, rows.schema, rows.to_batches())


_FORMATS: dict[str, tuple[Callable[[bytes, DeliveredTable], pa.Table], Callable[[IO[bytes], str, pa.Table], None]]] = {
    ".parquet": (_read_parquet, _write_parquet),
    ".csv": (_read_csv, _write_csv),
}
