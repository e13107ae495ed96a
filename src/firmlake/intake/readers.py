"""Open any list file as a table; its content, not its name, decides which reader is used.

A small file may unfold to gigabytes. So only text, which does not unfold, and what proves small are read in this
process. Everything else is read in a guarded one, with limits of memory and of time and without the token in its
environment; its rows are read from the Parquet file that it leaves.
"""

from __future__ import annotations

import lzma
import re
import shutil
import sys
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Final, Literal

import duckdb
import msgspec
import polars as pl
import pyarrow.parquet as pq

from firmlake.core.errors import CompanyListError, first_line
from firmlake.core.process import limit_process, run_guarded, serve
from firmlake.core.settings import IntakeSettings
from firmlake.core.sql import quote_name, quote_text
from firmlake.intake.refusals import TooLargeError, refusal, shown_as
from firmlake.intake.table import ROWS, Reading, StoredRows, Table, TableInfo, sample_of
from firmlake.intake.text import GZIP, open_text
from firmlake.intake.workbook import list_others, list_xlsx, open_workbook

_Format = Literal["text", "gzip", "xlsx", "workbook", "parquet", "folder", "zip"]
"""`gzip` is compressed text, `workbook` any workbook but XLSX, and `zip` an archive with one file."""

_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_PARQUET: Final = b"PAR1"
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_ARCHIVE_ERRORS: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, OSError, ValueError,
)  # fmt: skip
_SMALL_BYTES: Final = 32 * 2**10
"""A file up to this size is first read in this process, up to the next limits; ZIP shrinks at most a thousandfold."""

_SMALL_CELLS: Final = 200_000
_SMALL_CHARACTERS: Final = 32 * 2**20
_PLAIN_BYTES: Final = 10 * 2**20
_MEMORY_BYTES: Final = 700 * 2**20
_SECONDS: Final = 60
"""Memory and processor time for each 10 MB of a file; with the interpreter and its libraries, 1 GB."""

_LINES: Final = 4_000_000
"""Lines for each 10 MB of a file, at 3 bytes each: this process takes 100 bytes and 10 µs for each."""

_GROUP_BYTES: Final = 16 * 2**20

_BATCH_ROWS: Final = 16_384
_DUCKDB_MEMORY: Final = "800MB"

_KINDS: Final = {
    "b": "BOOLEAN",
    "n": r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\)",
    "d": "DATE|TIME(_NS)?|TIMESTAMP(_S|_MS|_NS)?",
}
"""Patterns of DuckDB types by the letter of their cells, as in `ROWS`; columns of other types are text."""

_WITH_ZONE: Final = "TIMESTAMP WITH TIME ZONE"
_ROUNDED: Final = "FLOAT"
_NESTED: Final = re.compile(r"(STRUCT|MAP|UNION|VARIANT)\b.*|.*\]", re.DOTALL)
_MILLISECONDS: Final = "SELECT DISTINCT name FROM parquet_schema(?) WHERE converted_type = 'TIMESTAMP_MILLIS'"
"""Columns that DuckDB reads in microseconds, and that come back as they were."""

_SIZES: Final = (
    "SELECT coalesce((SELECT sum(num_rows) FROM parquet_file_metadata(?)), 0), "
    "coalesce((SELECT sum(total_uncompressed_size) FROM parquet_metadata(?)), 0)"
)


class _Order(msgspec.Struct):
    """What the guarded process is to read, and how many times the limits for 10 MB it may take."""

    path: str
    stored: str
    options: IntakeSettings
    synonyms: dict[str, frozenset[str]]
    share: int


def open_table(reading: Reading) -> Table:
    """Open a list of any format as a table; CompanyListError names the file and, if possible, the line.

    It may be CSV, TSV, plain text or NDJSON (also compressed with gzip), a workbook (XLSX, XLS, XLSB, ODS), Parquet, a
    folder of Parquet files, or a ZIP archive with one of these.
    """
    path, options, *_ = reading
    kind = find_format(path, options)
    size = 0 if kind == "folder" else path.stat().st_size
    if kind in ("text", "folder") or (kind == "parquet" and size > _PLAIN_BYTES):
        return _open(reading, kind)
    if size <= _SMALL_BYTES and kind not in ("workbook", "zip"):  # calamine may hang, abort or fill memory
        with suppress(TooLargeError):
            return _open(reading._replace(max_cells=_SMALL_CELLS, max_characters=_SMALL_CHARACTERS), kind)
    return _open_guarded(reading)


def find_format(path: Path, options: IntakeSettings) -> _Format:
    """Return the format of a list. Everything that is not a known binary format is text.

    Raises CompanyListError if the file is missing, unreadable, empty, truncated, damaged, encrypted or not a list.
    """
    if path.is_dir():
        return "folder"
    start = _first_bytes(path)
    if start[8:12] == b"DUCK":
        raise refusal("database", path=path)
    if start.startswith(_OLE):
        if _ENCRYPTED in path.read_bytes():
            raise refusal("protected", path=path)
        return "workbook"
    if start.startswith(_PARQUET):
        return "parquet"
    if start.startswith(GZIP):
        return "gzip"
    return _find_archive(path, options) if start.startswith(_ZIP) else "text"


def open_parquet(reading: Reading) -> Table:
    """Open a Parquet file, or the Parquet files below a folder as one list, in the order of their paths.

    Folders named `key=value` add a column, as Hive and DuckDB write them. Rows are numbered from 1 across all files.
    """
    path = reading.path
    files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    files = [file for file in files if file == path or not file.name.startswith((".", "_"))]
    if not files:
        raise refusal("folder", path=path)
    within = {part for file in files for part in file.relative_to(path).parts[:-1] if "=" in part}
    rows = (
        f"read_parquet([{', '.join(quote_text(str(file)) for file in files)}], union_by_name = true, "
        f"hive_partitioning = {bool(within)}, hive_types_autocast = false)"
    )
    with _database(path) as connection:
        _check_size(connection, reading, files)
        described = connection.execute(f"DESCRIBE FROM {rows}").fetchall()
        in_milliseconds = connection.execute(_MILLISECONDS, [[str(file) for file in files]]).fetchall()
    above = {part.partition("=")[0] for part in path.parts if "=" in part} if within else set()
    types = {name: kind for name, kind, *_ in described if name not in above}
    types |= {name: "TIMESTAMP_MS" for (name,) in in_milliseconds if types.get(name) == "TIMESTAMP"}
    batches = partial(_parquet_rows, path, rows, types)
    return Table(
        names=tuple(types),
        width=len(types),
        sample=sample_of(next(batches(None, 1_000), ROWS.to_frame())),
        rows=batches,
        unusable={
            n: (
                f"{path}: column {name!r} is a 32-bit float, which has lost the last digits",
                "Export the column as text",
            )
            for n, (name, kind) in enumerate(types.items())
            if kind == _ROUNDED
        },
        types={n: kind for n, kind in enumerate(types.values()) if _letter(kind) != "s" or kind == _WITH_ZONE},
    )


def _first_bytes(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise refusal("no_file", path=path, quoted=quote(str(path)))
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise refusal("unreadable", path=path, problem=error.strerror) from error
    if not start:
        raise refusal("empty", path=path)
    return start


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except _ARCHIVE_ERRORS as error:
        raise refusal("damaged_archive", path=path) from error


def _find_archive(path: Path, options: IntakeSettings) -> _Format:
    limit = options.max_inflated_megabytes
    with _opened(path) as archive:
        parts, names = archive.infolist(), archive.namelist()
        if sum(part.file_size for part in parts) > limit << 20:
            raise refusal("max_inflated_megabytes", TooLargeError, path=path, limit=limit)
        if any(part.flag_bits & 1 for part in parts):
            raise refusal("protected", path=path)
        if "xl/workbook.xml" in names:
            return "xlsx"
        if "xl/workbook.bin" in names or ("mimetype" in names and b"spreadsheet" in archive.open("mimetype").read(100)):
            return "workbook"
        if len(_members_of(archive)) != 1:
            raise refusal("many_files", path=path, count=len(names))
    return "zip"


def _members_of(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the files of an archive, without those that macOS adds."""
    files = [part for part in archive.infolist() if not part.is_dir() and not part.filename.startswith("__MACOSX/")]
    return [part for part in files if not part.filename.endswith(".DS_Store")]


def _check_archive(path: Path) -> None:
    """Check every part of an archive, because a damaged worksheet may yield wrong numbers."""
    with _opened(path) as archive:
        damaged = archive.testzip()
    if damaged:
        raise refusal("damaged_part", path=path, damaged=damaged)


def _unpack(path: Path, target: Path) -> str:
    """Unpack the only file of an archive, and return its name."""
    _check_archive(path)
    with zipfile.ZipFile(path) as archive:
        [member] = _members_of(archive)
        with archive.open(member) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, 2**20)
    return member.filename[:100]


def _open(reading: Reading, kind: _Format) -> Table:
    """Open a file that is no archive in this process."""
    path, options, *_ = reading
    if kind in ("parquet", "folder"):
        table = open_parquet(reading)
    elif kind in ("text", "gzip"):
        table = open_text(reading)
    else:
        if _first_bytes(path).startswith(_ZIP):
            _check_archive(path)
        read = _open_xlsx(reading) if kind == "xlsx" else None
        table = read or open_workbook(reading, list_others)
    if table.width > options.max_columns:
        raise refusal("max_columns", TooLargeError, path=path, limit=options.max_columns)
    return table


def _open_xlsx(reading: Reading) -> Table | None:
    """Open XLSX; None if openpyxl does not understand it, so that calamine must, in a guarded process."""
    try:
        return open_workbook(reading, list_xlsx)
    except (CompanyListError, MemoryError):
        raise
    except Exception as error:
        if reading.max_characters < sys.maxsize:
            raise TooLargeError(f"{reading.path} is read in a guarded process", "Report this as a bug") from error
        return None


def _open_guarded(reading: Reading) -> Table:
    """Read a file in a process with limits, and open the Parquet file that it leaves."""
    path, options, synonyms, *_ = reading
    stored, share = StoredRows(), max(1, -(-path.stat().st_size // _PLAIN_BYTES))
    order = msgspec.json.encode(_Order(str(path), str(stored.file), options, dict(synonyms), share))
    seconds = share * _SECONDS
    try:
        child = run_guarded("firmlake.intake.readers", order, seconds=10 * seconds, folder=stored.folder)
    except TimeoutError:
        raise refusal("slow", path=path, seconds=seconds) from None
    if child.returncode:
        raise refusal("large", path=path, megabytes=share * _MEMORY_BYTES >> 20)
    info = msgspec.json.decode(child.stdout, type=TableInfo)
    sample = sample_of(next(stored.batches(), ROWS.to_frame()))
    return Table(**msgspec.structs.asdict(info), sample=sample, rows=stored.batches)


def _read(content: bytes) -> bytes:
    """Read a file in a guarded process: write its rows to a file, and return the rest."""
    order = msgspec.json.decode(content, type=_Order)
    limit_process(seconds=order.share * _SECONDS, memory_bytes=order.share * _MEMORY_BYTES)
    path, name = Path(order.path), order.path
    if find_format(path, order.options) == "zip":
        path = Path(f"{order.stored}.list")
        name = f"{order.path} ({_unpack(Path(order.path), path)})"
    with shown_as(path, name):
        kind = find_format(path, order.options)
        if kind == "zip":
            raise refusal("nested_archive", path=path)
        table = _open(Reading(path, order.options, order.synonyms), kind)
        _store(Path(order.stored), table, order)
    return msgspec.json.encode(TableInfo(**{name: getattr(table, name) for name in TableInfo.__struct_fields__}))


def _store(path: Path, table: Table, order: _Order) -> None:
    count, limit = 0, order.share * _LINES
    with pq.ParquetWriter(path, ROWS.to_frame().to_arrow().schema, compression="zstd") as writer:
        for batch in table.rows(None):
            count += batch.height
            if count > limit:
                raise refusal("many_lines", path=order.path, limit=limit)
            rows = max(1, batch.height * _GROUP_BYTES // max(1, int(batch.estimated_size())))
            for part in batch.iter_slices(rows):
                writer.write_table(part.to_arrow())


@contextmanager
def _database(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield an empty database in memory; errors of reading name the list."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": _DUCKDB_MEMORY,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    try:
        with duckdb.connect(config=config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
    except duckdb.OutOfMemoryException as error:
        raise refusal("large_parquet", path=path, memory=_DUCKDB_MEMORY) from error
    except duckdb.Error as error:
        raise refusal("damaged_parquet", path=path, problem=first_line(error)) from error


def _check_size(connection: duckdb.DuckDBPyConnection, reading: Reading, files: Sequence[Path]) -> None:
    path, options, *_ = reading
    names, limit = [str(file) for file in files], options.max_inflated_megabytes
    rows, size = connection.execute(_SIZES, [names, names]).fetchall()[0]
    if rows > options.max_rows:
        raise refusal("max_rows", TooLargeError, path=path, limit=options.max_rows)
    if size > limit << 20 or rows * size > reading.max_characters:
        raise refusal("max_inflated_megabytes", TooLargeError, path=path, limit=limit)


def _parquet_rows(
    path: Path, rows: str, types: dict[str, str], positions: Collection[int] | None, batch_rows: int = _BATCH_ROWS
) -> Iterator[pl.DataFrame]:
    chosen = range(len(types)) if positions is None else positions
    texts = [
        (f"to_json({name})" if _NESTED.fullmatch(kind) else name) + "::VARCHAR" if n in chosen else "NULL"
        for n, (name, kind) in enumerate((quote_name(name), kind) for name, kind in types.items())
    ]
    letters = quote_text("".join(map(_letter, types.values())))
    query = f"SELECT [{', '.join(texts)}]::VARCHAR[] AS cells, {letters} AS kinds FROM {rows}"  # noqa: S608 - quoted
    start = 1
    with _database(path) as connection:
        for batch in connection.sql(query).to_arrow_reader(batch_rows):
            frame = pl.DataFrame(pl.from_arrow(batch))
            nothing, line = pl.lit(None, pl.String), pl.int_range(start, start + pl.len())
            yield frame.select("cells", "kinds", line=line, defect=nothing, text=nothing).select(list(ROWS))
            start += frame.height


def _letter(kind: str) -> str:
    return next((letter for letter, pattern in _KINDS.items() if re.fullmatch(pattern, kind)), "s")


if __name__ == "__main__":
    sys.exit(serve(_read))
