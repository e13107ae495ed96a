"""The log of renamed and removed company lists.

A run keeps the name under which its list was frozen. This log records later changes of names, so that a replay gives
each list its current name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders

__all__ = ["NameChange", "current_name", "log_name_change", "read_name_changes", "write_name_changes"]


class NameChange(msgspec.Struct, frozen=True, kw_only=True):
    """A list that was renamed, or removed.

    Attributes:
        at: When, UTC. The change applies to runs that were planned before.
        name: The name before.
        new_name: The name since; empty if the list was removed.
    """

    at: datetime
    name: str
    new_name: str = ""


def read_name_changes(folders: Folders) -> tuple[NameChange, ...]:
    """Read the log, oldest change first.

    Raises:
        DamagedError: The log was changed. Restore it from a copy, or remove it to use original names.
    """
    path = folders.list_names
    next_step = "Restore it from a copy, or remove it: lists then have the names under which they were run"
    return read_json(path, tuple[NameChange, ...], next_step) if path.exists() else ()


def log_name_change(folders: Folders, change: NameChange) -> None:
    """Append a change to the log."""
    write_json(folders.list_names, (*read_name_changes(folders), change))


def write_name_changes(folders: Folders, changes: Iterable[NameChange]) -> None:
    """Write the whole log, oldest change first; without changes, write nothing."""
    if ordered := sorted(changes, key=lambda change: change.at):
        write_json(folders.list_names, tuple(ordered))


def current_name(name: str, planned_at: datetime, changes: Sequence[NameChange]) -> str:
    """Return the current name of the list of a run; empty if the list was removed since then.

    Args:
        name: The name under which the run was frozen.
        planned_at: When the run was planned, UTC.
        changes: The log.
    """
    for change in changes:
        if change.at >= planned_at and change.name.casefold() == name.casefold():
            name = change.new_name
    return name
