"""Write the list of a database file, or the result of a query, as Parquet: in a process that reaches nothing else.

The file, and the SQL too, may come from a stranger. A view or a query can read any file, also the environment of this
process; so both run locked, in a child process without the token. Over a database, SQL sees that database. Without one,
it sees the files whose names or patterns stand in its own text, between quotes, except for the file of the token.
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb

from firmlake.core.child import limit_process, run_guarded
from firmlake.core.errors import CompanyListError, first_line
from firmlake.core.settings import Settings
from firmlake.core.sql import lock, quote_name

_SECONDS: Final = "intake.query_seconds_max"
_REFUSED: Final = 3
_QUOTED: Final = re.compile(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"")


class _Job(NamedTuple):
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
            "firmlake.intake.query",
            json.dumps(job._asdict()).encode(),
            seconds=limits.query_seconds_max,
            folder=target.parent,
        )
    except subprocess.TimeoutExpired:
        message = f"{where}: the query took more than {limits.query_seconds_max} seconds"
        raise CompanyListError(message, f"Narrow it down, or raise {_SECONDS}") from None
    if child.returncode == _REFUSED:
        raise CompanyListError(*json.loads(child.stderr))
    if child.returncode:
        raise CompanyListError(
            f"{where}: DuckDB ended while it read it (exit code {child.returncode})",
            "The file is damaged, or its result is too large: export the list as CSV or Parquet",
        )


# ---------------------------------------------------------------------------------------------------------------------
# In the child


def _write(job: _Job) -> None:
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


def main() -> int:
    """Do the job on standard input; an error and its next step go to standard error, as JSON."""
    job = _Job(**json.load(sys.stdin))
    limit_process(seconds=job.seconds * (os.cpu_count() or 1), file_bytes=job.file_bytes)
    try:
        _write(job)
    except CompanyListError as error:
        sys.stderr.write(json.dumps([error.message, error.next_step]))
        return _REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
