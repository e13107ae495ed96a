"""Read numbers in texts: a text counts as a number if there is exactly one way to read it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
import polars as pl

__all__ = ["MARKS", "is_ambiguous", "number_in", "numbers_in", "readings"]

MARKS = ".,"
"""The marks that separate decimals."""

_JSON = re.compile(rb'"(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"')
_SMALL = ("ratio", "fraction", "score")
"""Kinds whose numbers have many decimals and hardly ever reach a thousand: 1.234 is read as JSON spells it. A fraction
never does, so that 1,234 has decimals too."""
_APART = " '\u2019\u00a0\u2009\u202f"
"""Separators of thousands other than marks: blanks and quotes of several widths."""
_DECODE = msgspec.json.Decoder(str).decode


def number_in(cell: bytes, kind: str, marks: str = MARKS) -> bytes | None:
    """Return the number that a JSON string holds, as JSON spells it; None if there is no or more than one.

    A value is judged by itself, so that it is read alike in every answer and every order.

    Args:
        cell: The JSON of a value of any type.
        kind: The kind of its field.
        marks: The marks that may separate decimals.

    Example:
        >>> number_in(b'"8.109.058,52"', "money"), number_in(b'"591.240"', "money")
        (b'8109058.52', None)
    """
    found = _readings_in(cell, marks)
    if len(found) > 1 and (kind == "fraction" or (kind in _SMALL and b"." in cell)):
        found = {number for number in found if "." in number}
    if not found and "." in marks and (match := _JSON.fullmatch(cell)):
        return match[1]
    return found.pop().encode() if len(found) == 1 else None


def numbers_in(cells: pl.Series, kind: str, marks: str = MARKS) -> pl.Series:
    """Do what `number_in` does for a column, except for strings with exponents or escapes: they count as no numbers.

    Args:
        cells: JSON of values, without line feeds.
        kind: The kind of their field.
        marks: The marks that may separate decimals.
    """
    lines = "\n".join(cells.to_list()).encode()
    is_number = {mark: pl.col("cell").str.contains(f'^"{_FORMS[mark].pattern}"$') for mark in marks}
    found = pl.DataFrame([cells.alias("cell"), *(_spelled(lines, mark) for mark in MARKS)]).with_columns(
        pl.when(is_number.get(mark, False)).then(mark).alias(mark) for mark in MARKS
    )
    one, other = map(pl.col, MARKS)
    is_clear = one.is_null() | other.is_null() | (one == other)
    is_small = (kind in _SMALL) & one.str.contains(".", literal=True)
    likely = pl.when(is_small).then(one).otherwise(other if kind == "fraction" else None)
    return found.select(pl.when(is_clear).then(pl.coalesce(one, other)).otherwise(likely)).to_series()


def is_ambiguous(cell: bytes) -> bool:
    """Return whether a JSON value is a string that holds a number with two readings.

    Then `contract.decimal_mark` decides between them.
    """
    return len(_readings_in(cell, MARKS)) > 1


def readings(text: str, marks: Iterable[str] = MARKS) -> set[str]:
    """Return every number that a text can be read as: with a mark before decimals, and thousands apart or not."""
    matches = (_FORMS[mark].fullmatch(text) for mark in marks)
    return {_spell(*match.group("sign", "whole", "decimals")) for match in matches if match}


# ---------------------------------------------------------------------------------------------------------------------


def _readings_in(cell: bytes, marks: str) -> set[str]:
    try:
        return readings(_DECODE(cell), marks)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return set()


def _form(mark: str) -> re.Pattern[str]:
    """Return a pattern that Python and Polars read alike."""
    apart = "|".join(f"(?:{re.escape(each)}[0-9]{{3}})+" for each in MARKS.replace(mark, "") + _APART)
    whole = rf"0|[1-9][0-9]*|[1-9][0-9]{{0,2}}(?:{apart})"
    return re.compile(rf"(?P<sign>-?)(?P<whole>{whole})(?:{re.escape(mark)}(?P<decimals>[0-9]+))?")


def _spell(sign: str, whole: str, decimals: str | None) -> str:
    digits = re.sub("[^0-9]", "", whole)
    return f"{sign}{digits}.{decimals}" if decimals else f"{sign}{digits}"


def _spelled(lines: bytes, mark: str) -> pl.Series:
    """Spell each line as JSON does if it is a number with this mark."""
    others = bytes({*range(256)} - {*b"0123456789-\n", ord(mark)})
    spelled = lines.translate(bytes.maketrans(mark.encode(), b"."), others)
    return pl.Series(mark, spelled.decode().split("\n"))


_FORMS = {mark: _form(mark) for mark in MARKS}
