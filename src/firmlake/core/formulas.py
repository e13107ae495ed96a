r"""Text that a spreadsheet might run as a formula, and the guard against it.

Such a text gets a leading apostrophe. So does one behind apostrophes of its own: `unguard` then restores every text.
Numbers (`-2`, `-1.234,50`), dashes, telephone numbers (`+32 2 123 45 67`) and names (`'s-Hertogenbosch`) stay as they
are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

RISKY: Final = "^'*[=+@\t\r\n\uff1d\uff0b\uff20\uff0d-]"
"""Matches the start of text that needs the guard. The pattern works in Python, Arrow, DuckDB and PostgreSQL.

The last four signs are = + @ - as East Asian keyboards write them (full width): some spreadsheets run them too.
"""

_GROUPED: Final = r"[0-9]{1,3}([., ][0-9]{3})+"
HARMLESS: Final = rf"^([+-]([0-9]+|{_GROUPED})([.,][0-9]+)?( ?[%€])?|-+|\+[0-9][0-9 ()./-]*)$"
"""Matches numbers with a sign, dashes and telephone numbers, which begin like a formula and need no guard."""

_RISKY, _HARMLESS = re.compile(RISKY), re.compile(HARMLESS.replace("$", r"\Z"))


def guard(text: str) -> str:
    r"""Put an apostrophe before text that needs the guard.

    Example:
        >>> [guard(text) for text in ("=1+1", "-1.234,50", "-", "'t Hof", "'=1+1")]
        ["'=1+1", '-1.234,50', '-', "'t Hof", "''=1+1"]
    """
    return f"'{text}" if is_risky(text) else text


def unguard(text: str) -> str:
    r"""Take the apostrophe of `guard` away.

    Example:
        >>> [unguard(text) for text in ("'=1+1", "-2", "'t Hof", "''=1+1")]
        ['=1+1', '-2', "'t Hof", "'=1+1"]
    """
    return text.removeprefix("'") if _RISKY.match(text) else text


def is_risky(text: str) -> bool:
    """Tell whether a text could be run as a formula, or could be taken for one that is guarded already."""
    return _RISKY.match(text) is not None and _HARMLESS.match(text) is None


def guard_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Guard every text of a frame, and the names of its columns."""
    import polars as pl

    text = pl.selectors.string()
    is_formula = text.str.contains(RISKY) & ~text.str.contains(HARMLESS)
    guarded = pl.when(is_formula).then("'" + text).otherwise(text)
    return frame.with_columns(guarded.name.keep()).rename(guard)
