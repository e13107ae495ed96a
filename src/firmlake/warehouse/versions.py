"""Versions of rows: replace rows, and keep every replaced row. No other code replaces rows.

A table that keeps history is stored as `<table>_versions`. Loads are numbered from 1 in the order of the table `loads`.
A version is valid from the load in `valid_from` until just before the load in `valid_to`; null means that it is
current. The rest are queries over it:

    FROM financials                                     the current rows
    FROM financials_history                             the superseded rows
    FROM financials_as_of('20260105T120000Z-0001')      what this warehouse held after that run
    FROM financials_as_of(TIMESTAMP '2026-01-31')       ... and at that time, UTC
    FROM financials_known_on(DATE '2024-12-31')         what anybody could know on that day

The time of a run is that of its last answer, in the order of loading, so that a replay does not change it.
"""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb

from firmlake.core.sql import read_queries
from firmlake.tables.schemas import TABLES, Column, Table
from firmlake.warehouse.generations import checkpoint, free_memory

_SQL = read_queries(__file__)

VALIDITY = (
    Column("valid_from", "integer", "Number of the first load that found the row with these values"),
    Column("valid_to", "integer", "Number of the load that found the row changed or gone", "the row is current"),
)
"""The columns that a table of versions has in addition."""

_STRETCH = 2_000_000
"""Write ends of validity after each stretch of this many rows, because an update takes 16 bytes of memory per row until
then."""


def versions_of(table: str) -> str:
    """Return the name of the table that stores the versions of a table with history, or the name of another table."""
    return f"{table}_versions" if TABLES[table].volatile is not None else table


def current_rows(table: str) -> str:
    """Return a relation of the current rows of a table with history, with the row id `held_row` of their version."""
    return f"(SELECT *, rowid AS held_row FROM {table}_versions WHERE valid_to IS NULL)"


def run_of(number: str) -> str:
    """Return SQL for the name of a load by its number."""
    return f"(SELECT list(run_id ORDER BY generation) FROM loads)[{number}]"


def queries_of(table: Table) -> Iterator[str]:
    """Yield the queries of the current rows and of the superseded rows of a table with history."""
    columns = ", ".join(f'"{column.name}"' for column in table.columns)
    opened, closed = f"{run_of('valid_from')} AS valid_from_run", f"{run_of('valid_to')} AS valid_to_run"
    yield f"SELECT {columns}, {opened} FROM {table.name}_versions WHERE valid_to IS NULL"
    yield f"SELECT {columns}, {opened}, {closed} FROM {table.name}_versions WHERE valid_to IS NOT NULL"


def next_number(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the number of the load that is being made: its row in `loads` is not written yet."""
    return count_rows(connection, "SELECT count(*) + 1 FROM loads")


def supersede(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    scope: tuple[str, ...],
    answered: str,
    staged: str,
    number: int,
    retained: str = "false",
) -> int:
    """Replace rows of a table by staged rows, for the keys that were answered; return the number of rows written.

    A row stays if the answer has an equal one. The comparison ignores the origin of a row and the volatile columns;
    volatile columns of rows that stay are updated. Rows that occur several times are matched one to one.

    Args:
        connection: A connection in a transaction.
        table: A table that keeps history.
        scope: The columns that identify an answer, such as country and company_number.
        answered: A relation with these columns: the keys that were answered. Rows of other keys are not touched. For
            a snapshot of a whole table, these are all keys that are held or staged.
        staged: A relation with the table's columns. Rows of other keys are ignored.
        number: The number of this load.
        retained: An SQL condition on held rows `h` that stay although the answer lacks them, because a part of the
            answer could not be read.
    """
    shape = TABLES[table]
    names = {
        "versions": versions_of(table),
        "scope": ", ".join(scope),
        "answered": answered,
        "staged": staged,
        "same": " AND ".join(f"h.{name} IS NOT DISTINCT FROM o.{name}" for name in shape.content),
        "nth": _nth(shape),
        "retained": retained,
        "columns": ", ".join(f'"{column.name}"' for column in shape.columns),
        "number": number,
    }
    free_memory(connection)
    if number == 1 or not count_rows(connection, _SQL["held"].format(**names)):
        return insert_new(connection, table, "{staged} SEMI JOIN {answered} a USING ({scope})".format(**names), number)
    connection.execute(_SQL["offered"].format(**names))
    connection.execute(_SQL["kept"].format(**names))
    _close(connection, names)
    _refresh(connection, shape)
    if retained != "false":
        _make_room(connection, shape, staged, scope)
    connection.execute(_SQL["unheld"].format(**names))
    connection.execute("DROP TABLE held")
    written = sum(
        count_rows(connection, insert.format(**names)) for insert in (_SQL["insert_unheld"], _SQL["insert_offered"])
    )
    connection.execute("DROP TABLE offered; DROP TABLE kept; DROP TABLE unheld")
    return written


def insert_new(connection: duckdb.DuckDBPyConnection, table: str, rows: str, number: int) -> int:
    """Write the rows of a relation into a table that has no current rows of their keys, and return their number."""
    columns = ", ".join(f'"{column.name}"' for column in TABLES[table].columns)
    free_memory(connection)
    insert = f"INSERT INTO {versions_of(table)} BY NAME SELECT {columns}, {number} AS valid_from FROM {rows}"
    return count_rows(connection, insert)


def compare(connection: duckdb.DuckDBPyConnection, table: str, query: str, number: int) -> None:
    """Make the relation `merged_<table>`: rows for a table with history, each compared with the held row of its key.

    The query selects one row per key: its values, and the held row of the key, from `current_rows`, as the struct
    `held`, with nulls if there is none. Other columns are passed on.
    """
    same = " AND ".join(f"o.{name} IS NOT DISTINCT FROM held.{name}" for name in TABLES[table].content)
    free_memory(connection)
    compared = (
        "SELECT * EXCLUDE (held), held.held_row AS held_row, held.valid_from AS held_since, "
        f"held.held_row IS NOT NULL AND {same} AS is_same FROM ({query}) o"
    )
    if number > 1:  # a first load copies nothing before it is written
        connection.execute(f"CREATE OR REPLACE TEMP TABLE compared_{table} AS {compared}")
        compared = f"FROM compared_{table}"
    connection.execute(f"CREATE OR REPLACE TEMP VIEW merged_{table} AS {compared}")


def merge(connection: duckdb.DuckDBPyConnection, table: str, number: int) -> None:
    """Replace the rows that `compare` found different, as `supersede` does, and update volatile columns of the rest."""
    columns = ", ".join(column.name for column in TABLES[table].columns)
    # Rows that stay are deleted and inserted too, because an update of millions of rows would not fit into memory.
    replaced = (_SQL["close_merged"], _DELETE_MERGED) if number > 1 else ()
    for statement in (*replaced, _SQL["insert_merged"], _DROP_MERGED):
        connection.execute(statement.format(table=table, columns=columns, number=number))


def count_rows(connection: duckdb.DuckDBPyConnection, statement: str, *values: str) -> int:
    """Execute a statement that counts rows or writes rows, and return their number."""
    rows = connection.execute(statement, values).fetchall()
    return int(rows[0][0]) if rows else 0


def as_of_columns(table: Table) -> tuple[str, ...]:
    """List the columns of a table whose earlier values are kept, and which can be queried as of a time."""
    return tuple(column.name for column in table.columns if column.name not in (table.volatile or ()))


_DELETE_MERGED = "DELETE FROM {table}_versions WHERE rowid IN (SELECT held_row FROM merged_{table} WHERE is_same)"


_DROP_MERGED = "DROP VIEW merged_{table}; DROP TABLE IF EXISTS compared_{table}"


def _nth(table: Table) -> str:
    """Return SQL that numbers equal rows; there are such rows only if a volatile column is part of the key."""
    volatile = [name for name in table.key if name in (table.volatile or ())]
    return (
        f"row_number() OVER (PARTITION BY {', '.join(table.content)} ORDER BY {', '.join(volatile)})"
        if volatile
        else "1"
    )


def _close(connection: duckdb.DuckDBPyConnection, names: dict[str, Any]) -> None:
    """End the validity of the rows that are gone from the answers, in stretches."""
    if not count_rows(connection, _SQL["closing"].format(**names)):
        return
    stretches = connection.execute(f"SELECT DISTINCT held_row // {_STRETCH} FROM closing ORDER BY ALL").fetchall()
    for (stretch,) in stretches:
        first = stretch * _STRETCH
        connection.execute(_SQL["close"].format(**names, first=first, last=first + _STRETCH - 1))
        if len(stretches) > 1:
            checkpoint(connection)


def _refresh(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Update the volatile columns of rows that stay."""
    if table.volatile:
        values = ", ".join(f"{name} = o.{name}" for name in table.volatile)
        differs = " OR ".join(f"t.{name} IS DISTINCT FROM o.{name}" for name in table.volatile)
        connection.execute(
            f"UPDATE {table.name}_versions t SET {values} FROM kept JOIN offered o USING (offered_row) "
            f"WHERE t.rowid = held_row AND ({differs})"
        )


def _make_room(connection: duckdb.DuckDBPyConnection, table: Table, staged: str, scope: tuple[str, ...]) -> None:
    """Move retained rows after the offered rows, so that no two rows have the same position."""
    if "position" in (table.volatile or ()):
        same = " AND ".join(f"t.{name} = o.{name}" for name in scope)
        connection.execute(
            _SQL["make_room"].format(versions=versions_of(table.name), staged=staged, scope=", ".join(scope), same=same)
        )
