"""Texts from outside made fit to be shown: no secret, no control character, one line, not too long."""

from __future__ import annotations

import unicodedata

from firmlake.core.redaction import redact

__all__ = ["LOOKED_AT_MAX", "one_line", "shown"]

LOOKED_AT_MAX = 262_144
"""Characters of a text that is going to be cut: many times as many as the longest token in the longest spelling."""


def shown(text: str, kept: str = "") -> str:
    r"""Spell out what a terminal would obey, hide or reorder: control, escape and bidi characters, and half characters.

    Args:
        text: From anywhere.
        kept: Control characters that stay, such as a line feed.

    Example:
        >>> shown("a\x1b[31m\u202eb\u00a0c")
        'a\\x1b[31m\\u202eb c'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else _spelled(c) for c in text)


def one_line(text: str, length_max: int | None = None) -> str:
    """Make a text fit for one line of a terminal, a log, a message or a file.

    Args:
        text: From anywhere.
        length_max: Characters; a longer text ends in an ellipsis. None does not cut.

    Returns:
        Without secrets (these are redacted first, because a cut would hide their rest), runs of white space as one
        space, and what cannot be printed spelled out.
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
