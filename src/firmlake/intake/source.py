"""Lists that are not local files: standard input, a query, a DuckDB table, an object in a store.

Each is copied to a local file first: a list is read more than once, but a pipe can be read only once, and the result of
a query may change.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Final

import duckdb

from firmlake.core.errors import CompanyListError, first_line
from firmlake.core.settings import Settings
from firmlake.core.sql import quote_name
from firmlake.core.stores import check_address
from firmlake.intake.detect import too_large

__all__ = ["local_list"]

STDIN: Final = "-"
_STORES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
_DUCKDB: Final = b"DUCK"
_BLOCK_BYTES: Final = 2**20


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
    path = Path(source)
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
            _run_query(path if source else None, sql, settings, file)
        elif scheme:
            file = Path(folder) / (PurePosixPath(source).name or "list")
            _download(source, scheme, settings, file)
        else:
            file = Path(folder) / "stdin"
            _spool(sys.stdin.buffer, file, settings)
        if keep_in is not None:
            file = _keep(file, keep_in)
        try:
            yield file
        except CompanyListError as error:
            shown = {STDIN: "standard input", "": "the query"}.get(source, source)
            message, next_step = (text.replace(str(file), shown) for text in (error.message, error.next_step))
            raise CompanyListError(message, next_step) from error


def _is_database(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:  # reading it as a list will say what is wrong
        return file.read(12)[8:] == _DUCKDB
    return False


def _run_query(database: Path | None, sql: str, settings: Settings, target: Path) -> None:
    """Write the result of a query, or the only table of a database, as Parquet."""
    where = str(database) if database else ":memory:"
    try:
        config: dict[str, str | bool | int | float | list[str]] = {"memory_limit": settings.run.duckdb_memory}
        with duckdb.connect(where, read_only=database is not None, config=config) as connection:
            connection.execute(f"SET temp_directory = '{target.parent}'")
            query = sql or f"FROM {_only_table(connection, where)}"
            relation = connection.sql(query)
            if relation is None:
                raise CompanyListError("--sql is not a query", "Write one: --sql 'SELECT ... FROM ...'")
            relation.limit(settings.intake.max_rows + 1).write_parquet(str(target))
    except duckdb.Error as error:
        first = first_line(error)
        raise CompanyListError(
            f"{database or '--sql'}: the query failed: {first}", "Correct the query, or close the database"
        ) from error


def _only_table(connection: duckdb.DuckDBPyConnection, where: str) -> str:
    rows = connection.execute("SELECT table_schema, table_name FROM information_schema.tables ORDER BY ALL").fetchall()
    names = [".".join(map(quote_name, row)) for row in rows]
    if len(names) == 1:
        return names[0]
    if not names:
        raise CompanyListError(f"{where} has no table", "Name another file")
    raise CompanyListError(
        f"{where} has {len(names)} tables: {', '.join(names[:10])}{' and more' if len(names) > 10 else ''}",
        f"Name the one with the list: --sql 'FROM {names[0]}'",
    )


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


def _keep(file: Path, folder: Path) -> Path:
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
