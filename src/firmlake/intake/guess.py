"""Guess which columns of a list hold the country and the company number, from their names and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from firmlake.core.company import COUNTRIES
from firmlake.core.errors import CompanyListError
from firmlake.intake.columns import COUNTRY, NUMBER_ROLES, mapped_name
from firmlake.intake.content import Evidence, column_texts, country_shares, number_evidence
from firmlake.intake.countries import country_codes
from firmlake.intake.hints import hint_of
from firmlake.intake.table import TextTable

__all__ = ["Choice", "Search", "UndecidedError", "guess_country", "guess_number"]

Choice = dict[str, tuple[int, ...]]
"""Positions of columns from 0, by role; empty if the file has no such column."""

_NUMBER: Final = NUMBER_ROLES[0]
_MOST: Final = 0.5
"""Share of a column's filled cells that must be valid numbers (or countries) for the column to be chosen."""

_FEWEST: Final = 2
"""Valid numbers needed in a column whose name says nothing: one number in a hundred has Belgian check digits."""

_BY_EVIDENCE: Final = {"be_number": "BE", "siren": "FR", "nl_number": "NL"}
"""Roles of numbers and their countries, ordered by how rarely another number fits by chance."""

_REGISTER: Final = 2
"""Strength of a hint that names a register or a country."""

_ALIKE: Final = 0.9
"""Two columns qualify equally if one has at least this share of the other's valid numbers."""


class UndecidedError(CompanyListError):
    """Columns of the list may hold company numbers, but the list does not say which, or of which country."""


@dataclass
class Search:
    """The state of the search for columns in one list."""

    path: Path
    table: TextTable
    default_country: str | None
    choice: Choice
    guesses: list[str] = field(default_factory=list)
    likely: tuple[int, str] | None = None
    """A column, and the country whose numbers it may hold without enough evidence."""

    def name(self, position: int) -> str:
        """Return the name of a column for messages, with its position if another column has the same name, or none."""
        name = self.table.names[position] if self.table.names else ""
        mapped = mapped_name(self.table.names, position)
        return mapped if not name else f"{name!r} at position {mapped}" if mapped == str(position + 1) else repr(name)

    def examples(self, position: int) -> str:
        """Return the first values of a column, for messages."""
        return ", ".join(column_texts(self.table.sample, position).drop_nulls().head(3))


def guess_country(search: Search) -> None:
    """Choose the column whose values are countries. Its name must suggest so, because language codes look the same."""
    names = search.table.names
    if search.choice.get(COUNTRY):
        return
    taken = {position for positions in search.choice.values() for position in positions}
    shares = {position: share for position, share in country_shares(search.table.sample).items() if share >= _MOST}
    if names is not None:
        shares = {position: share for position, share in shares.items() if hint_of(names[position]).role == COUNTRY}
    ranked = sorted(shares.keys() - taken, key=lambda position: -shares[position])
    if not ranked:
        return
    best = ranked[0]
    if names is not None:
        codes = [country_codes(column_texts(search.table.sample, position)) for position in ranked]
        if any((codes[0] != other).any() for other in codes[1:]):
            raise _ambiguous(search, ranked, "country")
        search.guesses.append(
            f"Countries are read from column {search.name(best)} ({search.examples(best)}); "
            "to choose another column: --map country=COLUMN"
        )
    search.choice[COUNTRY] = (best,)


def guess_number(search: Search) -> None:
    """Choose the number column by name and values, if no name is known or the columns with known names hold none."""
    sample, choice = search.table.sample, search.choice
    if not sample.height:
        return
    by_name = {position: role for role in NUMBER_ROLES for position in choice.get(role, ())}
    if by_name and not any(role == _NUMBER for role in by_name.values()):
        _add_registers(search, by_name)
        return
    weighed = _weigh(search, by_name)
    if any(position in by_name for position in weighed):
        _leave_out(search, weighed, by_name)
        return
    best = _best(search, weighed)
    if best is None or (by_name and not weighed):
        if not (search.default_country or (by_name and choice.get(COUNTRY))):
            _guess_country_of_numbers(search, by_name)
        return
    for role in NUMBER_ROLES:
        choice.pop(role, None)
    names = search.table.names
    role = hint_of(names[best]).role if names else _NUMBER
    choice[role] = (best,)
    if names is not None:
        search.guesses.append(
            f"Company numbers are read from column {search.name(best)} ({', '.join(weighed[best].examples)}); "
            "to choose another column: --map number=COLUMN"
        )


def _guess_country_of_numbers(search: Search, by_name: Mapping[int, str]) -> None:
    """Choose the column in which most values have Belgian check digits, whatever its name.

    Columns with a known name are preferred. A column that may hold Dutch or French numbers is not chosen; it only
    becomes `Search.likely`.
    """
    for role, country in _BY_EVIDENCE.items():
        found = _weigh(search, {}, role)
        weighed = {position: each for position, each in found.items() if position in by_name} or found
        best = max(weighed, key=lambda position: weighed[position].valid_count, default=None)
        if best is None:
            continue
        is_enough = weighed[best].valid_count >= _FEWEST
        if role == "be_number" and is_enough:
            best = _best(search, weighed)
            assert best is not None  # what has check digits is eligible
            for other in NUMBER_ROLES:
                search.choice.pop(other, None)
            search.choice[role] = (best,)
            search.guesses.append(
                f"Belgian company numbers are read from column {search.name(best)} ({search.examples(best)}), "
                "recognised by their check digits; to choose another column: --map number=COLUMN"
            )
            return
        # One in ten numbers has the check digit of a SIREN, and a KVK number has none.
        if not search.choice.get(COUNTRY) and (country == "BE" or is_enough) and search.likely is None:
            search.likely = (best, country)


def _weigh(search: Search, by_name: Mapping[int, str], assumed: str | None = None) -> dict[int, Evidence]:
    """Return the columns in which most values are valid numbers; with `assumed`, all columns have this role."""
    names, choice, sample = search.table.names, search.choice, search.table.sample
    roles = {}
    for position in range(search.table.width):
        role = hint_of(names[position]).role if names and position < len(names) else _NUMBER
        if role != COUNTRY and position not in choice.get(COUNTRY, ()):
            roles[position] = assumed or by_name.get(position, role)
    codes = pl.Series([None] * sample.height, dtype=pl.String)
    for position in choice.get(COUNTRY, ()):
        found = country_codes(column_texts(sample, position))
        codes = codes.fill_null(found.set(~found.is_in(COUNTRIES), None))
    evidence = number_evidence(sample, roles, codes, search.default_country, is_register=assumed is not None)
    # For a column with a known name, one valid number is enough.
    return {
        position: each
        for position, each in evidence.items()
        if each.valid_count and (each.share >= _MOST or position in by_name)
    }


def _add_registers(search: Search, by_name: Mapping[int, str]) -> None:
    """Also read a column named after a register if it fills gaps in the columns with known names."""
    names = search.table.names or ()
    hints = {position: hint for position, name in enumerate(names) if (hint := hint_of(name)).strength == _REGISTER}
    beside = [n for n, hint in hints.items() if n not in by_name and hint.role in NUMBER_ROLES]
    if not beside:
        return
    weighed = _weigh(search, by_name)
    companies = pl.Series([None] * search.table.sample.height, dtype=pl.String)
    for position in by_name.keys() & weighed.keys():
        companies = companies.fill_null(weighed[position].companies)
    for position in beside:
        found = weighed[position].companies if position in weighed else companies.clear()
        if len(found) and not (companies != found).any() and (companies.is_null() & found.is_not_null()).any():
            role = hints[position].role
            search.choice[role] = (*search.choice.get(role, ()), position)
            search.guesses.append(
                f"Company numbers are also read from column {search.name(position)} ({search.examples(position)}); "
                "to read only one column: --map number=COLUMN"
            )


def _leave_out(search: Search, weighed: Mapping[int, Evidence], by_name: Mapping[int, str]) -> None:
    """Leave out columns with a known name but no valid number, if another column has valid numbers."""
    empty = [position for position, role in by_name.items() if role == _NUMBER and position not in weighed]
    if not weighed or not empty:
        return
    search.choice[_NUMBER] = tuple(position for position in search.choice[_NUMBER] if position not in empty)
    for position in empty:
        if values := search.examples(position):
            search.guesses.append(
                f"Column {search.name(position)} is not read, because its values are not company numbers ({values}); "
                "to read it: --map number=COLUMN"
            )


def _best(search: Search, weighed: Mapping[int, Evidence]) -> int | None:
    """Return the column that qualifies best by name and values; refuse the list if several qualify equally."""
    names = search.table.names
    strength = {position: hint_of(names[position]).strength if names else 1 for position in weighed}
    # Eight bare digits may be a KVK number, a customer number or a telephone number.
    eligible = [position for position in weighed if strength[position] or weighed[position].is_checked]
    if not eligible:
        return None
    strongest = max(strength[position] for position in eligible)
    eligible.sort(key=lambda position: -weighed[position].valid_count)
    rivals = [position for position in eligible if strength[position] == strongest]
    best = rivals[0]
    equals = [each for each in rivals[1:] if weighed[each].valid_count >= _ALIKE * weighed[best].valid_count]
    if any((weighed[best].companies != weighed[each].companies).any() for each in equals):
        raise _ambiguous(search, [best, *equals], "number")
    return best


def _ambiguous(search: Search, positions: list[int], role: str) -> UndecidedError:
    columns = " and ".join(f"{search.name(each)} ({search.examples(each)})" for each in sorted(positions)[:3])
    what = "company numbers" if role == "number" else "countries"
    first = mapped_name(search.table.names, min(positions))
    return UndecidedError(
        f"{search.path}: columns {columns} all hold {what}",
        f"Name the right one: --map {role}={first} (the setting intake.{role}_column)",
    )
