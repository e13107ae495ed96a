"""Text that a spreadsheet would take for a formula, made harmless in a way that can be undone.

An apostrophe goes before it, and before text that begins with an apostrophe itself: whoever takes one apostrophe away
from all text that begins with one has every text back. A plain number such as -2 is no formula, and stays as it is.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["NUMBER", "RISKY", "guard", "is_risky"]

RISKY: Final = "^[=+@\t\r\n'-]"
"""How text begins that is made harmless, as a regular expression for Python, Arrow and DuckDB."""

NUMBER: Final = r"^[+-][0-9]+([.,][0-9]+)?$"
"""Text that begins like a formula and is a number."""

_RISKY, _NUMBER = re.compile(RISKY), re.compile(NUMBER.replace("$", r"\Z"))


def guard(text: str) -> str:
    r"""Make a text harmless.

    Example:
        >>> [guard(text) for text in ("=1+1", "-2", "'t Hof", "Acme")]
        ["'=1+1", '-2', "''t Hof", 'Acme']
    """
    return f"'{text}" if is_risky(text) else text


def is_risky(text: str) -> bool:
    """Tell whether a spreadsheet might take a text for a formula, or take its apostrophe for ours."""
    return _RISKY.match(text) is not None and _NUMBER.match(text) is None
