"""Choose the columns of a list: by mapping, or by the score of what their names and values say.

The columns of numbers with a known name are read together, and lines on which they disagree are refused. If there are
none, the column with the best score is read alone; a list in which another one is as good but names other companies is
refused. The choice is explained in one sentence, unless the names alone made it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from firmlake.core.company import ADJECTIVES, COUNTRIES
from firmlake.core.errors import CompanyListError
from firmlake.intake.columns import (
    COUNTRY,
    ERROR,
    NUMBER,
    NUMBER_ROLES,
    OTHER_COUNTRY,
    ColumnName,
    Strength,
    Synonyms,
    country_codes,
    country_of,
    find_columns,
    is_company_name,
    mapped_name,
    read_name,
)
from firmlake.intake.identifiers import identify_column
from firmlake.intake.refusals import UndecidedError, quoted_names, refusal
from firmlake.intake.table import Reading, Table

Choice = dict[str, tuple[int, ...]]
"""Positions of columns from 0, by role; empty if the file has no such column."""

_MIN_SHARE: Final = 0.5
"""Share of a column's filled cells that must be valid numbers (or countries) for the column to be chosen."""

_TIE_SHARE: Final = 0.9
"""Two columns of numbers are as good if one has at least this share of the other's valid numbers."""

_BY_EVIDENCE: Final = {"be_number": "BE", "siren": "FR", "nl_number": "NL"}
"""Roles of numbers and their countries, ordered by how rarely another number fits by chance.

Belgian numbers are known by their check digits, because one other number in a hundred has such. These are only
suggested: one number in ten has the check digit of a SIREN, and a KVK number has none.
"""

_MIN_EVIDENCE: Final = 2
"""Valid numbers needed in a column whose name says nothing."""

_MAX_CELLS: Final = 200_000
_MAX_COLUMNS: Final = 40
"""Examine at most this many columns closely: those with known names, then the leftmost that look like numbers."""

_LIKE_A_NUMBER: Final = r"^(?:[^0-9]*[0-9]){7,14}[^0-9]*$"
_LIKE_A_DATE: Final = r"^(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$"
_BARE: Final = r"^[0-9]{7,8}$"
"""A KVK number, but also a customer number or a telephone number."""

_FLAGS: Final = {NUMBER: "number", "contact_id": "contact"}


class Candidate(NamedTuple):
    """A column, a role that it may have, and what speaks for it.

    Attributes:
        strength: How surely its name says so.
        valid_count: Number of valid company numbers, or of countries.
        values: The company (or country) of each row of the sample, null if there is none.
        examples: The first valid texts.
        implied: The country that its name gives to numbers without one; None if there are no such numbers.
    """

    position: int
    role: str
    strength: Strength
    valid_count: int
    values: pl.Series
    examples: str
    implied: str | None = None

    @property
    def score(self) -> tuple[int, int, int]:
        """The strength of the name, then the number of valid values; of equal columns the leftmost is best."""
        return self.strength, self.valid_count, -self.position

    def contradicts(self, other: Candidate) -> bool:
        """Return whether the columns name different companies, or countries, on a line."""
        return bool((self.values != other.values).any())

    def fills(self, values: pl.Series) -> bool:
        """Return whether the column names companies where these values are null, and nowhere other ones."""
        return (values.is_null() & self.values.is_not_null()).any() and not (values != self.values).any()


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
            return ColumnName(NUMBER, Strength.NUMBER)
        return read_name(names[position] if position < len(names) else "", self.synonyms)

    def texts(self, position: int) -> pl.Series:
        """Return the texts of a column in the sample; empty texts and errors of a spreadsheet are null."""
        text = self.table.sample.list.get(position, null_on_oob=True).str.strip_chars()
        return text.set((text == "") | text.str.contains(ERROR), None)

    @cached_property
    def looks(self) -> pl.DataFrame:
        """Return what the filled cells look like: position, is_number (one of them does), country_share."""
        sample = self.table.sample.alias("text")
        width = int(sample.list.len().max() or 1)  # type: ignore[arg-type]
        rows = sample.head(max(20, _MAX_CELLS // width)).to_frame()
        cells = rows.with_columns(position=pl.int_ranges(pl.col("text").list.len())).explode("position", "text")
        cells = cells.filter((pl.col("text").str.strip_chars() != "") & ~pl.col("text").str.contains(ERROR))
        is_country = country_codes(cells["text"]).is_in(COUNTRIES).fill_null(value=False)
        found = cells.with_columns(is_country=is_country).group_by("position").agg(
            is_number=pl.col("text").str.strip_chars().str.contains(_LIKE_A_NUMBER).any(),
            country_share=pl.col("is_country").mean(),
        )  # fmt: skip
        return found.filter(pl.col("position") < self.table.width).sort("position")

    def positions(self, *roles: str) -> list[int]:
        """Return the positions of the columns chosen so far for these roles."""
        return [position for role in roles for position in self.choice.get(role, ())]


def choose_columns(reading: Reading, table: Table, mapping: Mapping[str, str]) -> tuple[Choice, tuple[str, ...]]:
    """Choose the columns for each role of `synonyms`: at least one number role and all others, except the country.

    `mapping` has the columns of further roles: header names, or positions from 1. The settings may map numbers and
    country. Returns the choice, and one sentence for each role whose columns were not chosen by their names alone.
    Raises CompanyListError if a column is not found, or several qualify (`UndecidedError`).
    """
    path, options, synonyms, *_ = reading
    settings = {COUNTRY: options.country_column, NUMBER: options.number_column, **mapping}
    wanted = {role: column for role, column in settings.items() if column}
    known = find_columns(path, table.names, table.width, synonyms, wanted)
    if NUMBER in wanted and table.names is not None:  # it alone is read, but its name decides the country
        mapped = known[NUMBER]
        named = read_name(table.names[mapped[0]], synonyms).role
        known |= {**dict.fromkeys(NUMBER_ROLES, ()), named if named in NUMBER_ROLES else NUMBER: mapped}
    search = Search(path, table, synonyms, options.default_country or None, known)
    if not search.positions(COUNTRY):
        _choose_country(search)
    if NUMBER not in wanted and len(table.sample):
        _choose_number(search)
    _require(search)
    for position in search.positions(*search.choice):
        if position in table.unusable:
            raise CompanyListError(*table.unusable[position])
    return search.choice, tuple(search.guesses)


def _choose_country(search: Search) -> None:
    """Choose the column of countries. Its name must suggest so, because languages look the same."""
    has_names = search.table.names is not None
    taken, candidates = search.positions(*search.choice), []
    for position in search.looks.filter(pl.col("country_share") >= _MIN_SHARE)["position"]:
        name = search.read(position)
        if position not in taken and (name.role == COUNTRY or not has_names):
            texts = search.texts(position)
            codes = country_codes(texts)
            count = int(codes.is_in(COUNTRIES).sum())
            candidates.append(Candidate(position, COUNTRY, name.strength, count, codes, _examples(texts)))
    best = _best(search, candidates, tie_share=0 if has_names else inf)
    if best:
        search.choice[COUNTRY] = (best.position,)
    if best and has_names:
        _explain(search, "Countries", [best])


def _choose_number(search: Search) -> None:
    """Choose the columns of numbers by their score; by Belgian check digits alone if nothing names a country."""
    known, what, because = search.positions(*NUMBER_ROLES), "Company numbers", ""
    candidates = _weigh(search)
    best = _best(search, [one for one in candidates if one.valid_count])
    if not search.positions(NUMBER):  # a column named after a register is read even if it has no valid number
        best = _best(search, candidates)
    if not (best or search.default_country or (known and search.positions(COUNTRY))):
        what, because = "Belgian company numbers", ", recognised by their check digits"
        candidates = [one for one in _weigh(search, "be_number") if one.valid_count >= _MIN_EVIDENCE]
        best = _best(search, candidates)
    if best is None:
        if not (known or search.default_country or search.positions(COUNTRY)):
            _suggest(search)
        return
    chosen = [best]
    if best.strength == Strength.KNOWN:
        chosen = [one for one in candidates if one.strength == Strength.KNOWN]
        values = pl.select(pl.coalesce(*(one.values for one in chosen))).to_series()
        chosen += [one for one in candidates if one.strength == Strength.REGISTER and one.fills(values)]
    search.choice |= dict.fromkeys(NUMBER_ROLES, ())
    for one in chosen:
        search.choice[one.role] += (one.position,)
    left_out = [n for n in known if n not in {one.position for one in chosen} and _examples(search.texts(n))]
    is_guess = search.table.names is not None and any(one.strength < Strength.KNOWN or one.implied for one in chosen)
    if because or left_out or is_guess:
        _explain(search, what, chosen, because, left_out)


def _best(search: Search, candidates: Sequence[Candidate], tie_share: float = _TIE_SHARE) -> Candidate | None:
    """Return the column with the best score; refuse the list if another is as good but names other companies."""
    best = max(candidates, key=lambda one: one.score, default=None)
    if best is None or best.strength == Strength.KNOWN:  # lines of columns with known names are judged one by one
        return best
    equals = [
        one for one in candidates if one.strength == best.strength and one.valid_count >= tie_share * best.valid_count
    ]
    if not any(best.contradicts(one) for one in equals):
        return best
    columns = " and ".join(f"{search.name(one.position)} ({one.examples})" for one in equals[:3])
    what, flag = ("countries", COUNTRY) if best.role == COUNTRY else ("company numbers", "number")
    mapped = mapped_name(search.table.names, equals[0].position)
    raise refusal("tie", UndecidedError, path=search.path, columns=columns, what=what, flag=flag, mapped=mapped)


def _weigh(search: Search, register: str | None = None) -> list[Candidate]:
    """Return the columns that may hold company numbers: those with known names, and those that look like it.

    With `register`, all columns have this role, and only numbers of its register count.
    """
    codes = pl.Series([None] * len(search.table.sample), dtype=pl.String)
    for position in search.positions(COUNTRY):
        codes = codes.fill_null(country_codes(search.texts(position)))
    known, countries = search.positions(*NUMBER_ROLES), search.positions(COUNTRY)
    likely = [n for n in search.looks.filter("is_number")["position"] if n not in {*known, *countries}]
    likely = [n for n in likely if search.read(n).role in NUMBER_ROLES]
    close = [n for n in (*known, *likely) if n not in countries][:_MAX_COLUMNS]
    weighed = [_weigh_column(search, n, codes, register) for n in close]
    return [candidate for candidate in weighed if candidate]


def _weigh_column(search: Search, position: int, codes: pl.Series, register: str | None) -> Candidate | None:
    """Return a column in which most values are valid numbers; None if they are not.

    In a column with a known name one is enough; one that is named after a register is read even if it has none.
    """
    name, texts, default_country = search.read(position), search.texts(position), search.default_country
    role, named = register or name.role, codes.set(codes == OTHER_COUNTRY, None)
    numbers = identify_column(texts, named, role, default_country, is_register=register is not None)
    is_valid, bare = numbers["problem"].is_null(), texts.str.contains(_BARE) & (numbers["country"] == "NL")
    count, filled = int(is_valid.sum()), texts.len() - texts.null_count()
    is_dates = (texts.str.contains(_LIKE_A_DATE) & bare).sum() * 2 > count
    is_checked = int((is_valid & ~bare.fill_null(value=False)).sum()) * 2 > count
    is_likely = count >= max(1, _MIN_SHARE * filled) and not is_dates and (is_checked or name.strength or register)
    if not is_likely and (name.strength < Strength.KNOWN or register or not (count or role != NUMBER)):
        return None
    is_bare = (is_valid & codes.is_null() & numbers["own_country"].is_null()).any() and register is None
    implied = country_of(role, is_sure=default_country is not None) if is_bare else None
    companies = numbers.select(pl.concat_str("country", "company_number", separator=" "))["country"]
    examples = _examples(texts.filter(is_valid))
    return Candidate(position, role, name.strength, count, companies, examples, implied)


def _examples(texts: pl.Series) -> str:
    return ", ".join(texts.drop_nulls().head(3))


def _explain(
    search: Search, what: str, chosen: Sequence[Candidate], because: str = "", left_out: Sequence[int] = ()
) -> None:
    """Explain the choice of columns in one sentence, with the way to another one."""
    columns = " and ".join(
        f"{search.name(one.position)}{f' ({one.examples})' * bool(one.examples)}"
        f"{f' as {ADJECTIVES[one.implied]}' if one.implied else ''}"
        for one in chosen
    )
    others = " and ".join(f"{search.name(position)} ({_examples(search.texts(position))})" for position in left_out[:3])
    others += f" and {len(left_out) - 3} more" * (len(left_out) > 3)
    flag = COUNTRY if chosen[0].role == COUNTRY else "number"
    also = " --map country=COLUMN" if any(one.implied for one in chosen) else ""
    search.guesses.append(
        f"{what} are read from column{'s' * (len(chosen) > 1)} {columns}{because}{', not from ' * bool(others)}"
        f"{others}; to choose another column: --map {flag}=COLUMN{also}"
    )


def _suggest(search: Search) -> None:
    """Refuse a list with a column of numbers that nothing but their form makes company numbers of a country."""
    for role, country in _BY_EVIDENCE.items():
        best = max(_weigh(search, role), key=lambda one: (one.valid_count, -one.position), default=None)
        if best and (country == "BE" or best.valid_count >= _MIN_EVIDENCE):
            mapped = mapped_name(search.table.names, best.position)
            raise refusal(
                "no_country",
                UndecidedError,
                path=search.path, column=search.name(best.position), adjective=ADJECTIVES[country],
                examples=best.examples, mapped=mapped, country=country,
            )  # fmt: skip


def _require(search: Search) -> None:
    """Refuse the file if a required column is missing."""
    path, table = search.path, search.table
    missing = [role for role in search.synonyms if role not in {COUNTRY, *NUMBER_ROLES} and not search.positions(role)]
    if not search.positions(*NUMBER_ROLES):
        missing.insert(0, NUMBER)
    if not missing:
        return
    if table.names is not None and not len(table.sample):
        raise refusal("no_data", path=path, names=quoted_names(table.names))
    sought = " and ".join(role.replace("_", " ") for role in missing)
    flag = "--map " + " --map ".join(f"{_FLAGS.get(role, role)}=COLUMN" for role in missing)
    if table.names is None:
        raise refusal("no_header", path=path, sought=sought, width=table.width, flag=flag)
    columns, named = quoted_names(table.names), next(filter(is_company_name, table.names), None)
    if named is not None and NUMBER in missing:
        raise refusal("only_names", path=path, named=named, columns=columns, quoted=shlex.quote(str(path)), flag=flag)
    raise refusal("no_column", path=path, sought=sought, columns=columns, flag=flag)
