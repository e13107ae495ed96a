"""Check digits of company numbers, as Polars expressions; the tests compare them with python-stdnum."""

from __future__ import annotations

from typing import Final

import polars as pl

__all__ = ["CHECKS", "NO_CHECK", "REFUSED"]

REFUSED: Final = "refused"
"""The check of forms that never identify a company."""

NO_CHECK: Final = "no check digit"

_KEY_CHARACTERS: Final = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Characters of a French VAT key; I and O are missing because they look like 1 and 0."""


def _key_value(key: str) -> int:
    """Return the numeric value of a French VAT key with letters."""
    first, second = map(_KEY_CHARACTERS.index, key)
    return first * 24 + second - 10 if key[0].isdigit() else first * 34 + second - 100


_KEY_VALUES: Final = {
    a + b: _key_value(a + b) for a in _KEY_CHARACTERS for b in _KEY_CHARACTERS if not (a + b).isdigit()
}
_DIGIT_SUM: Final = pl.Series([tens + ones for tens in range(10) for ones in range(10)])
_LUHN_SUM: Final = pl.Series([tens * 2 - (tens > 4) * 9 + ones for tens in range(10) for ones in range(10)])
"""ISO/IEC 7812-1: every second digit from the right is doubled, and 9 is subtracted from values above 9."""


def _sum_of_pairs(number: pl.Expr, pairs: int, table: pl.Series) -> pl.Expr:
    """Add up the values of a table of 100 for each pair of digits, from the right."""
    values = (pl.lit(table).gather(number // int(100**n) % 100) for n in range(pairs))
    return pl.sum_horizontal(*values, ignore_nulls=False)


def _enterprise_number(number: pl.Expr) -> pl.Expr:
    """Check that the last two digits are 97 minus the first eight modulo 97."""
    return 97 - number // 100 % 97 == number % 100


def _siren(number: pl.Expr) -> pl.Expr:
    return _sum_of_pairs(number, 5, _LUHN_SUM) % 10 == 0


def _siret(number: pl.Expr) -> pl.Expr:
    """Check a SIREN and five digits. For branches of La Poste (not its head office), the digit sum must divide by 5."""
    siren = number // 100_000
    is_multiple_of_5 = _sum_of_pairs(number, 7, _DIGIT_SUM) % 5 == 0
    holds = _sum_of_pairs(number, 7, _LUHN_SUM) % 10 == 0
    is_branch_of_la_poste = (siren == 356_000_000) & (number != 35_600_000_000_048)
    return _siren(siren) & pl.when(is_branch_of_la_poste).then(is_multiple_of_5).otherwise(holds)


def _vat(number: pl.Expr) -> pl.Expr:
    """Check a SIREN after a key of two digits: (12 + 3 x (SIREN mod 97)) mod 97."""
    siren = number % 1_000_000_000
    return _siren(siren) & ((12 + 3 * (siren % 97)) % 97 == number // 1_000_000_000)


def _vat_with_letters(text: pl.Expr) -> pl.Expr:
    """Check a SIREN after a key with letters: the key's value, split by 11, follows from the SIREN modulo 11."""
    key = text.str.head(2).replace_strict(_KEY_VALUES, default=None, return_dtype=pl.Int64)
    siren = text.str.slice(2).cast(pl.Int64, strict=False)
    return _siren(siren) & ((siren + 1 + key // 11) % 11 == key % 11)


CHECKS: Final = {
    NO_CHECK: pl.lit(value=True),
    "enterprise number": _enterprise_number(pl.col("value")),
    "SIREN": _siren(pl.col("value")),
    "SIRET": _siret(pl.col("value")),
    "VAT": _vat(pl.col("value")),
    "VAT with letters": _vat_with_letters(pl.col("digits")),
}
"""Checks by name, as expressions over `digits` (the number as text) and `value` (the number as an integer)."""
