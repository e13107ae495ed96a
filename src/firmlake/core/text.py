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
from collections.abc import Iterator
from functools import cached_property, lru_cache

LOOKED_AT_MAX = 262_144
"""Characters kept of a text before it is redacted and cut: many times the longest encoding of the longest token."""


def count_of(number: int, one: str, many: str = "") -> str:
    """Format a number with its noun: `one` for 1, else `many`, by default the regular plural of `one`."""
    regular = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
    return f"{number:,} {one if number == 1 else many or regular}"


def duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


@lru_cache(maxsize=4096)
def plain_key(key: str) -> str:
    """Return a key without what differs between languages of programming: capitals and underscores.

    Example:
        >>> plain_key("company_number"), plain_key("CompanyNumber")
        ('companynumber', 'companynumber')
    """
    return key.replace("_", "").casefold()


def shown(text: str, kept: str = "") -> str:
    r"""Escape characters that a terminal would obey, hide or reorder: control, escape, bidi and surrogate characters.

    Control characters in `kept`, such as a line feed, stay.

    Example:
        >>> shown("a\x1b[31m\u202eb\u00a0c")
        'a\\x1b[31m\\u202eb c'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else _spelled(c) for c in text)


def one_line(text: str, length_max: int | None = None) -> str:
    """Return a text that fits on one line: secrets redacted, white space collapsed, unprintable characters escaped.

    If it has more than `length_max` characters, it ends in an ellipsis. Secrets are redacted before the text is cut,
    because a cut secret could not be recognised.
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

    If one was encoded, the text is returned decoded. Redact before you shorten a text: the remains of a cut secret are
    found only if they are long enough.
    """
    content = text.encode("utf-8", "surrogatepass")
    redacted = _redact_pieces(content, [_spellings(secret.encode()) for secret in _secrets])
    return text if redacted is content else redacted.decode("utf-8", "surrogatepass")


def redact_whole(body: bytes) -> bytes:
    """Replace complete secrets in a body; pieces and all else stay, because they may be data that was paid for."""
    for spelling in [_spellings(secret.encode()) for secret in _secrets]:
        if any(spelling.is_in(decoded) for decoded in _decodings(body)):
            body = spelling.pattern.sub(_SHOWN, body)
    return body


class _Spellings:
    """The byte strings to look for: a secret, and the part that every base64 encoding of it shares."""

    def __init__(self, secret: bytes) -> None:
        standard = dict.fromkeys(_base64_core(secret, before) for before in range(3))
        self._cores = dict.fromkeys((*standard, *(core.translate(_URL_SAFE) for core in standard)))
        self._words = (secret, *_hexadecimal(secret))
        whole = (secret, *self._cores)
        self._pieces = {word[at : at + PIECE_LENGTH] for word in whole for at in range(len(word) - PIECE_LENGTH + 1)}

    def is_in(self, content: bytes) -> bool:
        """Tell whether the content holds the whole secret."""
        return any(word in content for word in (*self._words, *self._cores))

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """Matches the whole secret, whatever encodings each of its characters went through."""
        words = (b"".join(map(_in_any_encoding, word)) for word in self._words)
        cores = (_AROUND % b"".join(map(_in_any_encoding, core)) for core in self._cores)
        return re.compile(b"|".join((*words, *cores)))

    def without_pieces(self, content: bytes) -> bytes:
        """Replace the whole secret, then each stretch that pieces cover; return the same object if there is none."""
        if self.is_in(content):
            content = self.pattern.sub(_SHOWN, content)
        covered = bytearray(len(content))
        for at in range(len(content) - PIECE_LENGTH + 1):
            if content[at : at + PIECE_LENGTH] in self._pieces:
                covered[at : at + PIECE_LENGTH] = b"x" * PIECE_LENGTH
        for stretch in reversed(list(re.finditer(b"x+", covered))):
            content = content[: stretch.start()] + _SHOWN + content[stretch.end() :]
        return content


def _redact_pieces(content: bytes, known: list[_Spellings]) -> bytes:
    for decoded in _decodings(content) if known else ():
        redacted = decoded
        for spelling in known:
            redacted = spelling.without_pieces(redacted)
        if redacted is not decoded:
            return _redact_pieces(redacted, known)
    return content


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
_MARKS = (b"\\", b"%", b"&")
"""Each encoding begins with one of these."""
_BASES = {"decimal": 10, "octal": 8}
_NAMED = {b"amp": b"&", b"quot": b'"', b"apos": b"'", b"lt": b"<", b"gt": b">"}
_NAMES = {character[0]: name.decode() for name, character in _NAMED.items()}


def _decodings(content: bytes) -> Iterator[bytes]:
    """Yield a content, then what it says once its encodings are undone, again and again."""
    yield content
    for _ in range(_DECODED_MAX):
        decoded = _decode_once(content)
        if decoded is content:
            return
        yield decoded
        content = decoded


def _decode_once(content: bytes) -> bytes:
    """Undo one layer of encodings; return the same object if there is none.

    `find` looks for the marks, because the pattern alone would take longer over a body than all else that a run does.
    """
    pieces, end = [], 0
    for at in sorted(at for mark in _MARKS for at in _places(content, mark)):
        if at >= end and (found := _ENCODED.match(content, at)):
            pieces += [content[end:at], _character_of(found[0])]
            end = found.end()
    return b"".join((*pieces, content[end:])) if pieces else content


def _places(content: bytes, mark: bytes) -> Iterator[int]:
    at = content.find(mark)
    while at >= 0:
        yield at
        at = content.find(mark, at + 1)


@lru_cache(maxsize=4096)
def _character_of(spelling: bytes) -> bytes:
    """Return the character that an encoded spelling stands for."""
    match = _ENCODED.fullmatch(spelling)
    assert match
    kind, text = match.lastgroup, match[match.lastindex or 0]
    if kind == "quoted":
        return text
    return _NAMED[text] if kind == "name" else bytes([int(text, _BASES.get(str(kind), 16)) % 256])


def _in_any_encoding(byte: int) -> bytes:
    """Match a character in each spelling of `_ENCODED`, also if its marks were encoded again."""
    own, digits = re.escape(chr(byte)), "".join(f"[{digit}{digit.upper()}]" for digit in f"{byte:02x}")
    languages = rf"\\*(?:{own}|(?:u00|u\{{0{{0,4}}|x|U000000){digits}\}}?|{byte:03o})"
    page = rf"&(?:amp;)*(?:\#[xX]0*{digits}|\#0*{byte}|{_NAMES.get(byte, own)});?"
    return rf"(?:{languages}|%(?:25)*(?:u00)?{digits}|{page})".encode()
