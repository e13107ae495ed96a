"""Choose the columns of a list for each role: by mapping, by name, or by name and values."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from firmlake.core.company import ADJECTIVES
from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.columns import COUNTRY, NUMBER_ROLES, Synonyms, find_columns, mapped_name, quoted_names, role_of
from firmlake.intake.guess import Choice, Search, UndecidedError, guess_country, guess_number
from firmlake.intake.hints import hint_of, is_company_name
from firmlake.intake.table import TextTable

__all__ = ["choose_columns"]


_NUMBER: Final = NUMBER_ROLES[0]


def choose_columns(
    path: Path, table: TextTable, options: IntakeSettings, synonyms: Synonyms, mapping: Mapping[str, str]
) -> tuple[Choice, tuple[str, ...]]:
    """Choose the columns for each role of `synonyms`.

    At least one number role and every other role must be found; only the country may be missing.

    Args:
        path: The file, for messages.
        table: The file as a table.
        options: Mapped columns and the default country.
        synonyms: Header names by role.
        mapping: Columns mapped to further roles: header names, or positions from 1.

    Returns:
        The choice, and one sentence for each column that was not chosen by its name alone.

    Raises:
        CompanyListError: A column is not found, or several qualify (`UndecidedError`). Map the right one as the next
            step says.
    """
    wanted = {COUNTRY: options.country_column, _NUMBER: options.number_column, **mapping}
    wanted = {role: column for role, column in wanted.items() if column}
    known = _by_position(path, table, wanted) if table.names is None else _by_name(path, table.names, synonyms, wanted)
    search = Search(path, table, options.default_country or None, known)
    if COUNTRY not in wanted:
        guess_country(search)
    if _NUMBER not in wanted:
        guess_number(search)
    _require(search, synonyms)
    for positions in search.choice.values():
        for position in positions:
            if position in table.unusable:
                raise CompanyListError(*table.unusable[position])
    return search.choice, tuple(search.guesses)


def _by_name(path: Path, names: tuple[str, ...], synonyms: Synonyms, wanted: Mapping[str, str]) -> Choice:
    choice = find_columns(path, names, synonyms, wanted)
    if _NUMBER not in wanted:
        return choice
    # Only the mapped column is read, but its name still decides the country.
    mapped = choice[_NUMBER]
    named = role_of(names[mapped[0]], synonyms) or hint_of(names[mapped[0]]).role
    role = named if named in NUMBER_ROLES else _NUMBER
    return {**choice, **dict.fromkeys(NUMBER_ROLES, ()), role: mapped}


def _by_position(path: Path, table: TextTable, wanted: Mapping[str, str]) -> Choice:
    choice: Choice = {}
    for role, column in wanted.items():
        if not column.isdecimal() or not 1 <= int(column) <= table.width:
            raise CompanyListError(
                f"{path} has no header, so there is no column {column!r}",
                f"Give its position, from 1 to {table.width}, or use --set intake.header=yes",
            )
        choice[role] = (int(column) - 1,)
    return choice


def _require(search: Search, synonyms: Synonyms) -> None:
    """Refuse the file if a required column is missing."""
    path, table, choice = search.path, search.table, search.choice
    missing = [role for role in synonyms if role not in {COUNTRY, *NUMBER_ROLES} and not choice.get(role)]
    if not any(choice.get(role) for role in NUMBER_ROLES):
        missing.insert(0, _NUMBER)
    if not missing:
        return
    if table.names is not None and table.sample.is_empty():
        raise CompanyListError(
            f"{path} has no lines after its header {quoted_names(table.names)}",
            "Export the list again. If this line is data, use --set intake.header=no",
        )
    if search.likely is not None and missing == [_NUMBER]:
        position, country = search.likely
        mapped = mapped_name(table.names, position)
        raise UndecidedError(
            f"{path}: column {search.name(position)} looks like {ADJECTIVES[country]} company numbers "
            f"({search.examples(position)}), but nothing names their country",
            f"If it holds company numbers, use --map number={mapped} --set intake.default_country={country}; if "
            "not, map the right column, or find the companies by name with `firmlake match`",
        )
    sought = " and ".join(role.replace("_", " ") for role in missing)
    flag = "--map " + " --map ".join(f"{_FLAGS.get(role, role)}=COLUMN" for role in missing)
    if table.names is None:
        raise CompanyListError(
            f"{path} has no header, and no column looks like a {sought}",
            f"Map it by its position from 1 to {table.width} ({flag}), or use --set intake.header=yes",
        )
    named = next((name for name in table.names if is_company_name(name)), None)
    if named is not None and _NUMBER in missing:
        raise CompanyListError(
            f"{path} names companies (column {named!r}), but has no company numbers, which the service needs. "
            f"Its columns are {quoted_names(table.names)}",
            f"Find the numbers in a register file: `firmlake match {shlex.quote(str(path))} --register FILE`; or, if a "
            f"column holds them, map it: {flag}",
        )
    raise CompanyListError(
        f"{path}: no column looks like a {sought}. Its columns are {quoted_names(table.names)}",
        f"Map the right column by its name ({flag}). If these are data, use --set intake.header=no; if the names are "
        "on another line, --set intake.header_row=LINE",
    )


_FLAGS: Final = {_NUMBER: "number", "contact_id": "contact"}
