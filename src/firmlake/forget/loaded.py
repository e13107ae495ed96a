"""Clean the databases that `firmlake load` wrote to: load the cleaned generation, then free the space of old rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import msgspec
import polars as pl

from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings
from firmlake.delivery.database import Database, Shape
from firmlake.delivery.deliver import Request, load, open_target
from firmlake.forget.place import Place, count_changed
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.frames import clean_frame
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.exported import LastExport

__all__ = ["clean_load"]

_TEXTS = ("text", "json")


def clean_load(
    folders: Folders,
    last: LastExport,
    forgotten: Forgotten,
    settings: Settings,
    now: Callable[[], datetime],
    remarks: list[str],
    *,
    write: bool,
) -> Iterator[Place]:
    """Clean a database, after the generations of the data folder were cleaned.

    Args:
        folders: The data folder.
        last: The last load into the database.
        forgotten: The forgotten subjects.
        settings: The memory limit of DuckDB.
        now: The clock, UTC.
        remarks: Gets a sentence appended about deleted rows that the database keeps elsewhere.
        write: False only finds the places.

    Yields:
        A place for each table that names a forgotten subject.

    Raises:
        FirmlakeError: The database cannot be reached, or holds a load from another data folder.
    """
    address, schema = last.database
    if address.startswith("duckdb:") and not Path(address.removeprefix("duckdb:")).exists():
        raise FirmlakeError(f"There is no file {address.removeprefix('duckdb:')}", "Make it available again")
    request = Request(target=address, schema=schema, mode="whole", memory_limit=settings.run.duckdb_memory)
    with open_target(request) as target:
        there = target.shapes()
        loaded = {name: there[name] for name in target.made() if name in there and name in WAREHOUSE_TABLES}
        places = list(_find(target, loaded, forgotten))
    if write and loaded and (places or not forgotten.register.is_done):
        if places:
            load(folders, msgspec.structs.replace(request, tables=tuple(loaded)), now)
        with open_target(request) as target:
            if remark := target.reclaim(tuple(loaded)):
                remarks.append(remark)
    yield from places


# ---------------------------------------------------------------------------------------------------------------------


def _find(target: Database, loaded: Mapping[str, Shape], forgotten: Forgotten) -> Iterator[Place]:
    for name, shape in loaded.items():
        known = WAREHOUSE_TABLES[name]
        texts = tuple(column for column in known.columns if column.type in _TEXTS and column.name in dict(shape))
        if not texts:
            continue
        count = 0
        for rows in target.read(known._replace(columns=texts)):
            frame = pl.DataFrame(rows, schema={column.name: pl.String for column in texts}, orient="row")
            count += count_changed(frame, clean_frame(frame, forgotten))
        if count:
            yield Place(f"{target.name} {name}", "load", count)
