"""Fold words with many spellings (header names, countries) for comparison."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

import polars as pl

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


OTHER_COUNTRY: Final = "other"
"""Stands for a filled country cell that names no country known to the service."""

_NAMES: Final = {
    "BE": ("be", "bel", "Belgium", "België", "Belgique", "Belgien", "Bélgica", "Belgio"),
    "NL": ("nl", "nld", "Nederland", "Netherlands", "The Netherlands", "Pays-Bas", "Les Pays-Bas",
           "Niederlande", "Holland", "Hollande", "Países Bajos", "Paesi Bassi"),
    "FR": ("fr", "fra", "France", "Frankrijk", "Frankreich", "Francia"),
}  # fmt: skip

_CODE_OF: Final = {fold(name): code for code, names in _NAMES.items() for name in names}


def country_codes(cells: pl.Series) -> pl.Series:
    """Return the country code of each cell; case, accents, punctuation and spaces are ignored.

    Args:
        cells: Texts from the file, null if empty.

    Returns:
        One text per cell: `BE`, `NL`, `FR`, `OTHER_COUNTRY` for any other text, null for an empty cell and for an
        error of a spreadsheet (#N/A).

    Example:
        >>> country_codes(pl.Series(["Belgique", "nl", "DE", " ", None])).to_list()
        ['BE', 'NL', 'other', None, None]
    """
    # A list has few distinct countries, so each spelling is converted once.
    spellings = cells.unique().drop_nulls().to_list()
    named = [text for text in spellings if text.strip() and not re.match(ERROR, text)]
    codes = {text: _CODE_OF.get(fold(text), OTHER_COUNTRY) for text in named}
    return cells.replace_strict(codes, default=None, return_dtype=pl.String)


def is_country(text: str) -> bool:
    """Return whether a text is the name or code of a country known to the service."""
    return fold(text) in _CODE_OF
