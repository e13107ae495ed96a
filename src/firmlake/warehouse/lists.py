"""Load the lines and versions of company lists, and create a view of each list in the schema `lists`."""

# ruff: noqa: S608 - statements are put together from our own names and quoted names of lists

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from itertools import product

import duckdb

from firmlake.core.sql import quote_name, quote_text, read_queries
from firmlake.landing.run import Run
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake.warehouse.incomplete import describe_incomplete, read_incomplete
from firmlake.warehouse.list_names import current_name, read_name_changes
from firmlake.warehouse.versions import supersede, versions_of

_SQL = read_queries(__file__)

_TABLES = ("company_lists", "list_members")


def load_members(connection: duckdb.DuckDBPyConnection, run: Run, number: int) -> int:
    """Replace the held version of a list by the version of a run, unless the run was planned earlier.

    Return the number of lines written; 0 if the list has not changed.
    """
    from firmlake.intake.lines import read_columns  # here, because readers import this module to show lists

    plan, given = run.plan, held_name(run)
    if not given:
        return 0
    name, listed_at, held_hash = _held(connection, given)
    started_at = plan.started_at.replace(tzinfo=None)
    if listed_at is not None and listed_at > started_at:
        return 0
    stored, content_hash = run.checked("list"), plan.files["list"]
    columns = json.dumps(read_columns(stored).names, ensure_ascii=False)
    connection.execute(_SQL['staged_list'].format(lines=quote_text(str(stored))), {
        "name": name, "file": plan.list_name, "columns": columns,
        "hash": content_hash, "at": started_at, "run": run.run_id,
    })  # fmt: skip
    scope = f"(SELECT {quote_text(name)} AS list_name)"
    supersede(connection, "company_lists", ("list_name",), scope, "staged_list", number)
    if held_hash == content_hash:
        return 0
    connection.execute(
        _SQL["staged_members"].format(lines=quote_text(str(stored)), name=quote_text(name), run=quote_text(run.run_id))
    )
    return supersede(connection, "list_members", ("list_name",), scope, "staged_lines", number)


def held_name(run: Run) -> str:
    """Return the current name of the list of a run; empty if it has no list or the list was removed since then."""
    plan = run.plan
    changes = read_name_changes(run.folders) if plan.company_list else ()
    return current_name(plan.company_list, plan.started_at, changes)


def count_held(run: Run, memory_limit: str) -> tuple[int, int] | None:
    """Count companies and refused lines in the published version of the list of a run; None if there is none."""
    name = held_name(run)
    if not name or newest(run.folders) is None:
        return None
    with open_warehouse(run.folders, memory_limit=memory_limit) as connection:
        return next(iter(connection.execute(_SQL["held_version"], [name]).fetchall()), None)


def create_list_views(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Create the views of lists that have none, and the function that finds a view by its list; return these views."""
    rows = connection.execute("SELECT list_name, list_or_table(list_name) FROM company_lists ORDER BY ALL").fetchall()
    views = {name: f"lists.{quote_name(name)}" for name, _ in rows}
    new = [name for name, found in rows if found != views[name]]
    for name in new:
        connection.execute(f"CREATE OR REPLACE VIEW {views[name]} AS {_SQL['view'].format(name=quote_text(name))}")
    found = " ".join(
        f"WHEN {quote_text(name.lower())} THEN {quote_text(view)}"
        for name, view in views.items()
        if name.lower() not in WAREHOUSE_TABLES
    )
    body = f"CASE lower(relation_name) {found} ELSE relation_name END" if found else "relation_name"
    connection.execute(f"CREATE OR REPLACE MACRO list_or_table(relation_name) AS {body}")
    return [views[name] for name in new]


def comment_list_views(connection: duckdb.DuckDBPyConnection, new: Iterable[str] = ()) -> None:
    """Say of the view of each list whether the list is complete, and describe the columns of new views.

    The views that the columns come from must have comments.
    """
    lists = connection.execute("SELECT list_name, file_name FROM company_lists ORDER BY ALL").fetchall()
    incomplete = read_incomplete(connection, of_lists=True) if lists else []
    for name, file_name in lists:
        meaning = (
            f"One row per line of the list {name} ({file_name}), in its order, with the figures of its company. "
            f"{describe_incomplete(each for each in incomplete if each.list_name == name)}"
        )
        connection.execute(f"COMMENT ON VIEW lists.{quote_name(name)} IS {quote_text(meaning)}")
    for view, (column, comment) in product(new, connection.execute(_SQL["comments"]).fetchall() if new else ()):
        connection.execute(f"COMMENT ON COLUMN {view}.{quote_name(column)} IS {quote_text(comment)}")


def rename_list(connection: duckdb.DuckDBPyConnection, name: str, new_name: str) -> None:
    """Rename a list and its past versions."""
    connection.execute(_DROP_VIEW.format(quote_name(name)))
    for table in _TABLES:
        connection.execute(f"UPDATE {versions_of(table)} SET list_name = ? WHERE list_name = ?", [new_name, name])


def drop_list(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Remove a list and its past versions; the companies on it stay."""
    connection.execute(_DROP_VIEW.format(quote_name(name)))
    for table in _TABLES:
        connection.execute(f"DELETE FROM {versions_of(table)} WHERE list_name = ?", [name])


_DROP_VIEW = "DROP VIEW IF EXISTS lists.{}"

_HELD = "SELECT list_name, listed_at, content_hash FROM company_lists WHERE lower(list_name) = lower(?)"


def _held(connection: duckdb.DuckDBPyConnection, given: str) -> tuple[str, datetime | None, str]:
    """Return the name under which a list is held, when it was last listed, and the hash of its lines."""
    rows = connection.execute(_HELD, [given]).fetchall()
    return rows[0] if rows else (given, None, "")
