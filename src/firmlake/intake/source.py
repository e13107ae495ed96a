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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

import duckdb
import msgspec

from firmlake.api.authorization import is_token_file, read_token
from firmlake.core.errors import SettingsError, first_line
from firmlake.core.folders import check_address
from firmlake.core.process import limit_process, run_guarded, serve
from firmlake.core.settings import IntakeSettings, Settings
from firmlake.core.sql import lock, quote_name
from firmlake.intake.refusals import TooLargeError, refusal, shown_as

STDIN: Final = "-"
_STORES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
_DUCKDB: Final = b"DUCK"
_BLOCK_BYTES: Final = 2**20
_QUOTED: Final = re.compile(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"")


class _Job(msgspec.Struct):
    """What the child is to do.

    Attributes:
        database: The database file; "" if the query names files.
        sql: "" takes the only table of the database.
        target: The file to write, alone in its folder, where DuckDB also spills.
        hidden: The file of the token, which no query may read; "" if there is none.
    """

    database: str
    sql: str
    target: str
    hidden: str
    memory_limit: str
    limits: IntakeSettings


@contextmanager
def local_list(source: str, sql: str, settings: Settings, keep_in: Path | None = None) -> Iterator[Path]:
    """Yield a local file with the list; error messages name its source.

    Args:
        source: A path, `-` for standard input, `s3://`, `gs://` or `az://`, or a DuckDB file; with `sql` it may be "".
        sql: The query whose result is the list; "" if there is none.
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
        raise refusal("no_database", source=source)
    with tempfile.TemporaryDirectory(prefix="firmlake-") as folder:
        if sql or is_database:
            file = Path(folder) / f"{path.stem or 'query'}.parquet"
            _query(source, sql, settings, file)
        elif scheme:
            file = Path(folder) / (PurePosixPath(source).name or "list")
            _download(source, scheme, settings, file)
        else:
            file = Path(folder) / "stdin"
            _write_blocks(iter(partial(sys.stdin.buffer.read, _BLOCK_BYTES), b""), "standard input", settings, file)
        if keep_in is not None:
            file = keep_copy(file, keep_in)
        with shown_as(file, {STDIN: "standard input", "": "the query"}.get(source, source)):
            yield file


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


def _query(database: str, sql: str, settings: Settings, target: Path) -> None:
    """Write the result of a query, or the only table of a database, as Parquet."""
    limits, hidden = settings.intake, os.environ.get("FIRMLAKE_API_TOKEN_FILE", "")
    where, seconds = database or "--sql", limits.query_seconds_max
    job = msgspec.json.encode(_Job(database, sql, str(target), hidden, settings.run.duckdb_memory, limits))
    try:
        child = run_guarded("firmlake.intake.source", job, seconds=seconds, folder=target.parent)
    except TimeoutError:
        raise refusal("slow_query", where=where, seconds=seconds) from None
    if child.returncode:
        raise refusal("query_ended", where=where, code=child.returncode)


def _refuse_secrets(path: Path, source: str) -> None:
    """Refuse the file of the token, and files without a size, among which are the environments of processes."""
    if not (source and path.is_file()):
        return
    if not path.stat().st_size:
        raise refusal("empty", path=source)
    if is_token_file(path):
        raise refusal("token_file", source=source)


def _is_database(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:  # reading it as a list will say what is wrong
        return file.read(12)[8:] == _DUCKDB
    return False


def _download(address: str, scheme: str, settings: Settings, target: Path) -> None:
    """Copy an object from a store to a file."""
    if scheme not in _STORES:
        raise refusal("unknown_store", scheme=scheme)
    prefix, _, key = address.rpartition("/")
    check_address(f"{prefix}/{key.replace('#', '')}")  # the name of a list may hold one
    import obstore  # here, because importing it takes a tenth of a second
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    try:
        found = obstore.get(from_url(prefix), key)
        _write_blocks(found.stream(min_chunk_size=_BLOCK_BYTES), address, settings, target)
    except (BaseError, FileNotFoundError, PermissionError, OSError, ValueError) as error:
        raise refusal("unreadable_object", address=address, problem=first_line(error)) from error


def _write_blocks(blocks: Iterable[Any], name: str, settings: Settings, target: Path) -> None:
    """Write a file block by block, up to the limit."""
    limit = settings.intake.max_inflated_megabytes
    with target.open("wb") as file:
        for block in blocks:
            file.write(block)
            if file.tell() > limit << 20:
                raise refusal("max_inflated_megabytes", TooLargeError, path=name, limit=limit)


def _write(order: bytes) -> bytes:
    """Write the result of a query, in a guarded process."""
    job = msgspec.json.decode(order, type=_Job)
    limits, where = job.limits, job.database or "--sql"
    seconds = limits.query_seconds_max * (os.cpu_count() or 1)
    limit_process(seconds=seconds, file_bytes=limits.max_inflated_megabytes << 20)
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
                raise refusal("no_query")
            connection.sql(query).limit(limits.max_rows + 1).write_parquet(job.target)
    except duckdb.PermissionException as error:
        code = "beyond_database" if job.database else "beyond_query"
        raise refusal(code, where=where, problem=first_line(error)) from None
    except duckdb.Error as error:
        raise refusal("query_failed", where=where, problem=first_line(error)) from None
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
        raise refusal("no_table", where=where)
    tables = ", ".join(names[:10]) + " and more" * (len(names) > 10)
    raise refusal("many_tables", where=where, count=len(names), tables=tables, first=names[0])


if __name__ == "__main__":
    sys.exit(serve(_write))
