"""Choose the columns of a list for each role: by mapping, or by one score of their names and values.

The score of a column is the strength of its name (see `firmlake.intake.columns.read_name`), then its number of valid
company numbers. All columns with a known name are read together, and lines on which they disagree are refused. Else the
best column is read alone; a list in which another one is as good but names other companies is refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from firmlake.core.company import ADJECTIVES, COUNTRIES
from firmlake.core.errors import CompanyListError
from firmlake.intake.columns import (
    COUNTRY,
    ERROR,
    KNOWN,
    NUMBER,
    NUMBER_ROLES,
    REGISTER,
    ColumnName,
    Synonyms,
    country_codes,
    find_columns,
    is_company_name,
    mapped_name,
    quoted_names,
    read_name,
)
from firmlake.intake.identifiers import identify_column
from firmlake.intake.table import Reading, Table

Choice = dict[str, tuple[int, ...]]
"""Positions of columns from 0, by role; empty if the file has no such column."""

_NUMBER: Final = NUMBER_ROLES[0]
_SHARE_MIN: Final = 0.5
"""Share of a column's filled cells that must be valid numbers (or countries) for the column to be chosen."""

_UNNAMED_MIN: Final = 2
"""Valid numbers needed in a column whose name says nothing: one number in a hundred has Belgian check digits."""

_EQUAL_SHARE: Final = 0.9
"""Two columns are as good if one has at least this share of the other's valid numbers."""

_BY_EVIDENCE: Final = {"be_number": "BE", "siren": "FR", "nl_number": "NL"}
"""Roles of numbers and their countries, ordered by how rarely another number fits by chance."""

_CELLS_MAX: Final = 200_000
_COLUMNS_MAX: Final = 40
"""Examine at most this many columns closely: the leftmost that look like numbers."""

_LIKE_A_NUMBER: Final = r"^(?:[^0-9]*[0-9]){7,14}[^0-9]*$"
_LIKE_A_DATE: Final = r"^(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$"
_BARE: Final = r"^[0-9]{7,8}$"
_FLAGS: Final = {_NUMBER: "number", "contact_id": "contact"}


class UndecidedError(CompanyListError):
    """Columns of the list may hold company numbers, but the list does not say which, or of which country."""


class Candidate(NamedTuple):
    """A column that may hold company numbers.

    Attributes:
        strength: How surely its name says so, see `ColumnName`.
        valid_count: Number of valid company numbers.
        is_checked: Whether most of the valid numbers have a check digit or a prefix, so they are hardly anything else.
        companies: The company of each row of the sample, null if there is none.
        examples: The first valid texts.
    """

    position: int
    role: str
    strength: int
    valid_count: int
    is_checked: bool
    companies: pl.Series
    examples: tuple[str, ...]

    @property
    def score(self) -> tuple[int, int]:
        """The strength of the name, then the number of valid numbers."""
        return self.strength, self.valid_count

    def contradicts(self, other: Candidate) -> bool:
        """Return whether the columns name different companies on a line."""
        return bool((self.companies != other.companies).any())


@dataclass
class Search:
    """The state of the search for columns in one list."""

    path: Path
    table: Table
    synonyms: Synonyms
    default_country: str | None
    choice: Choice
    guesses: list[str] = field(default_factory=list)

    def name(self, position: int) -> str:
        """Return the name of a column for messages, with its position if another column has the same name, or none."""
        name = self.table.names[position] if self.table.names else ""
        mapped = mapped_name(self.table.names, position)
        return mapped if not name else f"{name!r} at position {mapped}" if mapped == str(position + 1) else repr(name)

    def read(self, position: int) -> ColumnName:
        """Read the name of a column; without a header, any column may hold numbers."""
        names = self.table.names
        if names is None:
            return ColumnName(_NUMBER, NUMBER)
        return read_name(names[position], self.synonyms) if position < len(names) else ColumnName(_NUMBER, 0)

    def texts(self, position: int) -> pl.Series:
        """Return the texts of a column in the sample; empty texts and errors of a spreadsheet are null."""
        text = self.table.sample.list.get(position, null_on_oob=True).str.strip_chars()
        return text.set((text == "") | text.str.contains(ERROR), None)

    def examples(self, position: int) -> str:
        """Return the first values of a column, for messages."""
        return ", ".join(self.texts(position).drop_nulls().head(3))

    def say(self, what: str, position: int, examples: str, role: str = "number", because: str = "") -> None:
        """Explain the choice of a column in one line, with the way to another one."""
        way = f"to choose another column: --map {role}=COLUMN"
        self.guesses.append(f"{what} are read from column {self.name(position)} ({examples}){because}; {way}")


def choose_columns(reading: Reading, table: Table, mapping: Mapping[str, str]) -> tuple[Choice, tuple[str, ...]]:
    """Choose the columns for each role of `synonyms`.

    At least one number role and every other role must be found; only the country may be missing.

    Args:
        reading: How to read the list; its settings may map columns, and name a default country.
        table: The list as a table.
        mapping: Columns mapped to further roles: header names, or positions from 1.

    Returns:
        The choice, and one sentence for each column that was not chosen by its name alone.

    Raises:
        CompanyListError: A column is not found, or several qualify (`UndecidedError`). Map the right one as the next
            step says.
    """
    path, options, synonyms, *_ = reading
    wanted = {COUNTRY: options.country_column, _NUMBER: options.number_column, **mapping}
    wanted = {role: column for role, column in wanted.items() if column}
    known = find_columns(path, table.names, table.width, synonyms, wanted)
    if _NUMBER in wanted and table.names is not None:  # it alone is read, but its name decides the country
        mapped = known[_NUMBER]
        named = read_name(table.names[mapped[0]], synonyms).role
        known |= {**dict.fromkeys(NUMBER_ROLES, ()), named if named in NUMBER_ROLES else _NUMBER: mapped}
    search = Search(path, table, synonyms, options.default_country or None, known)
    if COUNTRY not in wanted and not known.get(COUNTRY):
        _choose_country(search)
    if _NUMBER not in wanted and len(table.sample):
        _choose_number(search)
    _require(search)
    for positions in search.choice.values():
        for position in positions:
            if position in table.unusable:
                raise CompanyListError(*table.unusable[position])
    return search.choice, tuple(search.guesses)


def _choose_country(search: Search) -> None:
    """Choose the column whose values are countries. Its name must suggest so, because language codes look the same."""
    taken = {position for positions in search.choice.values() for position in positions}
    cells = _cells(search.table.sample)
    known = cells.with_columns(known=country_codes(cells["text"]).is_in(COUNTRIES).fill_null(value=False))
    shares = dict(known.group_by("position").agg(pl.col("known").mean()).rows())
    has_names = search.table.names is not None
    ranked = sorted(
        (
            position
            for position, share in shares.items()
            if share >= _SHARE_MIN
            and position not in taken
            and not (has_names and search.read(position).role != COUNTRY)
        ),
        key=lambda position: (-shares[position], position),
    )
    if not ranked:
        return
    if has_names:
        codes = [country_codes(search.texts(position)) for position in ranked]
        if any((codes[0] != other).any() for other in codes[1:]):
            raise _ambiguous(search, ranked, "country")
        search.say("Countries", ranked[0], search.examples(ranked[0]), "country")
    search.choice[COUNTRY] = (ranked[0],)


def _choose_number(search: Search) -> None:
    """Choose the columns of numbers by their score; by Belgian check digits alone if nothing names a country."""
    named = {position: role for role in NUMBER_ROLES for position in search.choice.get(role, ())}
    candidates = _weigh(search)
    best = _best(search, candidates)
    if (named and _NUMBER not in named.values()) or (best and best.strength == KNOWN):
        _read_named(search, named, candidates)
        return
    what, because = "Company numbers", ""
    if best is None and not search.default_country and not (named and search.choice.get(COUNTRY)):
        what, because = "Belgian company numbers", ", recognised by their check digits"
        candidates = [one for one in _weigh(search, "be_number") if one.valid_count >= _UNNAMED_MIN]
        best = _best(search, candidates)
    if best is None:
        return
    for role in NUMBER_ROLES:
        search.choice.pop(role, None)
    together = [one.position for one in candidates if one.strength == best.strength == KNOWN]
    search.choice[best.role] = tuple(together) or (best.position,)
    if because or search.table.names is not None:
        search.say(what, best.position, ", ".join(best.examples), because=because)


def _best(search: Search, candidates: list[Candidate]) -> Candidate | None:
    """Return the column with the best score; refuse the list if another is as good but names other companies."""
    # Eight bare digits may be a KVK number, a customer number or a telephone number.
    eligible = [one for one in candidates if one.strength or one.is_checked]
    if not eligible:
        return None
    best = max(eligible, key=lambda one: (*one.score, -one.position))
    equals = [
        one for one in eligible if one.strength == best.strength and one.valid_count >= _EQUAL_SHARE * best.valid_count
    ]
    # Lines of columns with known names are judged one by one.
    if best.strength != KNOWN and any(best.contradicts(one) for one in equals):
        raise _ambiguous(search, [one.position for one in equals], "number")
    return best


def _read_named(search: Search, named: Mapping[int, str], candidates: list[Candidate]) -> None:
    """Read the columns with known names, and those named after a register that fill their gaps.

    A column that is only called number is left out if it has values, but no valid number.
    """
    valid = {one.position: one for one in candidates}
    companies = pl.Series([None] * len(search.table.sample), dtype=pl.String)
    for position, role in named.items():
        if position in valid:
            companies = companies.fill_null(valid[position].companies)
        elif role == _NUMBER and valid:
            search.choice[role] = tuple(other for other in search.choice[role] if other != position)
            if values := search.examples(position):
                search.guesses.append(
                    f"Column {search.name(position)} is not read, because its values are not company numbers "
                    f"({values}); to read it: --map number=COLUMN"
                )
    for one in candidates:
        fills = (companies.is_null() & one.companies.is_not_null()).any()
        if one.strength == REGISTER and fills and not (companies != one.companies).any():
            search.choice[one.role] = (*search.choice.get(one.role, ()), one.position)
            search.guesses.append(
                f"Company numbers are also read from column {search.name(one.position)} "
                f"({search.examples(one.position)}); to read only one column: --map number=COLUMN"
            )


def _weigh(search: Search, assumed: str | None = None) -> list[Candidate]:
    """Return the columns in which most values are valid numbers; in one with a known name, one is enough.

    With `assumed`, all columns have this role, and only numbers of its register count.
    """
    sample, country_columns = search.table.sample, search.choice.get(COUNTRY, ())
    codes = pl.Series([None] * len(sample), dtype=pl.String)
    for position in country_columns:
        found = country_codes(search.texts(position))
        codes = codes.fill_null(found.set(~found.is_in(COUNTRIES), None))
    looks = _cells(sample).filter(pl.col("text").str.contains(_LIKE_A_NUMBER))["position"].unique().sort()
    names = {position: search.read(position) for position in looks if position < search.table.width}
    likely = [n for n, name in names.items() if name.role in NUMBER_ROLES and n not in country_columns]
    candidates = []
    for position in likely[:_COLUMNS_MAX]:
        role, strength = assumed or names[position].role, names[position].strength
        texts = search.texts(position)
        numbers = identify_column(texts, codes, role, search.default_country, is_register=assumed is not None)
        is_valid, bare = numbers["problem"].is_null(), texts.str.contains(_BARE) & (numbers["country"] == "NL")
        count, filled = int(is_valid.sum()), texts.len() - texts.null_count()
        is_dates = (texts.str.contains(_LIKE_A_DATE) & bare).sum() * 2 > count
        if count and ((not is_dates and count >= _SHARE_MIN * filled) or (strength == KNOWN and not assumed)):
            is_checked = int((is_valid & ~bare.fill_null(value=False)).sum()) * 2 > count
            companies = numbers.select(pl.concat_str("country", "company_number", separator=" "))["country"]
            examples = tuple(texts.filter(is_valid).head(3))
            candidates.append(Candidate(position, role, strength, count, is_checked, companies, examples))
    return candidates


def _cells(sample: pl.Series) -> pl.DataFrame:
    """Return the filled cells of the first rows: position, text."""
    width = int(sample.list.len().max() or 1)  # type: ignore[arg-type]
    rows = sample.head(max(20, _CELLS_MAX // width)).alias("text").to_frame()
    cells = rows.with_columns(position=pl.int_ranges(pl.col("text").list.len())).explode("position", "text")
    text = pl.col("text").str.strip_chars()
    return cells.filter((text != "") & ~text.str.contains(ERROR))


def _ambiguous(search: Search, positions: list[int], role: str) -> UndecidedError:
    columns = " and ".join(f"{search.name(each)} ({search.examples(each)})" for each in sorted(positions)[:3])
    what = "company numbers" if role == "number" else "countries"
    first = mapped_name(search.table.names, min(positions))
    return UndecidedError(
        f"{search.path}: columns {columns} all hold {what}",
        f"Name the right one: --map {role}={first} (the setting intake.{role}_column)",
    )


def _find_likely(search: Search) -> tuple[int, str] | None:
    """Return a column, and the country whose numbers it may hold without enough evidence.

    One in ten numbers has the check digit of a SIREN, and a KVK number has none.
    """
    if search.default_country or search.choice.get(COUNTRY):
        return None
    for role, country in _BY_EVIDENCE.items():
        most = max(_weigh(search, role), key=lambda one: (one.valid_count, -one.position), default=None)
        if most and (country == "BE" or most.valid_count >= _UNNAMED_MIN):
            return most.position, country
    return None


def _require(search: Search) -> None:
    """Refuse the file if a required column is missing."""
    path, table, choice = search.path, search.table, search.choice
    missing = [role for role in search.synonyms if role not in {COUNTRY, *NUMBER_ROLES} and not choice.get(role)]
    if not any(choice.get(role) for role in NUMBER_ROLES):
        missing.insert(0, _NUMBER)
    if not missing:
        return
    if table.names is not None and not len(table.sample):
        raise CompanyListError(
            f"{path} has no lines after its header {quoted_names(table.names)}",
            "Export the list again. If this line is data, use --set intake.header=no",
        )
    if missing == [_NUMBER] and (likely := _find_likely(search)):
        position, country = likely
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
