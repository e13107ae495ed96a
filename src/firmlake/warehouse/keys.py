"""The check that each company, and each company and dataset, has one row: what is paid for depends on it."""

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
                f"The warehouse has {count:,} rows of {table} more than once, such as {' '.join(example)}",
                "`firmlake replay` makes it again from the landed answers, without a request",
            )
