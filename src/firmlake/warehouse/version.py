"""Whether the tables of a generation have the shape that this version of firmlake knows, and what to do where not."""

from __future__ import annotations

import duckdb

from firmlake.core.errors import FirmlakeError
from firmlake.tables.stage import SCHEMA_VERSION

__all__ = ["check_version"]


def check_version(connection: duckdb.DuckDBPyConnection) -> None:
    """Make sure that a generation's tables have the known shape; one that holds no load has any.

    Raises:
        FirmlakeError: An earlier or a later version of firmlake made it.
    """
    try:
        versions = connection.execute("SELECT DISTINCT schema_version FROM loads").fetchall()
    except duckdb.CatalogException:
        return
    others = [version for (version,) in versions if version != SCHEMA_VERSION]
    if not others:
        return
    when, next_step = (
        ("a later", "Install that version again, or let `firmlake replay` make it anew as this version does")
        if max(others) > SCHEMA_VERSION
        else ("an earlier", "`firmlake replay` makes it again from the landed answers, without a request")
    )
    raise FirmlakeError(
        f"The warehouse was made by {when} version of firmlake, whose tables have another shape "
        f"(version {max(others)}, here it is {SCHEMA_VERSION})",
        next_step,
    )
