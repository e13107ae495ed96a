"""SQL: statements in files, names and texts quoted in them, rows, and a connection locked against SQL of others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import duckdb

_ROWS_AT_ONCE: Final = 1000


def read_queries(module: str) -> dict[str, str]:
    """Read the statements of a module by name, from the file beside it (`__file__`) that ends in .sql.

    Each begins with a line such as `-- name: events`, and lines of comments that are not part of it.
    """
    text = Path(module).with_suffix(".sql").read_text("utf-8")
    return dict(re.findall(r"^-- name: (\w+)\n(?:--.*\n)*((?:(?!-- name: ).*\n)+)", text, flags=re.MULTILINE))


def quote_name(name: str) -> str:
    """Write a name as a quoted identifier.

    Example:
        >>> quote_name('12" pipe')
        '"12"" pipe"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_text(value: object) -> str:
    """Write a text, or something else as text, as a literal.

    Example:
        >>> quote_text("l'Oiseau")
        "'l''Oiseau'"
    """
    return "'" + str(value).replace("'", "''") + "'"


def read_rows(cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    """Read the first rows of a result now, so that a query that fails does so at once, and the others when needed."""
    first = cursor.fetchmany(_ROWS_AT_ONCE)
    return chain(first, chain.from_iterable(iter(lambda: cursor.fetchmany(_ROWS_AT_ONCE), [])))


def fetch_dicts(cursor: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Fetch all rows of a small result, with their values by column."""
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def lock(connection: duckdb.DuckDBPyConnection, files: Iterable[str] = ()) -> None:
    """Restrict SQL to the database and to these files: no network, extension, Python variable or change of settings.

    DuckDB shares the settings of a database file within a process, so this holds for all connections of this process to
    it until the last of them is closed.
    """
    for statement in (
        f"SET allowed_paths = [{', '.join(map(quote_text, files))}]",
        "SET enable_external_access = false",
        "SET python_enable_replacements = false",
        "SET lock_configuration = true",
    ):
        connection.execute(statement)
