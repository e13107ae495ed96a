"""Sanitise text from outside for display: no secrets, no control characters, one line, bounded length."""

from __future__ import annotations

import unicodedata

from firmlake.core.redaction import redact

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
