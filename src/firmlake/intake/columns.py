"""What words in a list say in English, Dutch or French: the names of columns, and the countries in their cells."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from enum import IntEnum
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import polars as pl

from firmlake.intake.refusals import nearest_name, refusal


class Column(msgspec.Struct, frozen=True):
    """The words of one role, see `words.toml`."""

    names: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    stems: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()
    is_sure: bool = True


class _Words(msgspec.Struct, frozen=True):
    """What `words.toml` holds."""

    countries: dict[str, tuple[str, ...]]
    around: dict[str, tuple[str, ...]]
    columns: dict[str, Column]
    contact: Column
    within: dict[str, frozenset[str]]


_WORDS: Final = msgspec.toml.decode(files("firmlake.intake").joinpath("words.toml").read_text("utf-8"), type=_Words)
Synonyms = Mapping[str, frozenset[str]]
"""Folded header names by the role of the column."""

ERROR: Final = r"^#[A-Z/0]+[!?]?$"
"""An error of a spreadsheet, such as #N/A, which says no more than an empty cell."""

OTHER_COUNTRY: Final = "other"
"""Stands for a filled country cell that names no country known to the service."""

COUNTRY: Final = "country"

COLUMNS: Final = _WORDS.columns
"""What is known of columns, by their role."""

NUMBER_ROLES: Final = tuple(role for role in COLUMNS if role != COUNTRY)
"""Roles of columns with company numbers, in order of precedence: the first filled column of a line is read."""

NUMBER: Final = NUMBER_ROLES[0]
"""The role of a column whose name says no more than that it holds numbers."""


def fold(text: str) -> str:
    """Return the letters and digits of a text, without case, accents, punctuation and spaces.

    Example:
        >>> fold(" Numéro d'entreprise "), fold("KvK-nummer")
        ('numerodentreprise', 'kvknummer')
    """
    return re.sub("[^0-9a-z]+", "", unicodedata.normalize("NFKD", text).casefold())


def country_codes(cells: pl.Series) -> pl.Series:
    """Return the country code of each cell; case, accents, punctuation and spaces are ignored.

    It is `BE`, `NL`, `FR`, `OTHER_COUNTRY` for any other text, null for an empty cell and an error such as #N/A.

    Example:
        >>> country_codes(pl.Series(["Belgique", "nl", "DE", " ", None])).to_list()
        ['BE', 'NL', 'other', None, None]
    """
    # A list has few distinct countries, so each spelling is converted once.
    spellings = cells.unique().drop_nulls().to_list()
    named = [text for text in spellings if text.strip() and not re.match(ERROR, text)]
    codes = {text: _CODE_OF.get(fold(text), OTHER_COUNTRY) for text in named}
    return cells.replace_strict(codes, default=None, return_dtype=pl.String)


def is_country(text: str) -> bool:
    """Return whether a text is the name or code of a country known to the service."""
    return fold(text) in _CODE_OF


_CODE_OF: Final = {fold(name): code for code, names in _WORDS.countries.items() for name in names}
"""Codes of countries by folded names."""


def _names_of(column: Column) -> frozenset[str]:
    """Return the folded names of a column, also those with a word for "number" before or after a word."""
    around, words = _WORDS.around, (*column.of, *column.alone)
    before = [f"{number}{of}" for number in around["before"] for of in around["between"]]
    with_number = [*map("".join, product(before, words)), *map("".join, product(words, around["after"]))]
    return frozenset(map(fold, (*column.names, *column.alone, *with_number)))


COMPANY_COLUMNS: Final[Synonyms] = {role: _names_of(column) for role, column in COLUMNS.items()}
CONTACT_COLUMNS: Final[Synonyms] = {**COMPANY_COLUMNS, "contact_id": _names_of(_WORDS.contact)}

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+")

_PARTS: Final = re.compile(r"[/(|\[+&]|\b(?:of|or|ou|en|et|and|oder)\b", re.IGNORECASE)
_MAX_NAME: Final = 200
"""A longer text is no name of a column."""

_ELLIPSIS: Final = re.compile(r"-\s*$")
"""A Dutch compound that shares its last part with the next word: `Ondernemings- of KvK-nummer`."""


class Strength(IntEnum):
    """How surely the name of a column says what it holds. Unless it is known, the values must confirm its role."""

    NOTHING = 0
    NUMBER = 1  # it contains a word for number
    REGISTER = 2  # it contains a word for a register or a country
    KNOWN = 3  # the whole name is known


class ColumnName(NamedTuple):
    """What the name of a column says: its role, a key of the synonyms, and how surely."""

    role: str
    strength: Strength


def read_name(name: str, synonyms: Synonyms = COMPANY_COLUMNS) -> ColumnName:
    """Return what the name of a column says.

    Example:
        >>> [(role, strength.name) for role, strength in map(read_name, ("KvK-nummer", "customer_kvk_nr", "Nr. klant"))]
        [('nl_number', 'KNOWN'), ('nl_number', 'REGISTER'), ('company_number', 'NUMBER')]
    """
    known = role_of(name, synonyms)
    if known is not None:
        return ColumnName(known, Strength.KNOWN)
    words, within = _words(name), _WORDS.within
    if any(word in within["country"] or word.removesuffix("code") in within["country"] for word in words):
        return ColumnName(COUNTRY, Strength.REGISTER)
    roles = [role for word in words for role, column in COLUMNS.items() if word.startswith(column.stems)]
    if roles:
        return ColumnName(_one_role(roles), Strength.REGISTER)
    has_number = any(word in within["number"] for word in words)
    return ColumnName(NUMBER, Strength.NUMBER if has_number else Strength.NOTHING)


def country_of(role: str, *, is_sure: bool = False) -> str | None:
    """Return the country that a role implies for numbers without one of their own; None if it implies none, or several.

    With `is_sure`, it must be sure: some Belgian words are used for companies of other countries too.
    """
    column = COLUMNS.get(role, Column())
    return column.countries[0] if len(column.countries) == 1 and (column.is_sure or not is_sure) else None


def role_of(name: str, synonyms: Synonyms) -> str | None:
    """Return the role of a column by its header name; None if the name is unknown.

    The first known part of a name in two languages or with a remark decides (`Land / Pays`, `KvK (8 digits)`). A name
    of several registers (`KBO/KvK`) has a role of its own.

    Example:
        >>> role_of("N° d'entreprise / Ondernemingsnr.", COMPANY_COLUMNS), role_of("KBO-nummer", COMPANY_COLUMNS)
        ('enterprise_number', 'be_number')
    """
    if len(name) > _MAX_NAME:
        return None
    whole = _role_of_part(name, synonyms)
    if whole is not None:
        return whole
    found = [_role_of_part(_ELLIPSIS.sub("nummer", part), synonyms) for part in _PARTS.split(name)]
    roles = [role for role in found if role is not None]
    return _one_role(roles) if roles else None


def _one_role(roles: Sequence[str]) -> str:
    """Return the role of a name with several roles: the first, unless they are numbers of several registers."""
    named = {country_of(role) for role in roles} - {None}
    if len(named) > 1:
        return next(role for role, column in COLUMNS.items() if set(column.countries) == named)
    return "enterprise_number" if named == {"BE"} and len(set(roles)) > 1 else roles[0]


def _role_of_part(name: str, synonyms: Synonyms) -> str | None:
    folded = fold(name)
    return next((role for role, names in synonyms.items() if folded in names), None)


def find_columns(
    path: Path, names: Sequence[str] | None, width: int, synonyms: Synonyms, mapping: Mapping[str, str]
) -> dict[str, tuple[int, ...]]:
    """Return the positions of the columns by role; several may share one, for example if a header name occurs twice.

    `names` is None without a header. The mapping has header names, or positions from 1, for roles that the user has
    mapped, instead of synonyms. If there is no such column, CompanyListError suggests a similar name.
    """
    found: dict[str, list[int]] = {}
    for position, name in enumerate(names or ()):
        role = role_of(name, synonyms)
        if role is not None:
            found.setdefault(role, []).append(position)
    for role, wanted in mapping.items():
        found[role] = _positions_of(path, names, width, wanted)
    return {role: tuple(positions) for role, positions in found.items()}


def _positions_of(path: Path, names: Sequence[str] | None, width: int, wanted: str) -> list[int]:
    """Return the positions of a column: by its exact name, its folded name or, if no column has it, its position."""
    known = list(enumerate(names or ()))
    exact = [position for position, name in known if name == wanted]
    positions = exact or [position for position, name in known if fold(name) == fold(wanted) != ""]
    if positions:
        return positions
    if wanted.isdecimal() and 1 <= int(wanted) <= width:
        return [int(wanted) - 1]
    if names is None:
        raise refusal("no_header_mapped", path=path, wanted=wanted, width=width)
    raise refusal("unknown_column", path=path, wanted=wanted, hint=nearest_name(wanted, names))


def mapped_name(names: Sequence[str] | None, position: int) -> str:
    """Return how to map a column, as a shell reads it: its name or, if another column has that too, its position."""
    name = names[position] if names else ""
    is_single = fold(name) != "" and sum(fold(each) == fold(name) for each in names or ()) == 1
    return shlex.quote(name) if is_single else str(position + 1)


def is_company_name(name: str) -> bool:
    """Return whether a column is likely to hold company names."""
    return any(word in _WORDS.within["company"] for word in _words(name))


def _words(name: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = [word.casefold() for word in (*_WORD.findall(plain), *re.findall(r"\w+", plain.replace("_", " ")))]
    return [*words, *(word.rstrip("0123456789") for word in words)]
