"""Receive the body of an answer: decompress it and enforce the size limits while it arrives."""

from __future__ import annotations

import codecs
import contextlib
import re
import zlib
from collections.abc import Iterable

from firmlake.core.text import one_line

__all__ = ["Body", "BodyError", "in_utf8"]

INFLATE_RATIO_MAX = 100
"""Highest compression ratio, enforced above 1 MiB. The service's JSON compresses 8 to 25 times, a bomb 1,000 times."""
_RATIO_FROM_BYTES = 1_048_576
_STEP_BYTES = 1_048_576
"""Most bytes inflated at once, so that one piece of a bomb cannot fill the memory before the check."""
_EITHER_HEADER = zlib.MAX_WBITS | 32
"""Makes zlib detect gzip and zlib (which HTTP calls deflate)."""

_INFLATED = ("gzip", "x-gzip", "deflate")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHARSETS = ("iso8859-1", "iso8859-15", "cp1252", "utf-16", "utf-16-le", "utf-16-be")
"""Charsets in which some services write JSON, although RFC 8259 (8.1) allows only UTF-8."""
_NAME_MAX = 30


class BodyError(Exception):
    """The body cannot be used; the message is the reason, as the end of a sentence."""


class Body:
    """The body of one answer while it arrives.

    Args:
        encoding: The Content-Encoding header.
        wire_bytes_max: Most bytes as sent.
        body_bytes_max: Most bytes after inflating.

    Attributes:
        wire_bytes: Bytes received so far, before inflating.
    """

    def __init__(self, encoding: str, wire_bytes_max: int, body_bytes_max: int) -> None:
        self.wire_bytes = 0
        self._size = 0
        self._parts: list[bytes] = []
        self._wire_bytes_max = wire_bytes_max
        self._body_bytes_max = body_bytes_max
        self._encoding = encoding.strip().lower()
        self._inflate = zlib.decompressobj(_EITHER_HEADER) if self._encoding in _INFLATED else None

    def receive(self, chunks: Iterable[bytes], declared: str | None = None) -> None:
        """Receive the whole body.

        Args:
            chunks: Bytes as they arrive. An exception raised by the iterator passes through; earlier bytes are kept.
            declared: The Content-Length header; a body that declares too many bytes is not read.

        Raises:
            BodyError: The body is too long, a bomb, damaged, truncated, or in an encoding we did not ask for.
        """
        if _LENGTH.fullmatch(declared or "") and int(declared or 0) > self._wire_bytes_max:
            raise BodyError(f"declares {declared} bytes, more than {self._wire_bytes_max}")
        for chunk in chunks:
            self.wire_bytes += len(chunk)
            if self.wire_bytes > self._wire_bytes_max:
                self._give_up(f"has more than {self._wire_bytes_max} bytes")
            self._take(chunk)
        if self._inflate and self.wire_bytes and not self._inflate.eof:
            raise BodyError("compressed body is cut")
        if not (self._inflate or self._encoding in ("", "identity") or _is_charset(self._encoding)):
            raise BodyError(f"is in the encoding {one_line(self._encoding, _NAME_MAX)}, which was not asked for")

    def content(self) -> bytes:
        """Return the inflated bytes and release them; call this once."""
        parts, self._parts = self._parts, []
        return b"".join(parts)

    def _take(self, chunk: bytes) -> None:
        if self._inflate is None:
            return self._keep(chunk)
        while True:
            if chunk and self._inflate.eof:  # gzip may hold several members in a row
                self._inflate = zlib.decompressobj(_EITHER_HEADER)
            try:
                part = self._inflate.decompress(chunk, _STEP_BYTES)
            except zlib.error:
                raise BodyError("compressed body is damaged") from None
            chunk = self._inflate.unconsumed_tail or self._inflate.unused_data
            self._keep(part, unread=len(chunk))
            if not chunk and (self._inflate.eof or len(part) < _STEP_BYTES):
                return None

    def _keep(self, part: bytes, unread: int = 0) -> None:
        self._size += len(part)
        if self._size > self._body_bytes_max:
            self._give_up(f"inflates to more than {self._body_bytes_max} bytes")
        if self._size > max(_RATIO_FROM_BYTES, INFLATE_RATIO_MAX * (self.wire_bytes - unread)):
            self._give_up(f"inflates to more than {INFLATE_RATIO_MAX} times its size")
        self._parts.append(part)

    def _give_up(self, reason: str) -> None:
        # A hostile body is not worth keeping in memory beyond its first piece.
        self._parts = self._parts[:1]
        raise BodyError(reason)


def in_utf8(content: bytes, charset: str | None) -> bytes:
    r"""Convert a text to UTF-8 if its header declares another charset and the text is not UTF-8 already.

    Example:
        >>> in_utf8(b"Li\xe8ge", "ISO-8859-1").decode()
        'Liège'
    """
    with contextlib.suppress(LookupError, UnicodeDecodeError):
        if charset and (name := codecs.lookup(charset).name) in _CHARSETS and not _is_utf8(content):
            return content.decode(name).encode()
    return content


def _is_charset(encoding: str) -> bool:
    """Tell whether a service names its charset in the wrong header: Content-Encoding: utf-8."""
    with contextlib.suppress(LookupError, ValueError):
        return codecs.lookup(encoding).name in {*_CHARSETS, "utf-8", "ascii"}
    return False


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
