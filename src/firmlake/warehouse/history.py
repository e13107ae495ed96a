"""History: the one way in which rows take the place of others, so that the others can still be asked for.

A row of a table holds from the run in `valid_from_run`. The run that finds it changed or gone moves it into
`<table>_history` and writes itself into `valid_to_run`: the row held from the first of the two until before the second.
"""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

import duckdb

from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES, Table
from firmlake.warehouse.generations import settle

__all__ = ["compare", "count_rows", "merge", "supersede"]

_STRETCH = 4_000_000
"""Rows of a table from which some are deleted before that is settled: until then each row of them takes 8 bytes."""


def supersede(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    scope: tuple[str, ...],
    answered: str,
    staged: str,
    run_id: str,
    spared: str = "false",
    *,
    is_all_answered: bool = False,
) -> int:
    """Let staged rows take the place of what a table holds, as far as there really was an answer.

    A row stays untouched where the answer has an equal one: equal in all but where it comes from and the table's
    volatile columns, which are brought up to date. Rows that are there twice are matched one to one.

    Args:
        connection: In a transaction; what was loaded before is settled.
        table: Of those that keep history.
        scope: Columns that say what an answer is about, such as country and company_number.
        answered: Relation with these columns: what was answered in full. Nothing else is touched. Where a whole
            snapshot was answered, that is every key held or staged.
        staged: Relation with the table's columns but `valid_from_run`; rows that were not answered are passed over.
        run_id: Run that brings them.
        spared: Which held rows `h` stay although the answer lacks them, because not all of it could be read.
        is_all_answered: Whether no staged row is passed over: a first load need not look at the keys then.

    Returns:
        Rows written. What was closed stands in the temporary table `closed_<table>` until the next call for the table.
    """
    shape = WAREHOUSE_TABLES[table]
    names = {
        "table": table,
        "scope": ", ".join(scope),
        "answered": answered,
        "staged": staged,
        "same": " AND ".join(f"h.{name} IS NOT DISTINCT FROM o.{name}" for name in shape.content),
        "nth": _nth(shape),
        "spared": spared,
        "columns": ", ".join(column.name for column in shape.columns if column.name != "valid_from_run"),
    }
    settle(connection)  # rows that are not settled get other row ids when they are
    if not count_rows(connection, _HELD.format(**names)):
        connection.execute(_NONE_CLOSED.format(**names))
        among = "" if is_all_answered else "SEMI JOIN {answered} a USING ({scope})".format(**names)
        return count_rows(connection, _INSERT_ALL.format(**names, among=among), run_id)
    connection.execute(_OFFERED.format(**names))
    stretches = connection.execute(f"SELECT DISTINCT held_row // {_STRETCH} FROM held ORDER BY ALL").fetchall()
    if len(stretches) > 1:
        settle(connection, keeps_row_ids=True)
    connection.execute(_KEPT.format(**names))
    connection.execute(_CLOSED.format(**names), [run_id])
    for (stretch,) in stretches:
        first = stretch * _STRETCH
        connection.execute(_DELETE.format(**names, first=first, last=first + _STRETCH - 1))
        if len(stretches) > 1:
            settle(connection, keeps_row_ids=True)
    connection.execute(f"INSERT INTO {table}_history BY NAME SELECT * FROM closed_{table}")
    _refresh(connection, shape, "kept JOIN offered o ON o.rowid = offered_row")
    if spared != "false":
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
    """Put rows for a table into the temporary table `merged_<table>`, each compared with the one that has its key.

    Args:
        connection: In a transaction; what was loaded before is settled.
        table: Of those that keep history.
        query: Gives a row for each key, and beside its values the row of the table that has the key, as the struct
            `held` and its `held_row`, null where there is none. What else it gives stays.
    """
    same = " AND ".join(f"o.{name} IS NOT DISTINCT FROM held.{name}" for name in WAREHOUSE_TABLES[table].content)
    settle(connection)  # as in `supersede`
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE merged_{table} AS "
        "SELECT * EXCLUDE (held), held.valid_from_run AS held_since, "
        f"held_row IS NOT NULL AND {same} AS is_same FROM ({query}) o"
    )


def merge(connection: duckdb.DuckDBPyConnection, table: str, run_id: str) -> None:
    """Let the rows that `compare` found to differ take the place of those with the same key, as `supersede` does.

    Of the others the volatile columns are brought up to date.
    """
    differing = f"(FROM merged_{table} WHERE NOT is_same)"
    supersede(connection, table, TABLES[table].key, differing, differing, run_id, is_all_answered=True)
    # Written anew, for an update of millions of rows would have to fit into memory.
    columns = ", ".join(column.name for column in TABLES[table].columns)
    connection.execute(f"DELETE FROM {table} WHERE rowid IN (SELECT held_row FROM merged_{table} WHERE is_same)")
    connection.execute(
        f"INSERT INTO {table} BY NAME SELECT {columns}, held_since AS valid_from_run FROM merged_{table} WHERE is_same"
    )
    connection.execute(f"DROP TABLE merged_{table}")


def count_rows(connection: duckdb.DuckDBPyConnection, statement: str, *values: str) -> int:
    """Execute a statement that counts, or that says how many rows it wrote."""
    row = connection.execute(statement, values).fetchone()
    return int(row[0]) if row else 0


# ---------------------------------------------------------------------------------------------------------------------

_HELD = """
    CREATE OR REPLACE TEMP TABLE held AS
    SELECT t.rowid AS held_row, {nth} AS nth, t.*
    FROM {table} t SEMI JOIN {answered} a USING ({scope})
"""

# Companies of which nothing is held need no comparison.
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
    SELECT * EXCLUDE (held_row, nth), ? AS valid_to_run FROM held h ANTI JOIN kept USING (held_row) WHERE NOT ({spared})
"""

_NONE_CLOSED = "CREATE OR REPLACE TEMP TABLE closed_{table} AS FROM {table}_history LIMIT 0"

_DELETE = """
    DELETE FROM {table} WHERE rowid IN (
        SELECT held_row FROM held h ANTI JOIN kept USING (held_row)
        WHERE NOT ({spared}) AND held_row BETWEEN {first} AND {last})
"""

# Nobody knows where in the answer the rows are that could not be read.
_MAKE_ROOM = """
    UPDATE {table} t SET position = t.position + o.height
    FROM (SELECT {scope}, max(position) + 1 AS height FROM {staged} GROUP BY {scope}) o
    WHERE {same} AND t.rowid IN (SELECT held_row FROM held ANTI JOIN kept USING (held_row))
"""

# A first load writes its rows straight into the table.
_INSERT_ALL = """
    INSERT INTO {table} BY NAME SELECT {columns}, ? AS valid_from_run FROM {staged} s {among}
"""

# Two statements, and keys apart: each join has to fit into memory beside the rows that are written.
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


def _nth(table: Table) -> str:
    """Number equal rows: only where a volatile column is part of the key can there be some."""
    volatile = [name for name in table.key if name in (table.volatile or ())]
    return (
        f"row_number() OVER (PARTITION BY {', '.join(table.content)} ORDER BY {', '.join(volatile)})"
        if volatile
        else "1"
    )


def _refresh(connection: duckdb.DuckDBPyConnection, table: Table, rows: str) -> None:
    """Bring the volatile columns of rows that stay up to date, from `o`, which says by `held_row` for which it is."""
    if table.volatile:
        values = ", ".join(f"{name} = o.{name}" for name in table.volatile)
        differs = " OR ".join(f"t.{name} IS DISTINCT FROM o.{name}" for name in table.volatile)
        connection.execute(f"UPDATE {table.name} t SET {values} FROM {rows} WHERE t.rowid = held_row AND ({differs})")


def _make_room(connection: duckdb.DuckDBPyConnection, table: Table, staged: str, scope: tuple[str, ...]) -> None:
    """Put rows that were spared behind those that were offered, whose places they may have."""
    if "position" in (table.volatile or ()):
        same = " AND ".join(f"t.{name} = o.{name}" for name in scope)
        connection.execute(_MAKE_ROOM.format(table=table.name, staged=staged, scope=", ".join(scope), same=same))
