"""Read Parquet files, and folders of them, as a table. DuckDB reads them, so that damage is an error, never a panic."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import duckdb
import polars as pl
import pyarrow as pa

from firmlake.core.errors import CompanyListError, first_line
from firmlake.core.settings import IntakeSettings
from firmlake.core.sql import quote_name, quote_text
from firmlake.intake.detect import too_large
from firmlake.intake.table import KINDS, SAMPLE_ROWS, TextTable, field

_BATCH_ROWS: Final = 16_384
_MEMORY: Final = "800MB"
_NUMBER: Final = re.compile(r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\)")
_MOMENT: Final = re.compile(r"DATE|TIME(_NS)?|TIMESTAMP(_S|_MS|_NS)?")
_NESTED: Final = re.compile(r"(STRUCT|MAP|UNION|VARIANT)\b.*|.*\]", re.DOTALL)
_MILLISECONDS: Final = "SELECT DISTINCT name FROM parquet_schema(?) WHERE converted_type = 'TIMESTAMP_MILLIS'"
"""Columns that DuckDB reads in microseconds, and that come back as they were."""

_WITH_ZONE: Final = "TIMESTAMP WITH TIME ZONE"


def open_parquet(path: Path, options: IntakeSettings, max_characters: int = sys.maxsize) -> TextTable:
    """Open a Parquet file, or the Parquet files below a folder as one list, in the order of their paths.

    Folders named `key=value` add a column, as Hive and DuckDB write them. Rows are numbered from 1 across all files.

    Args:
        path: The file or folder.
        options: Limits.
        max_characters: Refuse files that might hold more, if each cell held the longest text possible.

    Raises:
        CompanyListError: There is no Parquet file, one is damaged, or they hold more than the settings allow.
    """
    files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    files = [file for file in files if file == path or not file.name.startswith((".", "_"))]
    if not files:
        raise CompanyListError(f"{path} is a folder without Parquet files (*.parquet)", "Name one file")
    within = {part for file in files for part in file.relative_to(path).parts[:-1] if "=" in part}
    rows = (
        f"read_parquet([{', '.join(quote_text(str(file)) for file in files)}], union_by_name = true, "
        f"hive_partitioning = {bool(within)}, hive_types_autocast = false)"
    )
    with _database(path) as connection:
        _check_size(connection, path, files, options, max_characters)
        described = connection.execute(f"DESCRIBE FROM {rows}").fetchall()
        in_milliseconds = connection.execute(_MILLISECONDS, [[str(file) for file in files]]).fetchall()
    above = {part.partition("=")[0] for part in path.parts if "=" in part} if within else set()
    types = {name: kind for name, kind, *_ in described if name not in above}
    types |= {name: "TIMESTAMP_MS" for (name,) in in_milliseconds if types.get(name) == "TIMESTAMP"}
    if len(types) > options.max_columns:
        raise too_large(path, options.max_columns, "columns", "intake.max_columns")
    batches = partial(_batches, path, rows, types)
    first = next(batches(range(len(types)), SAMPLE_ROWS), pl.DataFrame(schema={field(0): pl.String}))
    texts = pl.concat_list(pl.col(r"^field_\d+$").fill_null(""))
    return TextTable(
        tuple(types),
        len(types),
        0,
        first.select(fields=texts),
        batches,
        unusable={n: why for n, (name, kind) in enumerate(types.items()) if (why := _why_unusable(path, name, kind))},
        has_kinds=True,
        types={n: kind for n, kind in enumerate(types.values()) if _letter(kind) != "s" or kind == _WITH_ZONE},
    )


@contextmanager
def _database(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield an empty database in memory; errors of reading name the list."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": _MEMORY,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    try:
        with duckdb.connect(config=config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
    except duckdb.OutOfMemoryException as error:
        raise CompanyListError(
            f"{path} takes more than {_MEMORY} of memory to read", "Check that it is a list; if it is, save it as CSV"
        ) from error
    except duckdb.Error as error:
        raise CompanyListError(
            f"{path} is a damaged Parquet file, or cannot be read: {first_line(error)}", "Copy or export it again"
        ) from error


def _check_size(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    files: Sequence[Path],
    options: IntakeSettings,
    max_characters: int,
) -> None:
    names = [str(file) for file in files]
    counted = "SELECT sum(num_rows) FROM parquet_file_metadata(?)"
    [row_count] = connection.execute(counted, [names]).fetchall()[0]
    if (row_count or 0) > options.max_rows:
        raise too_large(path, options.max_rows, "lines", "intake.max_rows")
    measured = "SELECT sum(total_uncompressed_size) FROM parquet_metadata(?)"
    [byte_count] = connection.execute(measured, [names]).fetchall()[0]
    limit = options.max_inflated_megabytes
    if (byte_count or 0) > limit << 20 or (row_count or 0) * (byte_count or 0) > max_characters:
        raise too_large(path, limit, "MB", "intake.max_inflated_megabytes")


def _batches(
    path: Path, rows: str, types: dict[str, str], positions: Sequence[int], batch_rows: int = _BATCH_ROWS
) -> Iterator[pl.DataFrame]:
    names = list(types)
    texts = [f"{_as_text(names[n], types[names[n]])} AS {field(n)}" for n in positions]
    letters = quote_text("".join(map(_letter, types.values())))
    query = f"SELECT {', '.join([*texts, f'{letters} AS {KINDS}'])} FROM {rows}"  # noqa: S608 - names are quoted
    start = 1
    with _database(path) as connection:
        for batch in connection.sql(query).to_arrow_reader(batch_rows):
            frame = pl.DataFrame(pl.from_arrow(pa.table(batch)))
            nothing = pl.lit(None, pl.String)
            yield frame.with_columns(line=pl.int_range(start, start + pl.len()), defect=nothing, text=nothing)
            start += frame.height


def _as_text(name: str, kind: str) -> str:
    """Return the expression for a column as text: bytes in hexadecimal, nested values as JSON."""
    column = quote_name(name)
    if kind == "BLOB":
        return f"lower(hex({column}))"
    return f"to_json({column})::VARCHAR" if _NESTED.fullmatch(kind) else f"{column}::VARCHAR"


def _letter(kind: str) -> str:
    """Return the letter of a DuckDB type, as in `TextTable.has_kinds`."""
    if kind == "BOOLEAN":
        return "b"
    return "n" if _NUMBER.fullmatch(kind) else "d" if _MOMENT.fullmatch(kind) else "s"


def _why_unusable(path: Path, name: str, kind: str) -> tuple[str, str] | None:
    """Return why a column cannot hold company numbers, with the next step; None if it can."""
    if kind == "FLOAT":
        return (
            f"{path}: column {name!r} is a 32-bit float, which holds only 7 digits: the last digits are lost",
            "Export the column as text",
        )
    if kind == "BLOB" or _NESTED.fullmatch(kind):
        return f"{path}: column {name!r} is {kind}, not text", "Export the column as text"
    return None
