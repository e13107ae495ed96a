"""Which columns of a list are read, for each thing that is sought: by mapping, by header name, or by content."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.columns import COUNTRY, NUMBER_ROLES, Synonyms, find_columns, quoted_names, role_of
from firmlake.intake.content import columns_by_content
from firmlake.intake.table import Table

__all__ = ["Choice", "choose_columns"]

Choice = dict[str, tuple[int, ...]]
"""Positions from 0 of the columns for each role; none where the file has no such column."""

_NUMBER: Final = NUMBER_ROLES[0]


def choose_columns(
    path: Path, table: Table, options: IntakeSettings, synonyms: Synonyms, mapping: Mapping[str, str]
) -> Choice:
    """Choose the columns for each role of `synonyms`.

    Of the number roles one must be found; the country may be missing; every other role must be found.

    Args:
        path: The file, for messages.
        table: The file as its reader sees it.
        options: Columns that are mapped, and the default country.
        synonyms: The roles sought, with their header names.
        mapping: Columns mapped for further roles: header names, or positions from 1 where there is no header.

    Raises:
        CompanyListError: A column is not found or not there: map it as the next step says.
    """
    wanted = {COUNTRY: options.country_column, _NUMBER: options.number_column, **mapping}
    wanted = {role: column for role, column in wanted.items() if column}
    if table.names is None:
        choice = _by_position(path, table, wanted)
        country, number = columns_by_content(table.sample, options.default_country or None)
        for role, position in ((COUNTRY, country), (_NUMBER, number)):
            if position is not None:
                choice.setdefault(role, (position,))
    else:
        choice = _by_name(path, table.names, synonyms, wanted)
    _require(path, table, choice, synonyms)
    return choice


def _by_name(path: Path, names: tuple[str, ...], synonyms: Synonyms, wanted: Mapping[str, str]) -> Choice:
    choice = find_columns(path, names, synonyms, wanted)
    if _NUMBER not in wanted:
        return choice
    # The mapped column alone is read, but what its name says of the country holds.
    mapped = choice[_NUMBER]
    named = role_of(names[mapped[0]], synonyms)
    role = named if named in NUMBER_ROLES else _NUMBER
    return {**choice, **dict.fromkeys(NUMBER_ROLES, ()), role: mapped}


def _by_position(path: Path, table: Table, wanted: Mapping[str, str]) -> Choice:
    choice: Choice = {}
    for role, column in wanted.items():
        if not column.isdecimal() or not 1 <= int(column) <= table.width:
            raise CompanyListError(
                f"{path} has no header, so that column {column!r} is not there",
                f"Give its position, from 1 to {table.width}, or set intake.header to yes",
            )
        choice[role] = (int(column) - 1,)
    return choice


def _require(path: Path, table: Table, choice: Choice, synonyms: Synonyms) -> None:
    """Refuse the file where a column that is needed is missing."""
    missing = [role for role in synonyms if role not in {COUNTRY, *NUMBER_ROLES} and not choice.get(role)]
    if not any(choice.get(role) for role in NUMBER_ROLES):
        missing.insert(0, _NUMBER)
    if not missing:
        return
    sought = " and ".join(role.replace("_", " ") for role in missing)
    if table.names is None:
        raise CompanyListError(
            f"{path} has no header, and no column looks like a {sought}",
            f"Map it by its position from 1 to {table.width} (intake.number_column), or set intake.header to yes",
        )
    raise CompanyListError(
        f"{path}: no column is known as {sought}. Its columns are {quoted_names(table.names)}",
        "Map the right one by its name (intake.number_column, intake.country_column), or set intake.header to no if "
        "these are data",
    )
