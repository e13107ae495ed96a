"""Read numbers in texts: a text counts as a number if there is exactly one way to read it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
import polars as pl

__all__ = ["AMBIGUOUS", "MARKS", "are_clear", "is_ambiguous", "number_in", "readings"]

MARKS = ".,"
"""The marks that separate decimals."""
AMBIGUOUS = "may be decimals or thousands"
"""The reason why a text with two readings does not fit; `contract.decimal_mark` decides between them."""

_PLAIN = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
"""A number as JSON spells it, without an exponent."""
_THOUSANDS = r"-?[1-9][0-9]{0,2}\.[0-9]{3}"
"""Such a number with two readings: 591.240 is 591.24, or 591240 with a point between thousands."""
_JSON = re.compile(rf'"({_PLAIN}(?:[eE][+-]?[0-9]+)?)"'.encode())
_CLEAR = re.compile(rf'"(?!{_THOUSANDS}")'.encode() + _JSON.pattern[1:])
_SMALL = ("ratio", "fraction", "score")
"""Kinds whose numbers have many decimals and hardly ever reach a thousand: 1.234 is read as JSON spells it."""
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
    spelled = _JSON if _is_settled(kind, marks) else _CLEAR
    if "." in marks and (match := spelled.fullmatch(cell)):
        return match[1]
    found = _readings_in(cell, marks)
    if kind == "fraction" and len(found) > 1:
        found = {number for number in found if "." in number}  # a share never reaches a thousand
    return found.pop().encode() if len(found) == 1 else None


def are_clear(texts: pl.Series, kind: str, marks: str) -> bool:
    """Return whether all numbers of a column are spelled as in JSON, and `number_in` reads each as it stands.

    Args:
        texts: Texts without quotes; those without digits are no numbers.
        kind: The kind of their field.
        marks: The marks that may separate decimals.
    """
    if "." not in marks or not texts.str.contains(f"^(?:[^0-9]*|{_PLAIN})$").all():
        return False
    return _is_settled(kind, marks) or not texts.str.contains(f"^{_THOUSANDS}$").any()


def is_ambiguous(cell: bytes) -> bool:
    """Return whether a JSON value is a string that holds a number with two readings."""
    return len(_readings_in(cell, MARKS)) > 1


def readings(text: str, marks: Iterable[str] = MARKS) -> set[str]:
    """Return every number that a text can be read as: with a mark before decimals, and thousands apart or not."""
    matches = (_FORMS[mark].fullmatch(text) for mark in marks)
    return {_spell(*match.group("sign", "whole", "decimals")) for match in matches if match}


# ---------------------------------------------------------------------------------------------------------------------


def _is_settled(kind: str, marks: str) -> bool:
    """Return whether a point can only stand before decimals."""
    return marks == "." or kind in _SMALL


def _readings_in(cell: bytes, marks: str) -> set[str]:
    try:
        return readings(_DECODE(cell), marks)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return set()


def _form(mark: str) -> re.Pattern[str]:
    apart = re.escape(MARKS.replace(mark, "")) + _APART
    whole = rf"0|[1-9][0-9]*|[1-9][0-9]{{0,2}}(?P<apart>[{apart}])[0-9]{{3}}(?:(?P=apart)[0-9]{{3}})*"
    return re.compile(rf"(?P<sign>-?)(?P<whole>{whole})(?:{re.escape(mark)}(?P<decimals>[0-9]+))?")


def _spell(sign: str, whole: str, decimals: str | None) -> str:
    digits = re.sub("[^0-9]", "", whole)
    return f"{sign}{digits}.{decimals}" if decimals else f"{sign}{digits}"


_FORMS = {mark: _form(mark) for mark in MARKS}
