"""A reversible guard against spreadsheet formulas in text.

Text that a spreadsheet might read as a formula gets a leading apostrophe, and so does text that already begins with an
apostrophe. Removing one leading apostrophe therefore restores every text. Plain numbers such as -2 are left alone.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["NUMBER", "RISKY", "guard", "is_risky"]

RISKY: Final = "^[=+@\t\r\n'-]"
"""Matches the start of text that needs the guard. The pattern works in Python, Arrow and DuckDB."""

NUMBER: Final = r"^[+-][0-9]+([.,][0-9]+)?$"
"""Matches numbers with a sign, which begin like a formula and need no guard."""

_RISKY, _NUMBER = re.compile(RISKY), re.compile(NUMBER.replace("$", r"\Z"))


def guard(text: str) -> str:
    r"""Put an apostrophe before text that needs the guard.

    Example:
        >>> [guard(text) for text in ("=1+1", "-2", "'t Hof", "Acme")]
        ["'=1+1", '-2', "''t Hof", 'Acme']
    """
    return f"'{text}" if is_risky(text) else text


def is_risky(text: str) -> bool:
    """Tell whether a text could be read as a formula, or begins with an apostrophe that could be taken for ours."""
    return _RISKY.match(text) is not None and _NUMBER.match(text) is None
