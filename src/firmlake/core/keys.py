"""Integer keys of companies, which are faster and smaller to compare than two texts."""

from __future__ import annotations

from typing import Final

import polars as pl

from firmlake.core.company import COUNTRIES, NUMBER_LENGTH

_KEYS: Final = int(10 ** max(NUMBER_LENGTH.values()))
KEY_SQL: Final = f"(list_position({list(COUNTRIES)}, country) - 1) * {_KEYS} + company_number::BIGINT"
"""DuckDB expression for the key of a row with `country` and `company_number`."""


def company_key() -> pl.Expr:
    """Return an integer for each `country` and `company_number` in normal form, to compare companies fast.

    Example:
        >>> pl.DataFrame({"country": ["NL"], "company_number": ["01000000"]}).select(company_key()).item()
        10001000000
    """
    country = pl.col("country").cast(pl.Enum(COUNTRIES)).to_physical().cast(pl.Int64)
    key: pl.Expr = country * _KEYS + pl.col("company_number").cast(pl.Int64)
    return key


def names_of(keys: pl.Series) -> pl.DataFrame:
    """Return `country` and `company_number` for keys, in the same order.

    Example:
        >>> names_of(pl.Series([10001000000])).row(0)
        ('NL', '01000000')
    """
    place = pl.col("key") // _KEYS
    length = place.replace_strict(range(len(COUNTRIES)), [NUMBER_LENGTH[country] for country in COUNTRIES])
    return (
        keys.alias("key")
        .to_frame()
        .select(
            place.cast(pl.Int8)
            .replace_strict(range(len(COUNTRIES)), COUNTRIES, return_dtype=pl.String)
            .alias("country"),
            (pl.col("key") % _KEYS).cast(pl.String).str.zfill(length).alias("company_number"),
        )
    )
