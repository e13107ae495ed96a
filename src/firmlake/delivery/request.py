"""The request for a load, from the settings and the command line."""

from __future__ import annotations

import msgspec

from firmlake.core.errors import UsageError
from firmlake.core.settings import Settings
from firmlake.exports.selection import EXPORTED_TABLES

__all__ = ["LoadRequest", "request_of"]


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to load, and where.

    Attributes:
        target: `postgres://HOST/DATABASE`, `snowflake://ACCOUNT/DATABASE`, `bigquery://PROJECT/DATASET`, `duckdb:FILE`.
        schema: The schema of the tables in the target.
        tables: The tables to load, in addition to those that earlier loads put into the schema.
        is_whole: Load all rows, even if loading the changes would be enough.
        takes_over: Replace what another data folder loaded into the schema.
        memory_limit: The most memory that DuckDB may use.
    """

    target: str
    schema: str = "firmlake"
    tables: tuple[str, ...] = EXPORTED_TABLES
    is_whole: bool = False
    takes_over: bool = False
    memory_limit: str = "224MB"


def request_of(settings: Settings, *, is_whole: bool = False, takes_over: bool = False) -> LoadRequest:
    """Make a request from the settings.

    Raises:
        UsageError: The settings name no target. Set `load.target`.
    """
    wanted = settings.load
    if not wanted.target:
        raise UsageError("No target is named", "Run `firmlake load postgres://HOST/DATABASE`, or set load.target")
    return LoadRequest(
        target=wanted.target,
        schema=wanted.schema,
        tables=wanted.tables or EXPORTED_TABLES,
        is_whole=is_whole,
        takes_over=takes_over,
        memory_limit=settings.run.duckdb_memory,
    )
