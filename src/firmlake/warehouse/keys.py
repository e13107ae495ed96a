"""Check that each company, and each company and dataset, has one row, because payments depend on that."""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

import duckdb

from firmlake.core.errors import DamagedError
from firmlake.tables.schemas import TABLES

__all__ = ["check_keys"]

_TABLES = ("companies", "company_state")


def check_keys(connection: duckdb.DuckDBPyConnection) -> None:
    """Check that no key occurs twice.

    Args:
        connection: A generation, published or not.

    Raises:
        DamagedError: A company occurs twice; the message names the table and a key.
    """
    for table in _TABLES:
        key = ", ".join(TABLES[table].key)
        repeated = f"SELECT {key} FROM {table} GROUP BY ALL HAVING count(*) > 1"
        if found := connection.execute(
            f"SELECT count(*), any_value(({key})) FROM ({repeated}) HAVING count(*) > 0"
        ).fetchall():
            count, example = found[0]
            raise DamagedError(
                f"The table {table} has several rows for {count:,} of its keys, such as {' '.join(example)}",
                "Rebuild the warehouse with `firmlake replay`, which sends no request",
            )
