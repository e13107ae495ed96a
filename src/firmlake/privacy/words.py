"""The words of a text in normal form, also if the text is encoded as JSON, URL or HTML.

Two spellings of a name are the same if they have the same words, in any order: case, accents, punctuation and invisible
characters do not count, digits do. `Peeters, José`, `JOSE PEETERS` and `jose.peeters@example.com` all have the words
jose and peeters.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

_HIDDEN = (
    r"\u00ad\u034f\u061c\u115f\u1160\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
"""Soft hyphens, joiners, direction marks and fillers, which copied and scraped texts have inside words."""
_INVISIBLE = re.compile(f"[{_HIDDEN}]+")
_VISIBLE = re.compile(f"[^{_HIDDEN}]+")
_WORD = re.compile(rf"[^\W_](?:[^\W_]|[\u0300-\u036f{_HIDDEN}])*")
_LETTERS = str.maketrans({"œ": "oe", "æ": "ae", "ø": "o", "ł": "l", "đ": "d", "\u0131": "i", "ð": "d", "þ": "th"})
"""Letters that do not decompose, and how names spell them without."""
_TAG = re.compile(r"<(?:/?[A-Za-z]|!-)[^<>]{0,1000}>")
"""A tag or a comment of HTML."""
_GROUPS = re.compile(r"\d+(?:[ .\-/]\d+)*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DIGITS = range(7, 15)
_ESCAPES = re.compile(r'(?:\\u[0-9a-fA-F]{4})+|\\["\\/bfnrt]')
_DECODED_MAX = 4
"""How many nested encodings are decoded, such as JSON inside a JSON text."""


class Word(NamedTuple):
    """A word in normal form, and where it stands in the text."""

    text: str
    start: int
    end: int


def words_in(text: str) -> list[Word]:
    """Find the words of a text."""
    return [Word(_normal(found[0]), found.start(), found.end()) for found in _WORD.finditer(text)]


def known_words_in(text: str, is_known: Callable[[str], object]) -> list[Word]:
    """Find the words of a text, where an invisible character may stand inside a word or between two.

    Parts between invisible characters are one word if that word is known, the longest such first.
    """
    return [part for word in words_in(text) for part in _split(text, word, is_known)]


def name_words(name: str) -> tuple[str, ...]:
    """Return the sorted words of a name: the same for all its spellings.

    Example:
        >>> name_words("PEETERS, José") == name_words("jose peeters")
        True
    """
    return tuple(sorted(word.text for word in words_in(name)))


def numbers_in(text: str) -> list[tuple[str, int, int]]:
    """Find possible company numbers: 7 to 14 digits, grouped or not, except dates. Return digits, start and end."""
    found = []
    for groups in _GROUPS.finditer(text):
        parts = [(part[0], groups.start() + part.start()) for part in re.finditer(r"\d+", groups[0])]
        for first in range(len(parts)):
            digits, end = "", 0
            for part, start in parts[first:]:
                digits, end = digits + part, start + len(part)
                if len(digits) >= _DIGITS.stop:
                    break
                if len(digits) in _DIGITS and not _DATE.fullmatch(text[parts[first][1] : end]):
                    found.append((digits, parts[first][1], end))
    return found


def spellings(text: str) -> list[str]:
    """Return a text followed by its successive decodings, and last without HTML tags."""
    found = [text]
    for _ in range(_DECODED_MAX):
        decoded = _decode(found[-1])
        if decoded == found[-1]:
            break
        found.append(decoded)
    if "<" in found[-1] and (bare := _TAG.sub(" ", found[-1])) != found[-1]:
        found.append(bare)
    return found


def _split(text: str, word: Word, is_known: Callable[[str], object]) -> Iterator[Word]:
    """Yield the words that a word with invisible characters consists of."""
    if (word.text.isascii() and len(word.text) == word.end - word.start) or is_known(word.text):
        yield word
        return
    parts = [found.span() for found in _VISIBLE.finditer(text, word.start, word.end)]
    while parts:
        start = parts[0][0]
        joined = [Word(_normal(text[start:end]), start, end) for _, end in parts]
        number = next((last for last in range(len(parts) - 1, 0, -1) if is_known(joined[last].text)), 0)
        yield joined[number]
        del parts[: number + 1]


@lru_cache(maxsize=65536)
def _normal(word: str) -> str:
    if word.isascii():
        return word.lower()
    visible = _INVISIBLE.sub("", word)
    bare = "".join(letter for letter in unicodedata.normalize("NFKD", visible) if not unicodedata.combining(letter))
    return bare.casefold().translate(_LETTERS)


def _decode(text: str) -> str:
    if "\\" in text:
        text = _ESCAPES.sub(lambda found: json.loads(f'"{found[0]}"'), text)
    if "%" in text:
        text = unquote(text)
    return html.unescape(text) if "&" in text else text
