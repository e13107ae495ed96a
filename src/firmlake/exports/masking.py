"""Drop or hash columns of an export, as set by `export.mask`."""

# ruff: noqa: S608 - statements are put together from our own names of tables and columns, never from data

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache

import duckdb

from firmlake.core.errors import SettingsError
from firmlake.exports.selection import CHANGE, Selected
from firmlake.privacy.key import keyed_hash
from firmlake.tables.schemas import PRIVACY, WAREHOUSE_TABLES, Column, Table

__all__ = ["check_mask", "mask_columns"]

_FUNCTION = "keyed"
_HASHES = 262_144


def check_mask(mask: Mapping[str, str]) -> None:
    """Check that each pattern names a kind of personal data or a column of some table.

    Raises:
        SettingsError: A pattern names nothing. Correct it, because a misspelt mask would mask nothing.
    """
    for pattern in mask:
        if not any(_fits(pattern, table, column) for table in WAREHOUSE_TABLES.values() for column in table.columns):
            kinds = ", ".join(kind for kind in PRIVACY if kind)
            raise SettingsError(
                f"export.mask: {pattern} names no column",
                f"Give TABLE.COLUMN, *.COLUMN, or a kind of personal data: {kinds}",
            )


def mask_columns(
    connection: duckdb.DuckDBPyConnection, selected: Selected, mask: Mapping[str, str], key: bytes
) -> Selected:
    """Return a table without its dropped columns and with keyed hashes in its hashed ones.

    Equal values have equal hashes in all tables, so hashed columns can still be joined. If a column of the key is
    dropped, the table has no key.

    Args:
        connection: The connection that will run the query.
        selected: The table as it would be exported.
        mask: "drop" or "hash" by pattern. If several patterns fit a column, "drop" wins.
        key: The key of the hashes.
    """
    actions = {column.name: _action(mask, selected.table, column) for column in selected.table.columns}
    if not any(actions.values()):
        return selected
    if "hash" in actions.values():
        _create_function(connection, key)
    kept = [column for column in selected.table.columns if actions[column.name] != "drop"]
    names = (
        f"{_FUNCTION}({column.name}::VARCHAR) AS {column.name}" if actions[column.name] == "hash" else column.name
        for column in kept
    )
    columns = tuple(_hashed(column) if actions[column.name] == "hash" else column for column in kept)
    is_whole = all(actions.get(name) != "drop" for name in selected.table.key)
    table = selected.table._replace(columns=columns, key=selected.table.key if is_whole else ())
    return Selected(table, f"SELECT {', '.join(names)} FROM ({selected.query})")


# ---------------------------------------------------------------------------------------------------------------------


def _action(mask: Mapping[str, str], table: Table, column: Column) -> str:
    if column is CHANGE or column.name == "country":  # files are divided by country
        return ""
    found = {action for pattern, action in mask.items() if _fits(pattern, table, column)}
    return "drop" if "drop" in found else next(iter(found), "")


def _fits(pattern: str, table: Table, column: Column) -> bool:
    return pattern == column.privacy or fnmatchcase(f"{table.name}.{column.name}", pattern)


def _hashed(column: Column) -> Column:
    return column._replace(type="text", meaning=f"Keyed hash, by export.mask. {column.meaning}")


def _create_function(connection: duckdb.DuckDBPyConnection, key: bytes) -> None:
    hashed = lru_cache(maxsize=_HASHES)(lambda value: keyed_hash(key, "export", value))
    known = connection.execute("SELECT 1 FROM duckdb_functions() WHERE function_name = ?", [_FUNCTION]).fetchall()
    if not known:
        connection.create_function(_FUNCTION, hashed, ["VARCHAR"], "VARCHAR")
