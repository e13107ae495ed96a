"""The names that lists were given since they were run: a list may be renamed, or removed from the warehouse.

A run keeps the name under which its list was frozen. What was done to names afterwards stands in a log beside the runs,
so that a replay gives a list the name it has now.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from firmlake.core.files import read_json, write_json
from firmlake.core.run import Folders

__all__ = ["NameChange", "current_name", "log_name_change", "read_name_changes"]


class NameChange(msgspec.Struct, frozen=True, kw_only=True):
    """A list that was renamed, or removed.

    Attributes:
        at: When, UTC; it concerns the runs that were planned before.
        name: The name until then.
        new_name: The name from then on; empty where the list was removed.
    """

    at: datetime
    name: str
    new_name: str = ""


def read_name_changes(folders: Folders) -> tuple[NameChange, ...]:
    """Read what was done to the names of lists, oldest first.

    Raises:
        DamagedError: The log is not what was written.
    """
    path = folders.list_names
    next_step = "Restore it from a copy, or remove it: lists then have the names under which they were run"
    return read_json(path, tuple[NameChange, ...], next_step) if path.exists() else ()


def log_name_change(folders: Folders, change: NameChange) -> None:
    """Add to the log what is done to a name."""
    write_json(folders.list_names, (*read_name_changes(folders), change))


def current_name(name: str, planned_at: datetime, changes: Sequence[NameChange]) -> str:
    """Give the name that the list of a run has now; empty where the list was removed since.

    Args:
        name: The name under which the run was frozen.
        planned_at: When, UTC.
        changes: The log.
    """
    for change in changes:
        if change.at >= planned_at and change.name.casefold() == name.casefold():
            name = change.new_name
    return name
