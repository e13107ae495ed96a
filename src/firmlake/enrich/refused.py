"""Detect many newly refused lines of a list: the run is published, but is not done.

A column that was renamed or refilled removes companies from a list, which might go unnoticed.
"""

from __future__ import annotations

from shlex import quote
from typing import Final

from firmlake.core.run import Run
from firmlake.core.settings import Settings
from firmlake.enrich.causes import Cause
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake.warehouse.lists import held_name

__all__ = ["find_refused"]

_MANY: Final = 0.1
"""Ignore fewer newly refused lines than this share of the list: single wrong lines come and go."""
_FEWEST: Final = 3
"""Ignore fewer newly refused lines than this: in a short list, one or two lines exceed the share."""


def find_refused(settings: Settings, run: Run) -> list[Cause]:
    """Find out whether many more lines are refused than in the held version of the list.

    There is no cause for the first version of a list, or for a list that always has many refused lines; every run shows
    their number anyway.

    Args:
        settings: The memory for DuckDB.
        run: The run, which is not in the warehouse yet.
    """
    plan, name = run.plan, held_name(run)
    if not name or plan.refused_count < max(_FEWEST, _MANY * plan.line_count) or newest(run.folders) is None:
        return []
    with open_warehouse(run.folders, memory_limit=settings.run.duckdb_memory) as connection:
        line_count, before = connection.execute(_HELD, [name]).fetchall()[0]
    more = plan.refused_count - before
    if not line_count or more < _FEWEST or more <= _MANY * plan.line_count:
        return []
    return [
        Cause(
            f"{plan.refused_count:,} of {plan.line_count:,} lines of {plan.list_name} were refused, but "
            f"{before:,} in the version before, so companies may be missing by mistake",
            f"`firmlake list show {quote(name)}` shows the reasons; correct the file or map its columns (--map), then "
            "run it again",
        )
    ]


_HELD = "SELECT count(*), count(*) FILTER (status = 'refused') FROM list_members WHERE lower(list_name) = lower(?)"
"""`count_if` would return null if there are no lines."""
