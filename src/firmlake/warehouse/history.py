"""Replace rows, and keep every replaced row, so that the past can be queried. No other code replaces rows.

A row of a table is valid from the run in `valid_from_run`. The run that finds it changed or gone moves it into
`<table>_history` and writes its own name into `valid_to_run`; the row was valid until just before that run.
"""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

import duckdb

from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES, Table
from firmlake.warehouse.generations import checkpoint, free_memory

__all__ = ["compare", "count_rows", "merge", "supersede"]

_STRETCH = 4_000_000
"""Write deletes after each stretch of this many rows, because a deleted row takes 8 bytes of memory until then."""


def supersede(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    scope: tuple[str, ...],
    answered: str,
    staged: str,
    run_id: str,
    retained: str = "false",
    *,
    is_all_answered: bool = False,
) -> int:
    """Replace rows of a table by staged rows, for the keys that were answered.

    A row stays if the answer has an equal one. The comparison ignores the origin of a row and the volatile columns;
    volatile columns of rows that stay are updated. Rows that occur several times are matched one to one.

    Args:
        connection: A connection in a transaction.
        table: A table that keeps history.
        scope: The columns that identify an answer, such as country and company_number.
        answered: A relation with these columns: the keys that were answered. Rows of other keys are not touched. For
            a snapshot of a whole table, these are all keys that are held or staged.
        staged: A relation with the table's columns except `valid_from_run`. Rows of other keys are ignored.
        run_id: The run that the staged rows come from.
        retained: An SQL condition on held rows `h` that stay although the answer lacks them, because a part of the
            answer could not be read.
        is_all_answered: Whether all staged rows belong to answered keys; a first load then skips comparing keys.

    Returns:
        The number of rows written. The temporary table `closed_<table>` holds the closed rows until the next call.
    """
    shape = WAREHOUSE_TABLES[table]
    names = {
        "table": table,
        "scope": ", ".join(scope),
        "answered": answered,
        "staged": staged,
        "same": " AND ".join(f"h.{name} IS NOT DISTINCT FROM o.{name}" for name in shape.content),
        "nth": _nth(shape),
        "retained": retained,
        "columns": ", ".join(column.name for column in shape.columns if column.name != "valid_from_run"),
    }
    free_memory(connection)
    if not count_rows(connection, _HELD.format(**names)):
        connection.execute(_NONE_CLOSED.format(**names))
        among = "" if is_all_answered else "SEMI JOIN {answered} a USING ({scope})".format(**names)
        return count_rows(connection, _INSERT_ALL.format(**names, among=among), run_id)
    connection.execute(_OFFERED.format(**names))
    _close(connection, names, run_id)
    _refresh(connection, shape, "kept JOIN offered o ON o.rowid = offered_row")
    if retained != "false":
        _make_room(connection, shape, staged, scope)
    connection.execute(_UNHELD.format(**names))
    connection.execute("DROP TABLE held")
    written = sum(
        count_rows(connection, insert.format(**names), run_id) for insert in (_INSERT_UNHELD, _INSERT_OFFERED)
    )
    for name in ("offered", "kept", "unheld"):
        connection.execute(f"DROP TABLE {name}")
    return written


def compare(connection: duckdb.DuckDBPyConnection, table: str, query: str) -> None:
    """Make the relation `merged_<table>`: rows for a table, each compared with the held row of its key.

    Args:
        connection: A connection in a transaction.
        table: A table that keeps history.
        query: Selects one row per key: its values, and the held row of the key as the struct `held` and its row id
            `held_row`, both null if there is none. Other columns are passed on.
    """
    same = " AND ".join(f"o.{name} IS NOT DISTINCT FROM held.{name}" for name in WAREHOUSE_TABLES[table].content)
    free_memory(connection)
    compared = (
        "SELECT * EXCLUDE (held), held.valid_from_run AS held_since, "
        f"held_row IS NOT NULL AND {same} AS is_same FROM ({query}) o"
    )
    if count_rows(connection, f"SELECT count(*) FROM {table}"):  # otherwise nothing is copied before it is written
        connection.execute(f"CREATE OR REPLACE TEMP TABLE compared_{table} AS {compared}")
        compared = f"FROM compared_{table}"
    connection.execute(f"CREATE OR REPLACE TEMP VIEW merged_{table} AS {compared}")


def merge(connection: duckdb.DuckDBPyConnection, table: str, run_id: str) -> None:
    """Replace the rows that `compare` found different, as `supersede` does, and update volatile columns of the rest."""
    columns = ", ".join(column.name for column in TABLES[table].columns)
    # Rows that stay are deleted and inserted too, because an update of millions of rows would not fit into memory.
    for statement in (_CLOSED_BY_MERGE, _KEEP_CLOSED, _DELETE_MERGED, _INSERT_MERGED, _DROP_MERGED):
        connection.execute(statement.format(table=table, columns=columns, run_id=run_id))


def count_rows(connection: duckdb.DuckDBPyConnection, statement: str, *values: str) -> int:
    """Execute a statement that counts rows or writes rows, and return their number."""
    row = connection.execute(statement, values).fetchone()
    return int(row[0]) if row else 0


# ---------------------------------------------------------------------------------------------------------------------

_HELD = """
    CREATE OR REPLACE TEMP TABLE held AS
    SELECT t.rowid AS held_row, {nth} AS nth, t.*
    FROM {table} t SEMI JOIN {answered} a USING ({scope})
"""

# Keys without a held row need no comparison.
_OFFERED = """
    CREATE OR REPLACE TEMP TABLE offered AS
    SELECT {nth} AS nth, {columns}
    FROM {staged} s SEMI JOIN held USING ({scope})
"""

_KEPT = """
    CREATE OR REPLACE TEMP TABLE kept AS
    SELECT held_row, o.rowid AS offered_row
    FROM held h JOIN offered o ON h.nth = o.nth AND {same}
"""

_CLOSED = """
    CREATE OR REPLACE TEMP TABLE closed_{table} AS
    SELECT * EXCLUDE (held_row, nth), ? AS valid_to_run
    FROM held h ANTI JOIN kept USING (held_row) WHERE NOT ({retained})
"""

_NONE_CLOSED = "CREATE OR REPLACE TEMP TABLE closed_{table} AS FROM {table}_history LIMIT 0"

_DELETE = """
    DELETE FROM {table} WHERE rowid IN (
        SELECT held_row FROM held h ANTI JOIN kept USING (held_row)
        WHERE NOT ({retained}) AND held_row BETWEEN {first} AND {last})
"""

# The position of unreadable rows in the answer is unknown, so retained rows move after all others.
_MAKE_ROOM = """
    UPDATE {table} t SET position = t.position + o.height
    FROM (SELECT {scope}, max(position) + 1 AS height FROM {staged} GROUP BY {scope}) o
    WHERE {same} AND t.rowid IN (SELECT held_row FROM held ANTI JOIN kept USING (held_row))
"""

# A first load writes its rows straight into the table.
_INSERT_ALL = """
    INSERT INTO {table} BY NAME SELECT {columns}, ? AS valid_from_run FROM {staged} s {among}
"""

# Two inserts and a separate table for the keys, so that each join fits into memory together with the rows it writes.
_UNHELD = """
    CREATE OR REPLACE TEMP TABLE unheld AS
    SELECT {scope} FROM {answered} a ANTI JOIN held USING ({scope})
"""

_INSERT_UNHELD = """
    INSERT INTO {table} BY NAME SELECT {columns}, ? AS valid_from_run FROM {staged} s SEMI JOIN unheld USING ({scope})
"""

_INSERT_OFFERED = """
    INSERT INTO {table} BY NAME
    SELECT {columns}, ? AS valid_from_run FROM offered o ANTI JOIN kept ON o.rowid = offered_row
"""


_CLOSED_BY_MERGE = """
    CREATE OR REPLACE TEMP TABLE closed_{table} AS
    SELECT *, '{run_id}' AS valid_to_run FROM {table}
    WHERE rowid IN (SELECT held_row FROM merged_{table} WHERE NOT is_same)
"""

_KEEP_CLOSED = "INSERT INTO {table}_history BY NAME SELECT * FROM closed_{table}"

_DELETE_MERGED = "DELETE FROM {table} WHERE rowid IN (SELECT held_row FROM merged_{table})"

_INSERT_MERGED = """
    INSERT INTO {table} BY NAME
    SELECT {columns}, if(is_same, held_since, '{run_id}') AS valid_from_run FROM merged_{table}
"""

_DROP_MERGED = "DROP VIEW merged_{table}; DROP TABLE IF EXISTS compared_{table}"


def _nth(table: Table) -> str:
    """Return SQL that numbers equal rows; there are such rows only if a volatile column is part of the key."""
    volatile = [name for name in table.key if name in (table.volatile or ())]
    return (
        f"row_number() OVER (PARTITION BY {', '.join(table.content)} ORDER BY {', '.join(volatile)})"
        if volatile
        else "1"
    )


def _close(connection: duckdb.DuckDBPyConnection, names: dict[str, str], run_id: str) -> None:
    """Move the rows that are gone from the answers into the history, in stretches."""
    stretches = connection.execute(f"SELECT DISTINCT held_row // {_STRETCH} FROM held ORDER BY ALL").fetchall()
    if len(stretches) > 1:
        checkpoint(connection)
    connection.execute(_KEPT.format(**names))
    connection.execute(_CLOSED.format(**names), [run_id])
    for (stretch,) in stretches:
        first = stretch * _STRETCH
        connection.execute(_DELETE.format(**names, first=first, last=first + _STRETCH - 1))
        if len(stretches) > 1:
            checkpoint(connection)
    connection.execute(_KEEP_CLOSED.format(**names))


def _refresh(connection: duckdb.DuckDBPyConnection, table: Table, rows: str) -> None:
    """Update the volatile columns of rows that stay, from the relation `o`, joined by `held_row`."""
    if table.volatile:
        values = ", ".join(f"{name} = o.{name}" for name in table.volatile)
        differs = " OR ".join(f"t.{name} IS DISTINCT FROM o.{name}" for name in table.volatile)
        connection.execute(f"UPDATE {table.name} t SET {values} FROM {rows} WHERE t.rowid = held_row AND ({differs})")


def _make_room(connection: duckdb.DuckDBPyConnection, table: Table, staged: str, scope: tuple[str, ...]) -> None:
    """Move retained rows after the offered rows, so that no two rows have the same position."""
    if "position" in (table.volatile or ()):
        same = " AND ".join(f"t.{name} = o.{name}" for name in scope)
        connection.execute(_MAKE_ROOM.format(table=table.name, staged=staged, scope=", ".join(scope), same=same))
