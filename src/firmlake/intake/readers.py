"""Open any list file as a table; its content, not its name, decides which reader is used.

A small file may unfold to gigabytes. So only text, which does not unfold, and what proves small are read in this
process. Everything else is read in a guarded one, with limits of memory and of time and without the token in its
environment; its rows are read from the Parquet file that it leaves.
"""

from __future__ import annotations

import lzma
import re
import shutil
import signal
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

from firmlake.core.child import limit_process, run_guarded, serve
from firmlake.core.errors import CompanyListError, first_line
from firmlake.core.settings import IntakeSettings
from firmlake.core.sql import quote_name, quote_text
from firmlake.intake.table import ROWS, Reading, StoredRows, Table, TableInfo, TooLargeError, sample_of, too_large
from firmlake.intake.text import GZIP, open_text
from firmlake.intake.workbook import list_others, list_xlsx, open_workbook

_Format = Literal["text", "xlsx", "workbook", "parquet", "folder", "zip"]
"""`workbook` is any workbook but XLSX; `zip` is an archive with one file."""

_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_PARQUET: Final = b"PAR1"
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_NO_LIST: Final = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"%PDF": "a PDF document",
    b"{\\rtf": "an RTF document",
    b"BZh91AY&SY": "a bzip2 archive",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"\xfd7zXZ": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a Zstandard archive",
    b"ARROW1": "an Arrow file",
    b"SQLite format 3": "an SQLite database",
}
"""First bytes of files that are mistaken for lists."""

_NO_SPREADSHEET: Final = {
    "Index/Document.iwa": "a document of Numbers, Pages or Keynote",
    "word/document.xml": "a Word document",
    "ppt/presentation.xml": "a PowerPoint presentation",
    "content.xml": "an OpenDocument file without a spreadsheet",
}
"""Parts of archives that are mistaken for lists."""

_ARCHIVE_ERRORS: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, OSError, ValueError,
)  # fmt: skip
_LOCKS: Final = ("~$", ".~lock.")
"""How the names of files begin that Excel and LibreOffice keep beside a workbook while it is open."""

_MAX_ARCHIVES: Final = 3

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

_MEMORY_SIGNS: Final = (b"memory", b"alloc", b"pyobject pointer is null", b"new thread", b"temporarily unavailable")
"""What libraries print, in whatever case, that cannot allocate: Rust, C++, Arrow, Polars while it makes Python objects,
and those whose next thread finds no room for its stack."""

_KILLED: Final = (-signal.SIGABRT, -signal.SIGBUS, -signal.SIGKILL, -signal.SIGSEGV)
"""What a library ends with that does not check an allocation, without a word; the kernel kills a process too."""

_GROUP_BYTES: Final = 16 * 2**20

_BATCH_ROWS: Final = 16_384
_DUCKDB_MEMORY: Final = "800MB"
_NUMBER: Final = re.compile(r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\)")
_MOMENT: Final = re.compile(r"DATE|TIME(_NS)?|TIMESTAMP(_S|_MS|_NS)?")
_NESTED: Final = re.compile(r"(STRUCT|MAP|UNION|VARIANT)\b.*|.*\]", re.DOTALL)
_WITH_ZONE: Final = "TIMESTAMP WITH TIME ZONE"
_MILLISECONDS: Final = "SELECT DISTINCT name FROM parquet_schema(?) WHERE converted_type = 'TIMESTAMP_MILLIS'"
"""Columns that DuckDB reads in microseconds, and that come back as they were."""

_SAVE_AS_CSV: Final = "Check that it is a list; if it is, save it as CSV"
_COPY_AGAIN: Final = "Copy or export it again"


class _Order(msgspec.Struct):
    """What the guarded process is to read."""

    path: str
    stored: str
    options: IntakeSettings
    synonyms: dict[str, frozenset[str]]
    memory_bytes: int
    seconds: int
    lines: int


def open_table(reading: Reading) -> Table:
    """Open a list of any format as a table.

    It may be CSV, TSV, plain text or NDJSON (also compressed with gzip), a workbook (XLSX, XLS, XLSB, ODS), Parquet, a
    folder of Parquet files, or a ZIP archive with one of these.

    Raises:
        CompanyListError: The file cannot be used; the message names the file and, if possible, the line. Follow the
            next step.
    """
    path, options, *_ = reading
    kind = find_format(path, options)
    size = 0 if kind == "folder" else path.stat().st_size
    is_plain = kind == "text" and not _first_bytes(path).startswith(GZIP)
    if is_plain or kind == "folder" or (kind == "parquet" and size > _PLAIN_BYTES):
        return _open(reading, kind)
    if size <= _SMALL_BYTES and kind not in ("workbook", "zip"):  # calamine may hang, abort or fill memory
        with suppress(TooLargeError):
            return _open(reading._replace(max_cells=_SMALL_CELLS, max_characters=_SMALL_CHARACTERS), kind)
    return _open_guarded(reading)


def find_format(path: Path, options: IntakeSettings) -> _Format:
    """Return the format of a list. Everything that is not a known binary format is text, including gzip.

    Raises:
        CompanyListError: The file is missing, unreadable, empty, truncated, damaged, encrypted or not a list. Correct
            the path, or save the list in another format.
    """
    if path.is_dir():
        return "folder"
    if path.name.startswith(_LOCKS):
        raise CompanyListError(
            f"{path} only marks that a workbook is open in a spreadsheet program", "Name the workbook itself"
        )
    start = _first_bytes(path)
    for magic, kind in _NO_LIST.items():
        if start.startswith(magic):
            raise _no_list(path, kind)
    if start[8:12] == b"DUCK":
        raise CompanyListError(
            f"{path} is a DuckDB database, not a list",
            "Keep this file as LIST, and give a query that returns the list: --sql 'FROM my_table'",
        )
    if start.startswith(_OLE):
        if _ENCRYPTED in path.read_bytes():
            raise _protected(path)
        return "workbook"
    if start.startswith(_PARQUET):
        with path.open("rb") as file:
            file.seek(-len(_PARQUET), 2)
            if file.tell() < 2 * len(_PARQUET) or file.read() != _PARQUET:
                raise CompanyListError(f"{path} is a truncated Parquet file: its end is missing", _COPY_AGAIN)
        return "parquet"
    return _find_archive(path, options) if start.startswith(_ZIP) else "text"


def open_parquet(reading: Reading) -> Table:
    """Open a Parquet file, or the Parquet files below a folder as one list, in the order of their paths.

    Folders named `key=value` add a column, as Hive and DuckDB write them. Rows are numbered from 1 across all files.

    Raises:
        CompanyListError: There is no Parquet file, one is damaged, or they hold more than the settings allow.
    """
    path = reading.path
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
        unusable={n: why for n, (name, kind) in enumerate(types.items()) if (why := _why_unusable(path, name, kind))},
        types={n: kind for n, kind in enumerate(types.values()) if _letter(kind) != "s" or kind == _WITH_ZONE},
    )


def _first_bytes(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise CompanyListError(
                f"{path} is not a regular file", f"Read it as standard input: `firmlake run - < {quote(str(path))}`"
            )
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise CompanyListError(
            f"{path} cannot be read: {error.strerror}", "Check the path and its permissions"
        ) from error
    if not start:
        raise CompanyListError(f"{path} is empty", "Export the list again")
    return start


def _no_list(path: Path, kind: str) -> CompanyListError:
    return CompanyListError(f"{path} is {kind}, not a list", "Save the list as CSV or XLSX")


def _protected(path: Path) -> CompanyListError:
    return CompanyListError(f"{path} is protected with a password", "Save it without a password")


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except _ARCHIVE_ERRORS as error:
        raise CompanyListError(f"{path} is a truncated or damaged ZIP or XLSX file", _COPY_AGAIN) from error


def _find_archive(path: Path, options: IntakeSettings) -> _Format:
    limit = options.max_inflated_megabytes
    with _opened(path) as archive:
        parts, names = archive.infolist(), archive.namelist()
        if sum(part.file_size for part in parts) > limit << 20:
            raise too_large(path, limit, "MB", "intake.max_inflated_megabytes")
        if any(part.flag_bits & 1 for part in parts):
            raise _protected(path)
        if "xl/workbook.xml" in names:
            return "xlsx"
        if "xl/workbook.bin" in names or ("mimetype" in names and b"spreadsheet" in archive.open("mimetype").read(100)):
            return "workbook"
        for part, kind in _NO_SPREADSHEET.items():
            if part in names and len(names) > 1:
                raise _no_list(path, kind)
        if len(_members_of(archive)) != 1:
            raise CompanyListError(
                f"{path} is a ZIP archive with {len(names)} files and no XLSX workbook", "Unpack it and name one file"
            )
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
        raise CompanyListError(f"{path} is damaged in {damaged}", _COPY_AGAIN)


def _unpack(path: Path, target: Path, archives: int, shown: str) -> tuple[Path, str]:
    """Unpack the only file of an archive; return it, and how messages show it."""
    if archives > _MAX_ARCHIVES:
        raise CompanyListError(f"{path} is an archive within archives", "Unpack it, and name the list itself")
    _check_archive(path)
    with zipfile.ZipFile(path) as archive:
        [member] = _members_of(archive)
        with archive.open(member) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, 2**20)
    return target, f"{shown} ({member.filename[:100]})"


def _open(reading: Reading, kind: _Format) -> Table:
    """Open a file that is no archive in this process."""
    path, options, *_ = reading
    if kind in ("parquet", "folder"):
        table = open_parquet(reading)
    elif kind == "text":
        table = open_text(reading)
    else:
        if _first_bytes(path).startswith(_ZIP):
            _check_archive(path)
        read = _open_xlsx(reading) if kind == "xlsx" else None
        table = read or open_workbook(reading, list_others)
    if table.width > options.max_columns:
        raise too_large(path, options.max_columns, "columns", "intake.max_columns")
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
    """Read a file in a process with limits, and open the Parquet file that it leaves.

    Raises:
        CompanyListError: The file cannot be used, or takes too much memory or time.
    """
    path, options, synonyms, *_ = reading
    share = max(1, -(-path.stat().st_size // _PLAIN_BYTES))
    stored = StoredRows()
    limits = (share * _MEMORY_BYTES, share * _SECONDS, share * _LINES)
    info = _run(path, _Order(str(path), str(stored.file), options, dict(synonyms), *limits))
    sample = sample_of(next(stored.batches(), ROWS.to_frame()))
    return Table(**msgspec.structs.asdict(info), sample=sample, rows=stored.batches)


def _run(path: Path, order: _Order) -> TableInfo:
    content, folder = msgspec.json.encode(order), Path(order.stored).parent
    try:
        child = run_guarded("firmlake.intake.readers", content, seconds=10 * order.seconds, folder=folder)
    except TimeoutError:
        message = f"{path} takes more than {order.seconds} seconds to read"
        raise CompanyListError(message, _SAVE_AS_CSV) from None
    if child.returncode == 0:
        return msgspec.json.decode(child.stdout, type=TableInfo)
    if child.returncode in _KILLED or any(sign in child.stderr.lower() for sign in _MEMORY_SIGNS):
        raise CompanyListError(
            f"{path} takes more than {order.memory_bytes >> 20:,} MB of memory to read", _SAVE_AS_CSV
        )
    raise CompanyListError(
        f"{path} cannot be read: the reader of its format failed", "Open it in a spreadsheet and save it again as XLSX"
    )


def _read(content: bytes) -> bytes:
    """Read a file in a guarded process: write its rows to a file, and return the rest."""
    order = msgspec.json.decode(content, type=_Order)
    limit_process(seconds=order.seconds, memory_bytes=order.memory_bytes)
    path, shown = Path(order.path), order.path
    try:
        kind, archives = find_format(path, order.options), 0
        while kind == "zip":
            archives += 1
            path, shown = _unpack(path, Path(f"{order.stored}.{archives}"), archives, shown)
            kind = find_format(path, order.options)
        table = _open(Reading(path, order.options, order.synonyms), kind)
        _store(Path(order.stored), table, order)
    except CompanyListError as error:
        message, next_step = (text.replace(str(path), shown) for text in (error.message, error.next_step))
        raise CompanyListError(message, next_step) from error
    return msgspec.json.encode(TableInfo(**{name: getattr(table, name) for name in TableInfo.__struct_fields__}))


def _store(path: Path, table: Table, order: _Order) -> None:
    count = 0
    with pq.ParquetWriter(path, ROWS.to_frame().to_arrow().schema, compression="zstd") as writer:
        for batch in table.rows(None):
            count += batch.height
            if count > order.lines:
                raise CompanyListError(
                    f"{order.path} unfolds to more than {order.lines:,} lines, too many for a list of its size",
                    _SAVE_AS_CSV,
                )
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
        raise CompanyListError(f"{path} takes more than {_DUCKDB_MEMORY} of memory to read", _SAVE_AS_CSV) from error
    except duckdb.Error as error:
        raise CompanyListError(
            f"{path} is a damaged Parquet file, or cannot be read: {first_line(error)}", _COPY_AGAIN
        ) from error


def _check_size(connection: duckdb.DuckDBPyConnection, reading: Reading, files: Sequence[Path]) -> None:
    path, options, *_ = reading
    names = [str(file) for file in files]
    [rows] = connection.execute("SELECT sum(num_rows) FROM parquet_file_metadata(?)", [names]).fetchall()[0]
    measured = "SELECT sum(total_uncompressed_size) FROM parquet_metadata(?)"
    [size] = connection.execute(measured, [names]).fetchall()[0]
    limit = options.max_inflated_megabytes
    if (rows or 0) > options.max_rows:
        raise too_large(path, options.max_rows, "lines", "intake.max_rows")
    if (size or 0) > limit << 20 or (rows or 0) * (size or 0) > reading.max_characters:
        raise too_large(path, limit, "MB", "intake.max_inflated_megabytes")


def _parquet_rows(
    path: Path, rows: str, types: dict[str, str], positions: Collection[int] | None, batch_rows: int = _BATCH_ROWS
) -> Iterator[pl.DataFrame]:
    chosen = range(len(types)) if positions is None else positions
    texts = [_parquet_text(name, kind) if n in chosen else "NULL" for n, (name, kind) in enumerate(types.items())]
    letters = quote_text("".join(map(_letter, types.values())))
    query = f"SELECT [{', '.join(texts)}]::VARCHAR[] AS cells, {letters} AS kinds FROM {rows}"  # noqa: S608 - quoted
    start = 1
    with _database(path) as connection:
        for batch in connection.sql(query).to_arrow_reader(batch_rows):
            frame = pl.DataFrame(pl.from_arrow(batch))
            nothing, line = pl.lit(None, pl.String), pl.int_range(start, start + pl.len())
            yield frame.select("cells", "kinds", line=line, defect=nothing, text=nothing).select(list(ROWS))
            start += frame.height


def _parquet_text(name: str, kind: str) -> str:
    """Return the expression for a column as text: bytes in hexadecimal, nested values as JSON."""
    column = quote_name(name)
    if kind == "BLOB":
        return f"lower(hex({column}))"
    return f"to_json({column})::VARCHAR" if _NESTED.fullmatch(kind) else f"{column}::VARCHAR"


def _letter(kind: str) -> str:
    """Return the letter of a DuckDB type, as in `ROWS`."""
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


if __name__ == "__main__":
    sys.exit(serve(_read))
