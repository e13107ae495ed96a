"""Lists that are not local files: standard input, a query, a DuckDB table, an object in a store.

Each is copied to a local file first: a list is read more than once, but a pipe can be read only once, and the result of
a query may change.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

import duckdb
import msgspec

from firmlake.api.authorization import is_token_file, read_token
from firmlake.core.child import limit_process, run_guarded, serve
from firmlake.core.errors import CompanyListError, SettingsError, first_line
from firmlake.core.settings import Settings
from firmlake.core.sql import lock, quote_name
from firmlake.core.stores import check_address
from firmlake.intake.table import too_large

STDIN: Final = "-"
_STORES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
_DUCKDB: Final = b"DUCK"
_BLOCK_BYTES: Final = 2**20
_SECONDS: Final = "intake.query_seconds_max"
_QUOTED: Final = re.compile(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"")


class _Job(msgspec.Struct):
    """What the child is to do.

    Attributes:
        database: The database file; "" if the query names files.
        sql: The query; "" takes the only table of the database.
        target: The file to write, alone in its folder, where DuckDB also spills.
        hidden: The file of the token, which no query may read; "" if there is none.
    """

    database: str
    sql: str
    target: str
    memory_limit: str
    file_bytes: int
    seconds: int
    max_rows: int
    hidden: str


@contextmanager
def local_list(source: str, sql: str, settings: Settings, keep_in: Path | None = None) -> Iterator[Path]:
    """Yield a local file with the list; error messages name its source.

    Args:
        source: A path, `-` for standard input, `s3://`, `gs://` or `az://`, or a DuckDB file; with `sql` it may be "".
        sql: The query whose result is the list; "" if there is none.
        settings: Limits of the intake and of DuckDB.
        keep_in: Folder in which copies are kept, in a subfolder for each content; None keeps no copy.

    Raises:
        UsageError: The address of a store holds credentials.
        CompanyListError: The source cannot be read, or is larger than the settings allow.
    """
    with suppress(SettingsError):
        read_token()  # registers it, so that no message repeats it even if the list is the file that holds it
    path = Path(source)
    _refuse_secrets(path, source)
    is_database = bool(source) and path.is_file() and _is_database(path)
    scheme = source.partition("://")[0] if "://" in source else ""
    if not (sql or is_database or scheme or source == STDIN):
        yield path
        return
    if sql and source and not is_database:
        raise CompanyListError(
            f"{source} is not a DuckDB database, so --sql cannot query it",
            f"Omit LIST and name the file in the query: --sql \"FROM '{source}'\"",
        )
    with tempfile.TemporaryDirectory(prefix="firmlake-") as folder:
        if sql or is_database:
            file = Path(folder) / f"{path.stem or 'query'}.parquet"
            write_list(path if source else None, sql, settings, file)
        elif scheme:
            file = Path(folder) / (PurePosixPath(source).name or "list")
            _download(source, scheme, settings, file)
        else:
            file = Path(folder) / "stdin"
            _spool(sys.stdin.buffer, file, settings)
        if keep_in is not None:
            file = keep_copy(file, keep_in)
        try:
            yield file
        except CompanyListError as error:
            shown = {STDIN: "standard input", "": "the query"}.get(source, source)
            message, next_step = (text.replace(str(file), shown) for text in (error.message, error.next_step))
            raise CompanyListError(message, next_step) from error


def keep_copy(file: Path, folder: Path) -> Path:
    """Keep a copy under the same name, in a folder named after the hash of its content."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()[:12]
    kept = folder / digest / file.name
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        aside = kept.with_name(kept.name + ".part")
        shutil.copyfile(file, aside)
        aside.replace(kept)
    return kept


def write_list(database: Path | None, sql: str, settings: Settings, target: Path) -> None:
    """Write the result of a query, or the only table of a database, as Parquet.

    Args:
        database: A DuckDB file; None for a query that names files.
        sql: The query; "" takes the only table.
        settings: Limits of rows, time, memory and size.
        target: The file to write, alone in its folder.

    Raises:
        CompanyListError: The query fails, reaches for something else, is no query or takes too long; or the database
            has no table, or several.
    """
    limits = settings.intake
    where = str(database) if database else "--sql"
    job = _Job(
        database=str(database or ""),
        sql=sql,
        target=str(target),
        hidden=os.environ.get("FIRMLAKE_API_TOKEN_FILE", ""),
        memory_limit=settings.run.duckdb_memory,
        file_bytes=limits.max_inflated_megabytes << 20,
        seconds=limits.query_seconds_max,
        max_rows=limits.max_rows + 1,
    )
    try:
        child = run_guarded(
            "firmlake.intake.source", msgspec.json.encode(job), seconds=job.seconds, folder=target.parent
        )
    except TimeoutError:
        message = f"{where}: the query took more than {job.seconds} seconds"
        raise CompanyListError(message, f"Narrow it down, or raise {_SECONDS}") from None
    if child.returncode:
        raise CompanyListError(
            f"{where}: DuckDB ended while it read it (exit code {child.returncode})",
            "The file is damaged, or its result is too large: export the list as CSV or Parquet",
        )


def _refuse_secrets(path: Path, source: str) -> None:
    """Refuse the file of the token, and files without a size, among which are the environments of processes."""
    if not (source and path.is_file()):
        return
    if not path.stat().st_size:
        raise CompanyListError(f"{source} is empty", "Export the list again")
    if is_token_file(path):
        raise CompanyListError(f"{source} is the file of the token, not a list", "Name the list")


def _is_database(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:  # reading it as a list will say what is wrong
        return file.read(12)[8:] == _DUCKDB
    return False


def _download(address: str, scheme: str, settings: Settings, target: Path) -> None:
    """Copy an object from a store to a file."""
    if scheme not in _STORES:
        raise CompanyListError(
            f"{scheme}:// is not a supported source of lists", "Name a file, or s3://, gs:// or az://"
        )
    prefix, _, key = address.rpartition("/")
    check_address(f"{prefix}/{key.replace('#', '')}")  # the name of a list may hold one
    import obstore  # here, because importing it takes a tenth of a second
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    limit = settings.intake.max_inflated_megabytes
    try:
        found = obstore.get(from_url(prefix), key)
        if found.meta["size"] > limit << 20:
            raise too_large(address, limit, "MB", "intake.max_inflated_megabytes")
        with target.open("wb") as file:
            for piece in found.stream(min_chunk_size=_BLOCK_BYTES):
                file.write(piece)
    except (BaseError, FileNotFoundError, PermissionError, OSError, ValueError) as error:
        first = first_line(error)
        raise CompanyListError(
            f"{address} cannot be read: {first}", "Check the address, and the credentials in the environment"
        ) from error


def _spool(stream: IO[bytes], target: Path, settings: Settings) -> None:
    """Copy a stream to a file, up to the limit."""
    limit, count = settings.intake.max_inflated_megabytes, 0
    with target.open("wb") as file:
        while block := stream.read(_BLOCK_BYTES):
            count += len(block)
            if count > limit << 20:
                raise too_large("standard input", limit, "MB", "intake.max_inflated_megabytes")
            file.write(block)


def _write(order: bytes) -> bytes:
    """Write the result of a query, in a guarded process."""
    job = msgspec.json.decode(order, type=_Job)
    limit_process(seconds=job.seconds * (os.cpu_count() or 1), file_bytes=job.file_bytes)
    where = job.database or "--sql"
    config: dict[str, Any] = {
        "memory_limit": job.memory_limit,
        "temp_directory": str(Path(job.target).parent),
        "allow_persistent_secrets": False,
        "autoload_known_extensions": False,
        "autoinstall_known_extensions": False,
    }
    try:
        with duckdb.connect(job.database or ":memory:", read_only=bool(job.database), config=config) as connection:
            lock(connection, [] if job.database else _named_files(job))
            query = job.sql or f"FROM {_only_table(connection, where)}"
            kinds = [statement.type for statement in connection.extract_statements(query)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise CompanyListError("--sql is not one query", "Write one: --sql 'SELECT ... FROM ...'")
            connection.sql(query).limit(job.max_rows).write_parquet(job.target)
    except duckdb.PermissionException as error:
        reach = (
            "SQL over a database sees only that database"
            if job.database
            else "SQL sees only files whose names it holds between quotes, and not the token"
        )
        raise CompanyListError(f"{where}: {first_line(error)}", reach) from None
    except duckdb.Error as error:
        message = f"{where}: the query failed: {first_line(error)}"
        raise CompanyListError(message, "Correct the query, or close the database") from None
    return b""


def _named_files(job: _Job) -> list[str]:
    """List the patterns and files that the text of a query names, so that DuckDB may expand and read them."""
    allowed = []
    for quotes in _QUOTED.finditer(job.sql):
        name = (quotes[1] or "").replace("''", "'") or (quotes[2] or "").replace('""', '"')
        with suppress(ValueError, OSError):  # a NUL, or a text longer than a path
            is_pattern = glob.has_magic(name) and not Path(name).exists()
            files = glob.iglob(name, recursive=True, include_hidden=True) if is_pattern else [name]  # noqa: PTH207 - DuckDB's patterns
            allowed += [file for file in files if _is_readable(Path(file), job.hidden)]
            allowed += [name] * is_pattern
    return allowed


def _is_readable(path: Path, hidden: str) -> bool:
    """Tell whether a query may read a file. Files of the kernel, such as the environment of a process, have no size."""
    status = path.stat()
    return stat.S_ISREG(status.st_mode) and status.st_size > 0 and not (hidden and path.samefile(hidden))


def _only_table(connection: duckdb.DuckDBPyConnection, where: str) -> str:
    """Return the quoted name of the only table. Views do not count: they run the SQL of whoever made the file."""
    rows = connection.execute(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' ORDER BY ALL"
    ).fetchall()
    names = [".".join(map(quote_name, row)) for row in rows]
    if len(names) == 1:
        return names[0]
    if not names:
        raise CompanyListError(f"{where} has no table", "Name another file, or a view of it: --sql 'FROM my_view'")
    raise CompanyListError(
        f"{where} has {len(names)} tables: {', '.join(names[:10])}{' and more' if len(names) > 10 else ''}",
        f"Name the one with the list: --sql 'FROM {names[0]}'",
    )


if __name__ == "__main__":
    sys.exit(serve(_write))
