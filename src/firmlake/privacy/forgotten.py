"""Find forgotten subjects in texts, by the keyed hashes of the tombstones."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache

import polars as pl

from firmlake.core.company import NUMBER_LENGTH, Company
from firmlake.core.folders import Folders
from firmlake.core.settings import PrivacySettings
from firmlake.privacy.tombstones import HASH_DIGITS, Register, keyed_hash, person_hash, read_register, word_hash
from firmlake.privacy.words import Word, known_words_in, numbers_in, spellings

FORGOTTEN = "[forgotten]"
"""Replaces a name in a longer text. A text that is only the name becomes null."""

Span = tuple[int, int]

_TOKEN_BYTES = {*b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%&#;\\", *range(0x80, 0x100)}
"""Letters, digits, and what encodes others in UTF-8, JSON, URLs and HTML."""
_TO_TOKENS = bytes(byte if byte in _TOKEN_BYTES else 0x20 for byte in range(0x100))
_UNKNOWN = "\ufffd"
"""Stands for bytes that are not UTF-8."""
_NUMBERS = re.compile(rb"(?<![\w.])[0-9]{1,14}(?![\w.])")
_KNOWN_TOKENS_MAX = 200_000
_CACHED_MAX = 65_536
_TEXTS_AT_ONCE = 20_000
"""Texts of a column that are searched at once: their words take twenty times the memory."""
_MASKED = re.compile(r"person-([0-9a-f]{32})")
_MARK = re.compile(r"forgotten-[0-9a-f]{8}")
_CONTENT = re.compile(r"[^\W_]")
_ID = re.compile(r"[^\s,;|\"'()\[\]{}:=]+")
_LENGTHS = {"BE": (9, 10), "NL": (7, 8), "FR": (9, 14)}
"""Digits of a company number as people write it; the first 9 of 14 in France are the company of an establishment."""


class Forgotten:
    """The forgotten subjects; finds and removes them in texts, by the tombstones and their key.

    Attributes:
        is_scoped: Whether a person is forgotten for one company only, so that the company of a text matters.
        names: The names of parties and companies from which `clean_frame` removed a person, as they are written, by
            their words. A longer name with the words of a forgotten one is another name.
    """

    def __init__(self, register: Register, key: bytes) -> None:
        self.register, self._key = register, key
        self.names: dict[tuple[str, ...], str] = {}
        self._persons: defaultdict[str, set[str]] = defaultdict(set)
        for one in register.tombstones:
            if one.kind == "person":
                self._persons[one.hash].add(one.scope)
        self._contacts = {one.hash: one.mark for one in register.tombstones if one.kind == "contact"}
        self._companies = {one.hash for one in register.tombstones if one.kind == "company"}
        names = [one.words for one in register.tombstones if one.kind == "person"]
        self._counts = sorted(set(map(len, names)), reverse=True)
        self._names = {frozenset(words) for words in names}
        self._words = frozenset(word for words in names for word in words)
        self._word_mark = lru_cache(_CACHED_MAX)(self._find_word)
        self._marks_of_text = lru_cache(_CACHED_MAX)(self._find_marks)
        self._other_tokens: set[bytes] = set()
        self._has_number = lru_cache(_CACHED_MAX)(self._find_number)
        self.is_scoped = any(one.scope for one in register.tombstones)
        self.has_persons, self.has_contacts = bool(self._persons), bool(self._contacts)
        self.has_companies = bool(self._companies)
        self._clean = lru_cache(_CACHED_MAX)(self._clean_text)
        self._company_hash = lru_cache(_CACHED_MAX)(lambda company: keyed_hash(key, "company", *company))

    def may_be_in(self, body: bytes) -> bool:
        """Tell quickly whether a JSON document may name a forgotten subject. False means that it certainly does not."""
        parts = body.split(b'"')
        texts = set(parts if b'\\"' in body else parts[1::2])
        if self.has_persons and self.spelled_in(b'"'.join(texts)):
            return True
        return (self.has_companies or self.has_contacts) and any(
            map(self._has_number, texts | set(_NUMBERS.findall(body)))
        )

    def may_name(self, texts: pl.Series) -> pl.Series:
        """Return those of different texts that may name a forgotten subject."""
        if self.has_companies or self.has_contacts:
            return texts
        parts = (part.to_series().str.join("\n").item() for part in texts.to_frame().iter_slices(_TEXTS_AT_ONCE))
        spelled = set[bytes]().union(*(self.spelled_in(part.encode()) for part in parts))
        return texts.filter(texts.str.contains_any([each.decode() for each in spelled])) if spelled else texts.clear()

    def spelled_in(self, content: bytes, shortest: int = 1) -> set[bytes]:
        """Find spellings in any bytes, one of which stands wherever a forgotten name stands.

        The bytes are UTF-8, also as JSON, URL or HTML, or any file. Returns the spellings of the rarest word of each
        name of at least `shortest` words all of which occur, and masked names; often none.
        """
        spelled: defaultdict[str, set[bytes]] = defaultdict(set)
        if len(self._other_tokens) > _KNOWN_TOKENS_MAX:
            self._other_tokens.clear()
        for token in set(content.translate(_TO_TOKENS).split()) - self._other_tokens:
            marks = self._marks_of(token)
            for mark in marks:
                spelled[mark].add(token)
            if not marks:
                self._other_tokens.add(token)
        found = {token for mark in spelled.keys() & self._persons.keys() for token in spelled[mark]}
        for name in self._names:
            if len(name) >= shortest and name <= spelled.keys():
                found |= min((spelled[mark] for mark in name), key=lambda tokens: sum(map(content.count, tokens)))
        return found

    def keyed(self, value: str) -> str:
        """Hash a value with the key, such as the checksum of a file before it was changed."""
        return keyed_hash(self._key, "checksum", value)

    def has_company(self, company: Company | None) -> bool:
        """Tell whether a company is forgotten."""
        return bool(self._companies) and company is not None and self._company_hash(company) in self._companies

    def names_company(self, text: str) -> bool:
        """Tell whether a text holds the number of a forgotten company."""
        return any(self._number_spans(spelling) for spelling in spellings(text))

    def contact(self, text: str) -> str | None:
        """Return the replacement of a forgotten contact id; None if the contact is not forgotten."""
        mark = self._contacts and self._contacts.get(keyed_hash(self._key, "contact", text.strip()))
        return f"forgotten-{mark}" if mark else None

    def clean(self, text: str, company: Company | None = None, *, has_contacts: bool = False) -> str | None:
        """Remove names of forgotten persons and numbers of forgotten companies from a text.

        Args:
            text: The text.
            company: The company that the text is about, for persons who are forgotten for one company only.
            has_contacts: Whether ids of contacts may stand in the text, between spaces or punctuation.

        Returns:
            The same text if it names no forgotten subject; None if it holds nothing else.
        """
        if has_contacts and self._contacts:
            text = _ID.sub(lambda found: self.contact(found[0]) or found[0], text)
        return self._clean(text, company if self.is_scoped else None)

    def words_in(self, text: str) -> list[Word]:
        """Find the words of a text, told apart by the words of forgotten names where they hold invisible characters."""
        return known_words_in(text, self._word_mark)

    def persons_in(self, words: list[Word], company: Company | None = None) -> list[Span]:
        """Find names of forgotten persons: the positions of the first and last word in a list of words."""
        found: list[Span] = []
        for count in self._counts:
            for first in range(len(words) - count + 1):
                if count == 1 and len(words) > 1:
                    continue  # one word alone is a name only if nothing else is in the text
                window = words[first : first + count]
                if all(self._word_mark(word.text) for word in window) and self._is_person(
                    person_hash(self._key, (word.text for word in window)), company
                ):
                    found.append((first, first + count - 1))
        return found

    def _find_word(self, word: str) -> str:
        """Return the keyed hash of a word that is part of a forgotten name, else an empty text."""
        mark = word_hash(self._key, word)
        return mark if mark in self._words else ""

    def _marks_of(self, token: bytes) -> set[str]:
        """Return the keyed hashes of the words of forgotten names in some bytes, and a masked name of a person."""
        if token.isalnum():
            text = token.decode()
            marks = {self._word_mark(text.lower())}
            return marks - {""} | ({text} if len(text) == HASH_DIGITS and text in self._persons else set())
        return {mark for part in token.decode("utf-8", "replace").split(_UNKNOWN) for mark in self._marks_of_text(part)}

    def _find_marks(self, text: str) -> frozenset[str]:
        words = (word for each in spellings(text) for word in self.words_in(each))
        return frozenset(filter(None, (self._word_mark(word.text) for word in words)))

    def _find_number(self, token: bytes) -> bool:
        """Tell whether a part of a JSON document names a forgotten contact or company."""
        return any(
            self._number_spans(text) or any(self.contact(each) is not None for each in _ID.findall(text))
            for text in spellings(token.decode("utf-8", "replace"))
        )

    def _is_person(self, name_hash: str, company: Company | None) -> bool:
        scopes = self._persons.get(name_hash, ())
        return "" in scopes or (company is not None and bool(scopes) and self._company_hash(company) in scopes)

    def _clean_text(self, text: str, company: Company | None) -> str | None:
        for spelling in spellings(text):
            if spans := [*self._person_spans(spelling, company), *self._number_spans(spelling)]:
                return self._clean_rest(_cut(spelling, spans), company)
        return text

    def _clean_rest(self, text: str, company: Company | None) -> str | None:
        """Clean a text once more, because the first replacement may uncover another match."""
        rest = text.replace(FORGOTTEN, "\0")
        if not _CONTENT.search(rest):
            return None
        again = self._clean_text(rest, company)
        return again and again.replace("\0", FORGOTTEN)

    def _person_spans(self, text: str, company: Company | None) -> list[Span]:
        if not self._counts:
            return []
        words = self.words_in(text)
        masked = (found for found in _MASKED.finditer(text) if self._is_person(found[1], company))
        spans = [(words[first].start, words[last].end) for first, last in self.persons_in(words, company)]
        return [*(found.span() for found in masked), *spans]

    def _number_spans(self, text: str) -> list[Span]:
        if not self._companies:
            return []
        return [(start, end) for digits, start, end in numbers_in(text) if any(map(self.has_company, _read(digits)))]


def is_mark(contact_id: str) -> bool:
    """Tell whether this id replaces a forgotten contact, and so must not be sent."""
    return _MARK.fullmatch(contact_id) is not None


def open_forgotten(settings: PrivacySettings, folders: Folders) -> Forgotten | None:
    """Open the tombstones of a data folder; None if there are none. Raises what `read_register` raises."""
    held = read_register(settings, folders)
    return Forgotten(*held) if held and held[0].tombstones else None


def _read(digits: str) -> list[Company]:
    """Return the companies that a number may stand for."""
    return [
        Company(country, digits.zfill(NUMBER_LENGTH[country])[: NUMBER_LENGTH[country]])
        for country, lengths in _LENGTHS.items()
        if len(digits) in lengths
    ]


def _cut(text: str, spans: list[Span]) -> str:
    """Replace parts of a text; overlapping ones together."""
    parts, position = [], 0
    for start, end in sorted(spans):
        if start >= position:
            parts += [text[position:start], FORGOTTEN]
        position = max(position, end)
    return "".join([*parts, text[position:]])
