"""Names of company lists: the records of their changes, and finding a list of a generation by its name.

A run keeps the name under which it read its list. Records tell later changes of names, so that a replay gives each list
its current name:

    landing/list_names/<hash>.json     a change of a name, named after its content
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any, NamedTuple

import duckdb
import msgspec

from firmlake.core.errors import UsageError
from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders
from firmlake.core.sql import fetch_dicts, quote_name, read_queries

_SQL = read_queries(__file__)

_LISTS = "SELECT list_name, file_name, column_names, line_count, run_id FROM company_lists ORDER BY list_name"


class NameChange(msgspec.Struct, frozen=True, kw_only=True):
    """A list that was renamed, or removed."""

    at: datetime  # UTC; the change applies to runs that were planned before
    name: str  # the name before
    new_name: str = ""  # the name since; empty if the list was removed


class NamedList(NamedTuple):
    """A list in the warehouse: name, file, names of its columns as a JSON array, number of lines, run that read it."""

    name: str
    file_name: str
    column_names: str
    line_count: int
    run_id: str


def read_name_changes(folders: Folders) -> list[NameChange]:
    """Read the changes, oldest first; after a DamagedError, restore the record, or remove it to use the name before."""
    next_step = "Restore it from a copy, or remove it: the list then has the name before"
    changes = (read_json(path, NameChange, next_step) for path in sorted(folders.list_names.glob("*.json")))
    return sorted(changes, key=lambda change: change.at)


def record_name_change(folders: Folders, change: NameChange) -> None:
    """Record a change."""
    name = hashlib.sha256(msgspec.json.encode(change)).hexdigest()
    write_json(folders.list_names / f"{name}.json", change)


def current_name(name: str, planned_at: datetime, changes: Sequence[NameChange]) -> str:
    """Return the current name of the list of a run, planned then (UTC); empty if the list was removed since."""
    for change in changes:
        if change.at >= planned_at and change.name.casefold() == name.casefold():
            name = change.new_name
    return name


def find_named_list(connection: duckdb.DuckDBPyConnection, name: str) -> NamedList:
    """Find a list by its name, ignoring case. If there is none, the UsageError suggests a similar name."""
    rows = connection.execute(_LISTS).fetchall()
    known = {row[0].lower(): NamedList(*row) for row in rows}
    if name.lower() in known:
        return known[name.lower()]
    near = get_close_matches(name.lower(), known, n=1)
    hint = f"Did you mean {known[near[0]].name!r}? " if near else ""
    raise UsageError(
        f"There is no list {name!r}", f"{hint}`firmlake list show` shows all lists, `firmlake run LIST` adds one"
    )


def list_names(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """List the names of all lists."""
    return [row[0] for row in connection.execute(_LISTS).fetchall()]


def restrict(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Restrict all tables of companies, and therefore all views, of a connection to the companies of a list.

    The variable `company_list` names the list to those who need its runs.
    """
    found = find_named_list(connection, name)
    connection.execute(_SQL["listed"], [found.name])
    connection.execute("SET VARIABLE company_list = ?", [found.name])
    for database, table in connection.execute(_SQL["of_companies"]).fetchall():
        whole = f"{quote_name(database)}.main.{quote_name(table)}"
        columns = "rowid, *" if table.endswith("_versions") else "*"  # some views join versions by their row
        restricted = f"SELECT {columns} FROM {whole} SEMI JOIN listed USING (country, company_number)"  # noqa: S608
        connection.execute(f"CREATE TEMP VIEW {quote_name(table)} AS {restricted}")


def read_list_overview(connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Read all lists, by name."""
    return fetch_dicts(connection.execute(_SQL["overview"]))


def read_list_status(connection: duckdb.DuckDBPyConnection, name: str) -> dict[str, Any]:
    """Read one list: its lines by status, the first lines without data, and the companies that joined or left last."""
    found = find_named_list(connection, name)
    return {
        "list_name": found.name,
        "file_name": found.file_name,
        "line_count": found.line_count,
        "view": f"lists.{quote_name(found.name)}",
        "statuses": dict(connection.execute(_STATUSES, [found.name]).fetchall()),
        "problems": fetch_dicts(connection.execute(_SQL["problems"], [found.name, _PROBLEMS_MAX])),
        "moves": fetch_dicts(connection.execute(_SQL["moves"], {"name": found.name})),
    }


_STATUSES = "SELECT status, count(*) FROM list_lines WHERE list_name = ? GROUP BY ALL ORDER BY count(*) DESC, status"
_PROBLEMS_MAX = 1000
