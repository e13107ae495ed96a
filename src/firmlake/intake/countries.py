"""Country names and codes, in the languages of the lists, to the codes of the service."""

from __future__ import annotations

from typing import Final

import polars as pl

from firmlake.intake.words import fold

__all__ = ["OTHER_COUNTRY", "country_codes", "is_country"]

OTHER_COUNTRY: Final = "other"
"""Stands for a country cell that is filled but names none of the countries the service knows."""

_NAMES: Final = {
    "BE": ("be", "bel", "Belgium", "België", "Belgique", "Belgien", "Bélgica", "Belgio"),
    "NL": ("nl", "nld", "Nederland", "Netherlands", "The Netherlands", "Pays-Bas", "Les Pays-Bas",
           "Niederlande", "Holland", "Hollande", "Países Bajos", "Paesi Bassi"),
    "FR": ("fr", "fra", "France", "Frankrijk", "Frankreich", "Francia"),
}  # fmt: skip

_CODE_OF: Final = {fold(name): code for code, names in _NAMES.items() for name in names}


def country_codes(cells: pl.Series) -> pl.Series:
    """Give the code of the country that each cell means, whatever its case, accents, punctuation and spaces.

    Args:
        cells: Text as it stands in the file, null where there is none.

    Returns:
        One text for each cell: `BE`, `NL` or `FR`, `OTHER_COUNTRY` where it means none of them, null where it is empty.

    Example:
        >>> country_codes(pl.Series(["Belgique", "nl", "DE", " ", None])).to_list()
        ['BE', 'NL', 'other', None, None]
    """
    # A list has few distinct countries, so that looking at each spelling once is cheap.
    spellings = cells.unique().drop_nulls().to_list()
    codes = {text: _CODE_OF.get(fold(text), OTHER_COUNTRY) if text.strip() else None for text in spellings}
    return cells.replace_strict(codes, default=None, return_dtype=pl.String)


def is_country(text: str) -> bool:
    """Tell whether a text is a country the service knows, and nothing else."""
    return fold(text) in _CODE_OF
