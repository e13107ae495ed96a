"""Decide whether a load may follow the previous one, which tables it loads, and whether whole, as changes, or not.

The target should hold what the generation loaded last holds. If somebody else has changed it, all rows are loaded.
"""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import duckdb
import msgspec

from firmlake import __version__
from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.delivery.record import LoadRecord
from firmlake.delivery.request import LoadRequest
from firmlake.delivery.target import LoadTarget
from firmlake.exports.selection import BASE, LastLoad, attach, last_load
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.tables.stage import SCHEMA_VERSION
from firmlake.warehouse.exported import made_at
from firmlake.warehouse.loads import has_loaded

__all__ = ["check_follows", "choose_mode", "choose_tables", "start"]


def check_follows(
    connection: duckdb.DuckDBPyConnection, folders: Folders, held: LoadRecord, target: LoadTarget
) -> None:
    """Check that a target holds an earlier state of this data folder: a run, overview or plan that the folder has too.

    Raises:
        FirmlakeError: The target holds a later generation, or a load from another data folder.
    """
    take_over = "add --take-over to replace what it holds"
    if not has_loaded(connection, folders, held.run_id):
        raise FirmlakeError(
            f"{target.name}: schema {target.schema} holds run {held.run_id}, which is not in {folders.data}: "
            "it came from another data folder, or from a later copy of this one",
            f"Load into another schema (--schema), or {take_over}",
        )
    if held.published_at > last_load(connection).published_at:
        raise FirmlakeError(
            f"{target.name} holds a newer load, of generation {held.generation} from {held.published_at} UTC",
            f"Load from the data folder that it came from, or into another schema (--schema), or {take_over}",
        )


def choose_tables(request: LoadRequest, target: LoadTarget) -> tuple[str, ...]:
    """Add the tables that earlier loads put into the schema, so that all its tables are of the same generation."""
    made, there = target.made(), target.shapes()
    kept = (name for name in WAREHOUSE_TABLES if name in made and name in there)
    return tuple(dict.fromkeys((*request.tables, *kept)))


def choose_mode(
    connection: duckdb.DuckDBPyConnection,
    folders: Folders,
    request: LoadRequest,
    held: LoadRecord | None,
    target: LoadTarget,
) -> tuple[str, str]:
    """Decide what to load, and attach the generation that changes start from.

    Returns:
        `whole`, `changes`, or an empty text if the target already holds the newest generation; and why all rows are
        loaded, unless that was requested or nothing was loaded before.
    """
    if held is None or request.is_whole or request.takes_over:
        return "whole", ""
    if held.schema_version != SCHEMA_VERSION:
        return "whole", "the columns of the tables have changed since the last load"
    if set(held.tables) != set(request.tables):
        return "whole", "the last load had other tables"
    path = folders.generation(held.generation)
    if not path.exists():
        return "whole", f"generation {held.generation}, which was loaded last, is no longer kept"
    if made_at(folders, held.generation) != held.made_at:
        return "whole", f"generation {held.generation}, which was loaded last, was rebuilt since then"
    is_newest = held.generation == last_load(connection).generation
    if not is_newest:
        attach(connection, path)
    if difference := next(_differences(connection, "" if is_newest else f"{BASE}.", held, target), None):
        return "whole", f"the target was changed since the last load: {difference}"
    return ("" if is_newest else "changes"), ""


def start(request: LoadRequest, newest: LastLoad, made_at: str, held: LoadRecord | None, mode: str) -> LoadRecord:
    """Make the record of a load. Its name is derived from the content, so that an interrupted load can resume."""
    content = (
        newest.generation, newest.published_at, made_at, mode, held and held.load_id, request.tables, SCHEMA_VERSION
    )  # fmt: skip
    digest = hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:8]
    return LoadRecord(
        load_id=f"{newest.run_id}-{mode}-{digest}",
        loaded_at=newest.published_at,
        mode=mode,
        run_id=newest.run_id,
        generation=newest.generation,
        published_at=newest.published_at,
        made_at=made_at,
        base_generation=held.generation if held and mode == "changes" else None,
        schema_version=SCHEMA_VERSION,
        firmlake_version=__version__,
    )


# ---------------------------------------------------------------------------------------------------------------------


def _differences(
    connection: duckdb.DuckDBPyConnection, prefix: str, held: LoadRecord, target: LoadTarget
) -> Iterator[str]:
    """Yield how a target differs from what was loaded: tables, columns and types first, then counts.

    A value that somebody replaced by another value goes unnoticed, because finding it would take reading every row.
    """
    there = target.shapes()
    for name, shape in held.tables.items():
        now = dict(there.get(name, ()))
        if not now:
            yield f"{name} is gone"
        for column, kind in shape:
            if column not in now:
                yield f"{name} has no column {column}"
            elif now[column] != kind:
                yield f"{name}.{column} is {now[column]} instead of {kind}"
    for name, shape in held.tables.items():
        columns = [column for column, _ in shape]
        counted = ", ".join(("count(*)", *(f"count({column})" for column in columns)))
        expected = connection.execute(f"SELECT {counted} FROM {prefix}{name}").fetchall()[0]
        for column, count, wanted in zip(("", *columns), target.count(name, columns), expected, strict=True):
            if count != wanted:
                yield f"{name} has {count:,} {f'values of {column}' if column else 'rows'} instead of {wanted:,}"
