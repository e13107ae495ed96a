"""Detect a list that lost many companies at once: the run is published, but is not done.

A column that was renamed or refilled, or a file that was only half written when it was read, removes companies from a
list, which might go unnoticed.
"""

from __future__ import annotations

from shlex import quote
from typing import Final

from firmlake.core.run import Run
from firmlake.core.settings import Settings
from firmlake.enrich.causes import Cause
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake.warehouse.lists import held_name

__all__ = ["find_lost"]

_MANY: Final = 0.1
"""Ignore fewer lost lines or companies than this share of the list: single ones come and go."""
_FEWEST_REFUSED: Final = 3
"""Ignore fewer newly refused lines than this: in a short list, one or two lines exceed the share."""
_FEWEST_GONE: Final = 10
"""Ignore fewer companies than this that are gone: they leave a short list on purpose more often than by mistake."""


def find_lost(settings: Settings, run: Run) -> list[Cause]:
    """Find out whether many more lines are refused, or many fewer companies named, than in the held version of a list.

    There is no cause for the first version of a list, for a sample, or for a list that always has many refused lines;
    every run shows their number anyway.

    Args:
        settings: The memory for DuckDB, and whether the run is a sample.
        run: The run, which is not in the warehouse yet.
    """
    plan, name = run.plan, held_name(run)
    if not name or settings.run.sample or newest(run.folders) is None:
        return []
    with open_warehouse(run.folders, memory_limit=settings.run.duckdb_memory) as connection:
        held = connection.execute(_HELD, [name]).fetchall()
    if not held:
        return []
    [(company_count, refused_count)] = held
    more, gone = plan.refused_count - refused_count, company_count - plan.company_count
    if more >= _FEWEST_REFUSED and more > _MANY * plan.line_count:
        return [
            Cause(
                f"{plan.refused_count:,} of {plan.line_count:,} lines of {plan.list_name} were refused, but "
                f"{refused_count:,} in the version before, so companies may be missing by mistake",
                f"`firmlake list show {quote(name)}` shows the reasons; correct the file or map its columns (--map), "
                "then run it again",
            )
        ]
    if gone >= _FEWEST_GONE and gone > _MANY * company_count:
        return [
            Cause(
                f"{plan.list_name} names {plan.company_count:,} companies, and {company_count:,} in the version "
                "before, so companies may be missing by mistake",
                "Compare the file with its source, since it may have been read while it was written, then run it "
                "again; if they left on purpose, do nothing",
            )
        ]
    return []


_HELD = """
    SELECT company_count, (SELECT count(*) FROM list_members m WHERE m.list_name = l.list_name AND status = 'refused')
    FROM company_lists l WHERE lower(list_name) = lower(?)
"""
