"""Read Parquet files, and folders of them, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.detect import too_large
from firmlake.intake.table import KINDS, SAMPLE_ROWS, TextTable, field

__all__ = ["open_parquet", "open_parquet_folder"]

_DAMAGE: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, OSError)
"""Exceptions raised for damaged files; Polars panics on some."""

_BATCH_ROWS: Final = 65_536
_MAX_BATCH_BYTES: Final = 512 * 2**20
"""Dictionary encoding stores a repeated text once, but in memory every row takes its length."""

_NO_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"


class _Part(NamedTuple):
    """One file, and the column values that its folders define for all its rows."""

    path: Path
    values: dict[str, str | None]


def open_parquet(path: Path, options: IntakeSettings) -> TextTable:
    """Open a Parquet file; rows are numbered from 1.

    Raises:
        CompanyListError: The file is damaged, or has more rows or bytes than the settings allow.
    """
    return _open(path, [_Part(path, {})], options)


def open_parquet_folder(path: Path, options: IntakeSettings) -> TextTable:
    """Open the Parquet files below a folder as one list, in the order of their paths.

    Folders named `key=value` add a column, as Hive and DuckDB write them. Rows are numbered from 1 across all files.

    Raises:
        CompanyListError: There is no Parquet file, one is damaged, or they hold more than the settings allow.
    """
    files = sorted(file for file in path.rglob("*.parquet") if not file.name.startswith((".", "_")))
    if not files:
        raise CompanyListError(f"{path} is a folder without Parquet files (*.parquet)", "Name one file")
    return _open(path, [_Part(file, _partition(file.relative_to(path).parts[:-1])) for file in files], options)


def _partition(folders: Sequence[str]) -> dict[str, str | None]:
    pairs = (folder.partition("=") for folder in folders if "=" in folder)
    return {unquote(key): None if value == _NO_PARTITION else unquote(value) for key, _, value in pairs}


def _open(path: Path, parts: Sequence[_Part], options: IntakeSettings) -> TextTable:
    names: dict[str, None] = {}
    unusable: dict[str, tuple[str, str]] = {}
    types: dict[str, set[Any]] = {}
    row_count = byte_count = 0
    for part in parts:
        try:
            with pq.ParquetFile(part.path) as file:
                found = file.metadata
                schema = file.schema_arrow
        except _DAMAGE as error:
            raise _damaged(part.path) from error
        row_count += found.num_rows
        byte_count += sum(found.row_group(n).total_byte_size for n in range(found.num_row_groups))
        names.update(dict.fromkeys((*schema.names, *part.values)))
        for each in schema:
            types.setdefault(each.name, set()).add(each.type)
        for name in part.values:
            types.setdefault(name, set()).add(pa.string())
        unusable |= {each.name: reason for each in schema if (reason := _why_unusable(part.path, each))}
    if row_count > options.max_rows:
        raise too_large(path, options.max_rows, "lines", "intake.max_rows")
    if len(names) > options.max_columns:
        raise too_large(path, options.max_columns, "columns", "intake.max_columns")
    if byte_count > options.max_inflated_megabytes << 20:
        raise too_large(path, options.max_inflated_megabytes, "MB", "intake.max_inflated_megabytes")
    columns = tuple(names)
    column_types = [types[name].pop() if len(types[name]) == 1 else pa.string() for name in columns]
    batches = partial(_batches, parts, columns, "".join(map(_letter, column_types)))
    positions = range(len(columns))
    first = next(batches(positions, SAMPLE_ROWS), pl.DataFrame())
    texts = pl.concat_list(pl.col(field(position)).fill_null("") for position in positions)
    sample = first.head(SAMPLE_ROWS).select(fields=texts) if first.height else _NOTHING
    where = {position: unusable[name] for position, name in enumerate(columns) if name in unusable}
    return TextTable(
        columns,
        len(columns),
        0,
        sample,
        batches,
        unusable=where,
        has_kinds=True,
        types={n: name for n, kind in enumerate(column_types) if (name := _type_name(kind))},
    )


_NOTHING: Final = pl.DataFrame(schema={"fields": pl.List(pl.String)})


def _batches(
    parts: Sequence[_Part], names: Sequence[str], kinds: str, positions: Sequence[int], batch_rows: int = _BATCH_ROWS
) -> Iterator[pl.DataFrame]:
    start = 1
    for part in parts:
        for columns in _read(part, [names[position] for position in positions], batch_rows):
            texts = {field(n): _text(columns[names[n]]) for n in positions}
            nothing, letters = pl.lit(None, pl.String), pl.lit(kinds).alias(KINDS)
            lines = pl.int_range(start, start + pl.len())
            yield columns.select(**texts).with_columns(letters, line=lines, defect=nothing, text=nothing)
            start += columns.height


def _read(part: _Part, names: Sequence[str], batch_rows: int) -> Iterator[pl.DataFrame]:
    """Yield columns of a file and of its folders; a column that the file lacks is null."""
    try:
        with pq.ParquetFile(part.path) as file:
            schema = file.schema_arrow
            present = [name for name in names if name in schema.names and name not in part.values]
            texts = [
                each.name for each in schema if pa.types.is_string(each.type) or pa.types.is_large_string(each.type)
            ]
        with pq.ParquetFile(part.path, read_dictionary=[name for name in texts if name in present]) as file:
            for batch in file.iter_batches(batch_rows, columns=present):
                _check_size(part.path, batch)
                frame = pl.DataFrame({"": pl.repeat(None, batch.num_rows, dtype=pl.String, eager=True)})
                if present:
                    frame = frame.hstack(pl.DataFrame(pl.from_arrow(pa.table(batch))))
                added = {name: part.values.get(name) for name in names if name not in present}
                yield frame.with_columns(pl.lit(value, pl.String).alias(name) for name, value in added.items())
    except _DAMAGE as error:
        raise _damaged(part.path) from error


def _check_size(path: Path, batch: Any) -> None:
    """Refuse a batch whose texts would take too much memory once expanded."""
    size = 0
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            longest = max((len(text) for text in column.dictionary.to_pylist() if text), default=0)
            size += longest * len(column)
    if size > _MAX_BATCH_BYTES:
        raise CompanyListError(
            f"{path} has very long texts: {len(batch):,} lines take {size >> 20:,} MB",
            "Check that the file is a list, or remove the column with the long texts",
        )


def _text(column: pl.Series) -> pl.Series:
    """Return a column as text; nested values become JSON."""
    if column.dtype == pl.Binary:
        return column.bin.encode("hex")
    if column.dtype == pl.Duration:
        return column.dt.to_string("iso")
    if column.dtype == pl.Time:
        return column.dt.to_string("%H:%M:%S%.f")
    if isinstance(column.dtype, pl.BaseExtension):
        return _text(column.ext.storage())
    if column.dtype.is_nested():
        # Polars panics on bytes inside nested values.
        texts = [None if value is None else _json(value) for value in column.to_list()]
        return pl.Series(column.name, texts, pl.String)
    return column.cast(pl.String)


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def _letter(kind: Any) -> str:
    """Return the letter of a type, as in `TextTable.has_kinds`."""
    if pa.types.is_boolean(kind):
        return "b"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "n"
    is_local = pa.types.is_timestamp(kind) and kind.tz is None
    return "d" if is_local or pa.types.is_date(kind) or pa.types.is_time(kind) else "s"


def _type_name(kind: Any) -> str:
    """Return the DuckDB type to which texts of an Arrow type can be cast without loss; empty if there is none."""
    is_exact = _letter(kind) != "s" or pa.types.is_timestamp(kind)
    is_exact &= not (pa.types.is_float16(kind) or pa.types.is_decimal256(kind))  # DuckDB has neither
    return str(duckdb.from_arrow(pa.schema({"": kind}).empty_table()).types[0]) if is_exact else ""


def _why_unusable(path: Path, column: Any) -> tuple[str, str] | None:
    """Return why a column cannot hold company numbers, with the next step; None if it can."""
    kind = column.type
    if kind in {pa.float32(), pa.float16()}:
        return (
            f"{path}: column {column.name!r} is {kind}, which holds only 7 digits: the last digits are lost",
            "Export the column as text",
        )
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"{path}: column {column.name!r} is {kind}, not text", "Export the column as text"
    return None


def _damaged(path: Path) -> CompanyListError:
    return CompanyListError(f"{path} is a damaged Parquet file", "Copy or export it again")
