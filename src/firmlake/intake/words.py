"""Fold words with many spellings (header names, countries) for comparison."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["ERROR", "fold"]

ERROR: Final = r"^#[A-Z/0]+[!?]?$"
"""An error of a spreadsheet, such as #N/A, which says no more than an empty cell."""

_NOT_ALPHANUMERIC = re.compile(r"[^0-9a-z]+")


def fold(text: str) -> str:
    """Return the letters and digits of a text, without case, accents, punctuation and spaces.

    Example:
        >>> fold(" Numéro d'entreprise "), fold("KvK-nummer")
        ('numerodentreprise', 'kvknummer')
    """
    return _NOT_ALPHANUMERIC.sub("", unicodedata.normalize("NFKD", text).casefold())
