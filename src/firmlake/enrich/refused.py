"""Lines of a list that are refused and were not before: the run is published, but does not end as done.

A column that was renamed or holds something else takes companies off a list, and nobody may be looking.
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
"""Share of a list's lines: single wrong lines come and go."""
_FEWEST: Final = 3
"""In a short list, one or two lines are more than that share."""


def find_refused(settings: Settings, run: Run) -> list[Cause]:
    """Find out whether many more lines are refused than in the held version of the list.

    A list that always has many such lines causes nothing, nor does its first version: a run states their number.

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
            f"{plan.refused_count:,} of {plan.line_count:,} lines of {plan.list_name} were refused, {before:,} in the "
            "version before, so companies may have left it by mistake",
            f"`firmlake list show {quote(name)}` says why; correct the file or map its columns (--map), then run it "
            "again",
        )
    ]


_HELD = "SELECT count(*), count(*) FILTER (status = 'refused') FROM list_members WHERE lower(list_name) = lower(?)"
"""Over no lines, `count_if` would return null."""
