"""Texts from outside, for display: no secrets, no control characters, one line, bounded length.

Secrets are found however JSON, URLs, headers, HTML, base64 or base 16 encode them. The process keeps a list of them, as
the log filters of other tools do, so one rule redacts every message, header and log line. `Token` registers itself here
when it is read.
"""

from __future__ import annotations

import base64
import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

LOOKED_AT_MAX = 262_144
"""Characters kept of a text before it is redacted and cut: many times the longest encoding of the longest token."""


def count_of(number: int, one: str, many: str = "") -> str:
    """Format a number with its noun: `one` for 1, else `many`, by default the regular plural of `one`."""
    regular = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
    return f"{number:,} {one if number == 1 else many or regular}"


def shown(text: str, kept: str = "") -> str:
    r"""Escape characters that a terminal would obey, hide or reorder: control, escape, bidi and surrogate characters.

    Args:
        text: Any text.
        kept: Control characters to leave in place, such as a line feed.

    Example:
        >>> shown("a\x1b[31m\u202eb\u00a0c")
        'a\\x1b[31m\\u202eb c'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else _spelled(c) for c in text)


def one_line(text: str, length_max: int | None = None) -> str:
    """Return a text that fits on one line of a terminal, a log, a message or a file.

    Args:
        text: Any text.
        length_max: Most characters; a longer text ends in an ellipsis. None does not cut.

    Returns:
        The text with secrets redacted, runs of white space collapsed, and unprintable characters escaped.
        Secrets are redacted before the text is cut, because a cut secret could not be recognised.
    """
    if length_max is not None:
        text = text[: max(LOOKED_AT_MAX, length_max)]
    text = shown(" ".join(redact(text).split()))
    return text if length_max is None or len(text) <= length_max else text[: length_max - 1] + "…"


def _spelled(character: str) -> str:
    if unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65_536 else f"\\U{code:08x}"


PIECE_LENGTH = 12
"""Length of the pieces that are redacted. Shorter pieces reveal no token and occur in ordinary texts."""
SECRET_LENGTH_MIN = 8
"""Shorter secrets could be ordinary words, which must stay intact in data that was paid for."""

_SHOWN = b"[token]"
_SECRETS_MAX = 16
"""Secrets remembered. A token replaced during the run is still secret; looking for many old ones would cost time."""
_DECODED_MAX = 4
"""Nested encodings that are undone: JSON in a JSON string in a URL is three."""
_WINDOW = 8_192
"""Bytes decoded at once, so that a hostile body cannot exhaust memory and one mark costs little."""
_LONGEST_SPELLING = 16
"""Most bytes that one character can take after all encodings."""

Span = tuple[int, int]

_secrets: dict[str, None] = {}
_lock = threading.Lock()


def keep_secret(secret: str) -> None:
    """Redact a secret from now on; secrets of fewer than 8 characters are ignored."""
    if len(secret) >= SECRET_LENGTH_MIN:
        with _lock:
            _secrets.pop(secret, None)
            _secrets[secret] = None
            while len(_secrets) > _SECRETS_MAX:
                del _secrets[next(iter(_secrets))]


def redact(text: str) -> str:
    """Replace secrets and their pieces of 12 characters or more in a message, header or line of a log.

    Redact before you shorten a text: the remains of a cut secret are found only if they are long enough.
    """
    content = text.encode("utf-8", "surrogatepass")
    found = _find(content, with_pieces=True)
    return _replace(content, found).decode("utf-8", "surrogatepass") if found else text


def redact_whole(body: bytes) -> bytes:
    """Replace complete secrets in a body; pieces stay, because they may be data that was paid for."""
    found = _find(body, with_pieces=False)
    return _replace(body, found) if found else body


class _Spellings:
    """The byte strings to look for: a secret, and the part that every base64 encoding of it shares."""

    def __init__(self, secret: bytes) -> None:
        standard = dict.fromkeys(_base64_core(secret, before) for before in range(3))
        encoded = dict.fromkeys((*standard, *(core.translate(_URL_SAFE) for core in standard)))
        self._words = (secret, *_hexadecimal(secret))
        self.longest = max(map(len, (*self._words, *encoded)))
        self._encoded = [(core, re.compile(_AROUND % re.escape(core))) for core in encoded]
        whole = (secret, *encoded)
        self._pieces = {word[at : at + PIECE_LENGTH] for word in whole for at in range(len(word) - PIECE_LENGTH + 1)}
        self._halves = {piece[at : at + _HALF] for piece in self._pieces for at in range(_HALF)}

    def find_whole(self, content: bytes) -> Iterator[Span]:
        for word in self._words:
            at = content.find(word)
            while at >= 0:
                yield at, at + len(word)
                at = content.find(word, at + 1)
        for core, around in self._encoded:
            if core in content:
                yield from (match.span() for match in around.finditer(content))

    def find_pieces(self, content: bytes) -> Iterator[Span]:
        """Look at every sixth position only: any piece of 12 bytes contains a half of 6 that begins there."""
        for half in range(0, len(content) - _HALF + 1, _HALF):
            if content[half : half + _HALF] in self._halves:
                for at in range(max(0, half - _HALF), half + 1):
                    if content[at : at + PIECE_LENGTH] in self._pieces:
                        yield at, at + PIECE_LENGTH


_HALF = PIECE_LENGTH // 2
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_AROUND = rb"[A-Za-z0-9+/_-]?%s[A-Za-z0-9+/_-]?={0,2}"
"""The characters before and after may hold some bits of the secret."""

_spellings = lru_cache(maxsize=_SECRETS_MAX)(_Spellings)


def _hexadecimal(secret: bytes) -> list[bytes]:
    """Only whole: 12 digits in base 16 are 6 characters of the secret, and occur in ordinary texts."""
    written = [secret.hex(), secret.hex(":"), secret.hex(" ")]
    return [spelling.encode() for each in written for spelling in (each, each.upper())]


def _base64_core(secret: bytes, before: int) -> bytes:
    """Return the base64 characters that depend only on the secret, given the number of bytes before it (modulo 3)."""
    bits = 8 * (before + len(secret))
    return base64.b64encode(bytes(before) + secret)[-(-8 * before // 6) : bits // 6]


_ENCODED = re.compile(
    rb"""\\(?:u(?:00|\{0{0,4})|x|U000000)(?P<json>[2-7][0-9A-Fa-f])\}? # JSON and most languages: any character
    |    \\(?P<octal>[01][0-7]{2})           # shells, C and Python
    |    \\(?P<quoted>[!-/:-@\[-`{-~])       # JSON: \/ and \"; quoted strings of headers: any character
    |    %(?:u00)?(?P<address>[2-7][0-9A-Fa-f]) # addresses, and those that JavaScript's escape() wrote
    |    &\#[xX]0{0,4}(?P<hex>[2-7][0-9A-Fa-f])(?![0-9A-Fa-f]);? # HTML, which browsers read without ; too
    |    &\#0{0,4}(?P<decimal>[0-9]{2,3})(?![0-9]);?
    |    &(?P<name>amp|quot|apos|lt|gt);""",
    re.VERBOSE,
)
_MARKS = {
    b"\\": re.compile(rb"\\(?:(?:u(?:00|\{0{0,4})|x|U000000)[2-7]|[01][0-7]{2}|[!-/:-@\[-`{-~])"),
    b"%": re.compile(rb"%(?:u00)?[2-7][0-9A-Fa-f]"),
    b"&": re.compile(rb"&[#aqlg]"),
}
"""The beginnings of encoded characters, by the byte that each begins with: most bodies hold few of these."""
_BASES = {"decimal": 10, "octal": 8}
_NAMED = {b"amp": b"&", b"quot": b'"', b"apos": b"'", b"lt": b"<", b"gt": b">"}


def _find(content: bytes, *, with_pieces: bool) -> list[Span]:
    """Return the spans of secrets, in order and not touching."""
    known = [_spellings(secret.encode()) for secret in _secrets]
    if not known:
        return []
    found = list(_find_in(content, known, with_pieces))
    marks = [mark for byte, mark in _MARKS.items() if byte in content]
    if any(mark.search(content) for mark in marks):
        overlap = _LONGEST_SPELLING * max(spelling.longest for spelling in known)
        for start in range(0, max(len(content) - overlap, 1), _WINDOW):
            window = content[start : start + _WINDOW + overlap]
            if any(mark.search(window) for mark in marks):
                found += ((start + a, start + b) for a, b in _find_encoded(window, known, with_pieces))
    return list(_join(found))


def _find_in(content: bytes, known: Iterable[_Spellings], with_pieces: bool) -> Iterator[Span]:
    for spelling in known:
        yield from spelling.find_whole(content)
        if with_pieces:
            yield from spelling.find_pieces(content)


def _find_encoded(content: bytes, known: Iterable[_Spellings], with_pieces: bool) -> Iterator[Span]:
    """Decode again and again, and translate what is found each time into places of the content."""
    contents = [content]
    for _ in range(_DECODED_MAX):
        decoded = _ENCODED.sub(lambda match: _character_of(match[0]), contents[-1])
        if decoded == contents[-1]:
            return
        if found := list(_find_in(decoded, known, with_pieces)):
            layers = [_places(before) for before in reversed(contents)]
            for start, end in found:
                for places in layers:
                    start, end = places[start], places[end]
                yield start, end
        contents.append(decoded)


@lru_cache(maxsize=4096)
def _character_of(spelling: bytes) -> bytes:
    """Return the character that an encoded spelling stands for."""
    match = _ENCODED.fullmatch(spelling)
    assert match
    kind, text = match.lastgroup, match[match.lastindex or 0]
    if kind == "quoted":
        return text
    return _NAMED[text] if kind == "name" else bytes([int(text, _BASES.get(str(kind), 16)) % 256])


def _places(content: bytes) -> list[int]:
    """Return where each byte of the decoded content begins, and the end."""
    places: list[int] = []
    end = 0
    for match in _ENCODED.finditer(content):
        places += range(end, match.start() + 1)
        end = match.end()
    return [*places, *range(end, len(content) + 1)]


def _join(spans: Iterable[Span]) -> Iterator[Span]:
    """Join spans that overlap or touch."""
    start = end = -1
    for a, b in sorted(spans):
        if a > end:
            if end > 0:
                yield start, end
            start, end = a, b
        end = max(end, b)
    if end > 0:
        yield start, end


def _replace(content: bytes, spans: Iterable[Span]) -> bytes:
    parts, at = [], 0
    for start, end in spans:
        parts += [content[at:start], _SHOWN]
        at = end
    return b"".join((*parts, content[at:]))
