"""Rename or remove company lists, by a record and in the next generation of the warehouse."""

from __future__ import annotations

import duckdb

from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings
from firmlake.core.work import Clock
from firmlake.landing.run import new_run_id
from firmlake.service_lists.load import publish_lists
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.list_names import NameChange, find_named_list, list_names, record_name_change
from firmlake.warehouse.lists import drop_list, rename_list

_NAME_MAX = 100


def change_name(folders: Folders, settings: RunSettings, name: str, new_name: str, now: Clock) -> str:
    """Rename a list, or remove it if its new name is empty; return the name that it had.

    The record is written first. If the command is interrupted before the warehouse is changed, run it again. A new name
    that is taken or not valid is a UsageError.
    """
    with open_warehouse(folders, with_held=True) as connection:
        old_name = find_named_list(connection, name).name
        others = [other for other in list_names(connection) if other != old_name]
    if new_name and (new_name.strip() != new_name or not new_name.isprintable() or len(new_name) > _NAME_MAX):
        raise UsageError(f"{new_name!r} cannot be the name of a list", f"Use up to {_NAME_MAX} printable characters")
    if new_name.lower() in map(str.lower, others):
        raise UsageError(f"There is already a list {new_name}", "Use another name, or remove that list first")
    moment = now()
    record_name_change(folders, NameChange(at=moment, name=old_name, new_name=new_name))

    def change(connection: duckdb.DuckDBPyConnection) -> None:
        if new_name:
            rename_list(connection, old_name, new_name)
        else:
            drop_list(connection, old_name)

    publish_lists(folders, settings, new_run_id(moment), now, change=change)
    return old_name
