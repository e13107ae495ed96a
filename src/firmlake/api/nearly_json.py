"""Repair values that some services write although JSON does not allow them, so that one value does not cost an answer.

NaN, Infinity and -Infinity are put in quotes; such a text does not fit its field, which is recorded. Half a surrogate
pair, as in a text that was cut inside a character, becomes U+FFFD.
"""

from __future__ import annotations

import re

__all__ = ["repaired"]

_SIGN = re.compile(rb"NaN|Infinity|\\u[dD][89a-fA-F]")
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|-?\b(?:NaN|Infinity)\b', re.DOTALL)
"""A text, or one of the words that stand for numbers."""
_ESCAPE = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\.", re.DOTALL)
"""A surrogate pair, half of one, or another escape."""


def repaired(body: bytes) -> bytes:
    r"""Return an answer that cannot be decoded with these values repaired; anything else stays as it is.

    Example:
        >>> repaired(rb'{"ebit": NaN, "name": "NaN \ud83d"}')
        b'{"ebit": "NaN", "name": "NaN \\ufffd"}'
    """
    if not _SIGN.search(body):
        return body
    content, position = bytearray(), 0  # a list of parts would take many times the memory of a hostile body
    for token in _TOKEN.finditer(body):
        if _SIGN.search(token[0]):
            content += body[position : token.start()] + _repair(token[0])
            position = token.end()
    return bytes(content + body[position:])


# ---------------------------------------------------------------------------------------------------------------------


def _repair(token: bytes) -> bytes:
    if not token.startswith(b'"'):
        return b'"%b"' % token
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], token)
