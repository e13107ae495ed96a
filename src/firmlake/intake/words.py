"""Words that people spell in many ways (header names, countries), brought to one spelling for comparison."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["fold"]

_NOT_ALPHANUMERIC = re.compile(r"[^0-9a-z]+")


def fold(text: str) -> str:
    """Give the bare letters and digits of a text: case, accents, punctuation and spaces do not count.

    Example:
        >>> fold(" Numéro d'entreprise "), fold("KvK-nummer")
        ('numerodentreprise', 'kvknummer')
    """
    return _NOT_ALPHANUMERIC.sub("", unicodedata.normalize("NFKD", text).casefold())
