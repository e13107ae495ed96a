"""Open any list file as a table; the content decides which reader is used.

A small file may unfold to gigabytes. So only text, which does not unfold, and what proves small are read in this
process. Everything else is read in a guarded one, with limits of memory and of time and without the token in its
environment; what it found is read from the Parquet file that it leaves.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, Final

import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from firmlake.core.child import limit_process, run_guarded
from firmlake.core.errors import CompanyListError, first_line
from firmlake.core.settings import IntakeSettings
from firmlake.core.sql import quote_name, quote_text
from firmlake.intake.columns import Synonyms
from firmlake.intake.detect import GZIP, TooLargeError, check_archive, find_format, only_member, too_large
from firmlake.intake.table import BLANK, KINDS, SAMPLE_ROWS, TAIL, Formats, TextTable, field
from firmlake.intake.text import TextFile, beginning, open_delimited, open_text, read_lines
from firmlake.intake.workbook import Limits, list_others, list_xlsx, open_workbook

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

_BATCH_BYTES: Final = 16 * 2**20
_MAX_ARCHIVES: Final = 3
_TABLE: Final = "table.parquet"
_REFUSED: Final = 3
_OUT_OF_MEMORY: Final = 4


class _Folder:
    """A temporary folder that is removed when nothing refers to it: neither a table nor its batches."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="firmlake-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class _Order(msgspec.Struct):
    """What the guarded process is to read."""

    path: str
    folder: str
    options: IntakeSettings
    synonyms: dict[str, list[str]]
    memory_bytes: int
    seconds: int
    lines: int


class _Found(msgspec.Struct):
    """What the guarded process says of a table, whose rows are in a file; the attributes are those of `TextTable`."""

    names: tuple[str, ...] | None
    width: int
    header_count: int
    guesses: tuple[str, ...]
    unusable: dict[int, tuple[str, str]]
    delimiter: str
    has_kinds: bool
    types: dict[int, str]
    formats: dict[int, Formats]


_BATCH_CHARACTERS: Final = 8 * 2**20
_NO_OBJECT: Final = "not a JSON object: write one object on each line"

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])

_BATCH_ROWS: Final = 16_384
_MEMORY: Final = "800MB"
_NUMBER: Final = re.compile(r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\)")
_MOMENT: Final = re.compile(r"DATE|TIME(_NS)?|TIMESTAMP(_S|_MS|_NS)?")
_NESTED: Final = re.compile(r"(STRUCT|MAP|UNION|VARIANT)\b.*|.*\]", re.DOTALL)
_MILLISECONDS: Final = "SELECT DISTINCT name FROM parquet_schema(?) WHERE converted_type = 'TIMESTAMP_MILLIS'"
"""Columns that DuckDB reads in microseconds, and that come back as they were."""

_WITH_ZONE: Final = "TIMESTAMP WITH TIME ZONE"


def open_table(path: Path, options: IntakeSettings, synonyms: Synonyms) -> TextTable:
    """Open a list of any format as a table.

    Args:
        path: CSV, TSV, plain text or NDJSON (also compressed with gzip), a workbook (XLSX, XLS, XLSB, ODS), Parquet, a
            folder of Parquet files, or a ZIP archive with one of these.
        options: How to read the file.
        synonyms: Known header names by role.

    Raises:
        CompanyListError: The file cannot be used; the message names the file and, if possible, the line. Follow the
            next step.
    """
    kind = find_format(path, options)
    if kind == "folder" or (kind == "text" and not _is_compressed(path)):
        return _open(path, kind, options, synonyms, Limits(options.max_cells, sys.maxsize))
    size = path.stat().st_size
    if kind == "parquet" and size > _PLAIN_BYTES:
        return _open(path, kind, options, synonyms, Limits(options.max_cells, sys.maxsize))
    if size <= _SMALL_BYTES:
        with contextlib.suppress(TooLargeError):
            limits = Limits(min(options.max_cells, _SMALL_CELLS), _SMALL_CHARACTERS)
            return _open(path, kind, options, synonyms, limits)
    return _open_guarded(path, options, synonyms)


def main() -> int:
    """Read a file as standard input says, within the limits; write its table to a file, and the rest to the output."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=_Order)
    limit_process(seconds=order.seconds, memory_bytes=order.memory_bytes)
    path, synonyms = Path(order.path), {role: frozenset(names) for role, names in order.synonyms.items()}
    try:
        kind = find_format(path, order.options)
        table = _open(path, kind, order.options, synonyms, Limits(order.options.max_cells, sys.maxsize))
        _store(Path(order.folder) / _TABLE, table, order)
    except CompanyListError as error:
        sys.stdout.buffer.write(msgspec.json.encode((error.message, error.next_step)))
        return _REFUSED
    except MemoryError:
        return _OUT_OF_MEMORY
    known: dict[str, Any] = {name: getattr(table, name) for name in _Found.__struct_fields__}
    sys.stdout.buffer.write(msgspec.json.encode(_Found(**known)))
    return 0


def open_ndjson(file: TextFile, options: IntakeSettings) -> TextTable:
    """Open NDJSON; the columns are the keys of the first objects.

    Raises:
        CompanyListError: None of the first lines is an object, or, while batches are read, the last line is truncated.
    """
    path, keys = file.path, dict[str, None]()
    first = list(islice(read_lines(file), SAMPLE_ROWS))
    objects = [_read_object(line) or {} for line in first]
    for each in objects:
        keys.update(dict.fromkeys(each))
        if len(keys) > options.max_columns:
            raise too_large(path, options.max_columns, "columns", "intake.max_columns")
    if not keys:
        raise CompanyListError(
            f"{path} looks like JSON, but none of its first lines is an object",
            "Write one object on each line (NDJSON)",
        )
    sample = pl.DataFrame({"fields": [[each.get(key) or "" for key in keys] for each in objects]})
    return TextTable(tuple(keys), len(keys), 0, sample, partial(_batches, file, tuple(keys)))


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
    batches = partial(_parquet_batches, path, rows, types)
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


def _is_compressed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(GZIP)) == GZIP


def _open(
    path: Path, kind: str, options: IntakeSettings, synonyms: Synonyms, limits: Limits, archives: int = 0
) -> TextTable:
    """Open a file in this process."""
    match kind:
        case "parquet" | "folder":
            table = open_parquet(path, options, limits.characters)
        case "xlsx":
            check_archive(path)
            table = _open_xlsx(path, options, synonyms, limits)
        case "workbook":
            _leave_to_guarded(path, limits)
            if path.open("rb").read(2) == b"PK":
                check_archive(path)
            table = open_workbook(path, options, synonyms, partial(list_others, path, limits))
        case "zip":
            return _open_member(path, options, synonyms, limits, archives + 1)
        case _:
            table = _open_text(path, options, synonyms)
    if table.width > options.max_columns:
        raise too_large(path, options.max_columns, "columns", "intake.max_columns")
    return table


def _open_xlsx(path: Path, options: IntakeSettings, synonyms: Synonyms, limits: Limits) -> TextTable:
    """Open XLSX; what openpyxl does not understand is left to calamine, which knows no number formats."""
    try:
        entries = list_xlsx(path, limits)
        return open_workbook(path, options, synonyms, lambda: entries)
    except (CompanyListError, MemoryError):
        raise
    except Exception:
        _leave_to_guarded(path, limits)
        return open_workbook(path, options, synonyms, partial(list_others, path, limits))


def _leave_to_guarded(path: Path, limits: Limits) -> None:
    """Refuse to run calamine in this process, also on a member of an archive: it may hang, abort or fill memory."""
    if limits.characters < sys.maxsize:
        raise TooLargeError(f"{path} is read in a guarded process", "Report this as a bug")


def _open_text(path: Path, options: IntakeSettings, synonyms: Synonyms) -> TextTable:
    file = open_text(path, options)
    start = beginning(file)
    if start.startswith("{"):
        return open_ndjson(file, options)
    if start.startswith("<"):
        raise CompanyListError(
            f"{path} is an HTML or XML document, whatever its name says",
            "Open it in a spreadsheet program and save it as XLSX",
        )
    if start in {"[{", "[]"}:
        raise CompanyListError(
            f"{path} is a JSON array",
            f"Write one object on each line (NDJSON): jq -c '.[]' {quote(str(path))} > list.ndjson",
        )
    return open_delimited(file, options, synonyms)


def _open_member(path: Path, options: IntakeSettings, synonyms: Synonyms, limits: Limits, archives: int) -> TextTable:
    """Open the only file of an archive; error messages name the archive. It is unpacked while the table is used."""
    folder = _Folder()
    with zipfile.ZipFile(path) as archive:
        member = only_member(archive)
        assert member is not None, "find_format accepts no other archive"
        if archives > _MAX_ARCHIVES:
            raise CompanyListError(f"{path} is an archive within archives", "Unpack it, and name the list itself")
        check_archive(path)
        target = folder.path / "list"
        with archive.open(member) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, 2**20)

    @contextlib.contextmanager
    def named() -> Iterator[None]:
        try:
            yield
        except CompanyListError as error:
            shown = f"{path} ({member.filename[:100]})"
            texts = (text.replace(str(target), shown) for text in (error.message, error.next_step))
            raise type(error)(*texts) from error

    def batches(positions: Sequence[int]) -> Iterator[pl.DataFrame]:
        with named():
            assert folder.path  # keeps the folder while batches are read
            yield from table.batches(positions)

    with named():
        table = _open(target, find_format(target, options), options, synonyms, limits, archives)
    return replace(table, batches=batches)


def _open_guarded(path: Path, options: IntakeSettings, synonyms: Synonyms) -> TextTable:
    """Read a file in a process with limits, and open the Parquet file that it leaves.

    Raises:
        CompanyListError: The file cannot be used, or takes too much memory or time.
    """
    share = max(1, -(-path.stat().st_size // _PLAIN_BYTES))
    folder = _Folder()
    known = {role: sorted(names) for role, names in synonyms.items()}
    order = _Order(str(path), str(folder.path), options, known, share * _MEMORY_BYTES, share * _SECONDS, share * _LINES)
    found = _run(path, order)
    first = next(_stored_batches(folder, range(found.width)), None)
    return TextTable(
        sample=_sample(first, found.width), batches=partial(_stored_batches, folder), **msgspec.structs.asdict(found)
    )


def _run(path: Path, order: _Order) -> _Found:
    content = msgspec.json.encode(order)
    try:
        child = run_guarded("firmlake.intake.readers", content, seconds=10 * order.seconds, folder=Path(order.folder))
    except subprocess.TimeoutExpired as error:
        raise _too_slow(path, order) from error
    if child.returncode == 0:
        return msgspec.json.decode(child.stdout, type=_Found)
    if child.returncode == _REFUSED:
        raise CompanyListError(*msgspec.json.decode(child.stdout, type=tuple[str, str]))
    if child.returncode == -signal.SIGXCPU:
        raise _too_slow(path, order)
    is_killed = child.returncode in (_OUT_OF_MEMORY, *_KILLED)
    if is_killed or any(sign in child.stderr.lower() for sign in _MEMORY_SIGNS):
        raise CompanyListError(
            f"{path} takes more than {order.memory_bytes >> 20:,} MB of memory to read",
            "Check that it is a list; if it is, save it as CSV",
        )
    raise CompanyListError(
        f"{path} cannot be read: the reader of its format failed", "Open it in a spreadsheet and save it again as XLSX"
    )


def _too_slow(path: Path, order: _Order) -> CompanyListError:
    return CompanyListError(
        f"{path} takes more than {order.seconds} seconds to read", "Check that it is a list; if it is, save it as CSV"
    )


def _sample(first: pl.DataFrame | None, width: int) -> pl.DataFrame:
    if first is None:
        return pl.DataFrame(schema={"fields": pl.List(pl.String)})
    texts = pl.concat_list(pl.col(field(n)).fill_null("") for n in range(width))
    return first.filter(pl.col("defect").is_null()).head(SAMPLE_ROWS).select(fields=texts)


def _stored_batches(folder: _Folder, positions: Sequence[int]) -> Iterator[pl.DataFrame]:
    with pq.ParquetFile(folder.path / _TABLE) as stored:
        names = [name for name in ("line", "defect", "text", TAIL, KINDS) if name in stored.schema_arrow.names]
        for group in range(stored.num_row_groups):
            yield pl.DataFrame(pl.from_arrow(stored.read_row_group(group, [*names, *map(field, positions)])))


def _store(path: Path, table: TextTable, order: _Order) -> None:
    writer: pq.ParquetWriter | None = None
    count = 0
    for batch in table.batches(range(table.width)):
        count += batch.height
        if count > order.lines:
            raise CompanyListError(
                f"{order.path} unfolds to more than {order.lines:,} lines, too many for a list of its size",
                "Check that it is a list; if it is, save it as CSV",
            )
        rows = max(1, batch.height * _BATCH_BYTES // max(1, int(batch.estimated_size())))
        for part in batch.iter_slices(rows):
            content = part.to_arrow()
            writer = writer or pq.ParquetWriter(path, content.schema, compression="zstd")
            writer.write_table(content)
    if writer is None:
        nothing = {"line": pl.Int64, **dict.fromkeys(["defect", "text", *map(field, range(table.width))], pl.String)}
        pl.DataFrame(schema=nothing).write_parquet(path)
    else:
        writer.close()


def _batches(file: TextFile, keys: Sequence[str], positions: Sequence[int]) -> Iterator[pl.DataFrame]:
    names = {field(n): keys[n] for n in positions}
    lines, count = read_lines(file), 0
    last: str | None = None
    while batch := _take(lines):
        texts = [line.removesuffix("\n") for line in batch]
        objects = [_read_object(text) for text in texts]
        defects = [BLANK if not text.strip() else _NO_OBJECT if found is None else None
                   for text, found in zip(texts, objects, strict=True)]  # fmt: skip
        yield pl.DataFrame(
            {
                "line": range(count + 1, count + len(texts) + 1),
                "defect": defects,
                "text": [text if defect else None for text, defect in zip(texts, defects, strict=True)],
                **{name: [found and found.get(key) for found in objects] for name, key in names.items()},
            },
            schema={"line": pl.Int64, "defect": pl.String, "text": pl.String, **dict.fromkeys(names, pl.String)},
        )
        count += len(texts)
        last = next((defect for defect in reversed(defects) if defect != BLANK), last)
        ending = next((text for text in reversed(texts) if text.strip()), "}")
        is_cut = last == _NO_OBJECT and not ending.rstrip().endswith("}")
    if is_cut:
        raise CompanyListError(f"{file.path} is truncated: its last line is incomplete", "Copy or export it again")


def _take(lines: Iterator[str]) -> list[str]:
    taken, size = [], 0
    for line in lines:
        taken.append(line)
        size += len(line)
        if size > _BATCH_CHARACTERS:
            break
    return taken


def _read_object(line: str) -> dict[str, str | None] | None:
    """Return the values of an object by key: text as it is, null as None, anything else as written; None if none."""
    try:
        return {key: _as_text(value) for key, value in _members.decode(line).items()}
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


def _as_text(value: msgspec.Raw) -> str | None:
    written = bytes(value).strip()
    if written == b"null":
        return None
    return msgspec.json.decode(written, type=str) if written.startswith(b'"') else written.decode()


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


def _parquet_batches(
    path: Path, rows: str, types: dict[str, str], positions: Sequence[int], batch_rows: int = _BATCH_ROWS
) -> Iterator[pl.DataFrame]:
    names = list(types)
    texts = [f"{_parquet_text(names[n], types[names[n]])} AS {field(n)}" for n in positions]
    letters = quote_text("".join(map(_letter, types.values())))
    query = f"SELECT {', '.join([*texts, f'{letters} AS {KINDS}'])} FROM {rows}"  # noqa: S608 - names are quoted
    start = 1
    with _database(path) as connection:
        for batch in connection.sql(query).to_arrow_reader(batch_rows):
            frame = pl.DataFrame(pl.from_arrow(pa.table(batch)))
            nothing = pl.lit(None, pl.String)
            yield frame.with_columns(line=pl.int_range(start, start + pl.len()), defect=nothing, text=nothing)
            start += frame.height


def _parquet_text(name: str, kind: str) -> str:
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


if __name__ == "__main__":
    sys.exit(main())
