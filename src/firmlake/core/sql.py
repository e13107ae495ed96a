"""Quote names and texts for SQL statements."""

from __future__ import annotations

__all__ = ["quote_name", "quote_text"]


def quote_name(name: str) -> str:
    """Write a name as a quoted identifier.

    Example:
        >>> quote_name('12" pipe')
        '"12"" pipe"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_text(value: object) -> str:
    """Write a text, or something else as text, as a literal.

    Example:
        >>> quote_text("l'Oiseau")
        "'l''Oiseau'"
    """
    return "'" + str(value).replace("'", "''") + "'"
