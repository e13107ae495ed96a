"""The key of a company: its country and its company number in normal form, and the same as an integer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import polars as pl

NUMBER_LENGTH = {"BE": 10, "NL": 8, "FR": 9}
"""Digits of a company number in normal form: enterprise number, KVK number, SIREN."""

COUNTRIES = tuple(NUMBER_LENGTH)
ADJECTIVES = {"BE": "Belgian", "NL": "Dutch", "FR": "French"}

_BETWEEN = re.compile(r"[\s.\-/]")
_SPELLED_MAX = 40
"""Longer texts are not looked at."""
_VALUES_MAX = 20
"""More values of an object are not looked at."""


class Company(NamedTuple):
    """Country (`BE`, `NL`, `FR`) and company number in normal form: the key of every table."""

    country: str
    company_number: str

    def __str__(self) -> str:
        return f"{self.country} {self.company_number}"


def normal_form(country: str, number: str) -> Company | None:
    """Return the company for a country and a number as the service writes them; None if there cannot be one.

    The service's examples drop the leading zero of Belgian numbers, so short numbers are padded (docs/service_gaps.md,
    "spelling of company numbers"). Separators, a country prefix and lower case are accepted; `firmlake.intake.lines`
    repairs what people type.

    Example:
        >>> normal_form("BE", "770493071")
        Company(country='BE', company_number='0770493071')
        >>> normal_form("be", "BE 0770.493.071")
        Company(country='BE', company_number='0770493071')
    """
    return _normalise(country, number) if len(number) <= _SPELLED_MAX else None


def company_in(text: str) -> Company | None:
    """Return the company that one text names, its country first; None if it names none.

    Example:
        >>> company_in("NL26123581")
        Company(country='NL', company_number='26123581')
    """
    return normal_form(text[:2], text[2:])


def company_among(texts: Iterable[str]) -> Company | None:
    """Return the only company that texts name, such as the values of an object; None if they name none, or several.

    Example:
        >>> company_among(["nl", "Acme", "26123581"])
        Company(country='NL', company_number='26123581')
    """
    texts = [*islice(texts, _VALUES_MAX)]
    named = {company_in(text) for text in texts} | {normal_form(one, other) for one in texts for other in texts}
    named.discard(None)
    return named.pop() if len(named) == 1 else None


@lru_cache(maxsize=32_768)
def _normalise(country: str, number: str) -> Company | None:
    """Normalise a number. Cached, because a run reads every company several times, in each dataset and page."""
    country = country.strip().upper()
    length = NUMBER_LENGTH.get(country)
    if length is None:
        return None
    digits = _BETWEEN.sub("", number).upper().removeprefix(country)
    is_number = digits.isascii() and digits.isdigit() and length - 2 <= len(digits) <= length
    return Company(country, digits.zfill(length)) if is_number else None


_KEYS: Final = int(10 ** max(NUMBER_LENGTH.values()))


def company_key() -> pl.Expr:
    """Return an integer for each `country` and `company_number` in normal form, to compare companies fast.

    Example:
        >>> import polars as pl
        >>> pl.DataFrame({"country": ["NL"], "company_number": ["01000000"]}).select(company_key()).item()
        10001000000
    """
    import polars as pl  # here, because it takes most of the time of a command that was mistyped

    country = pl.col("country").cast(pl.Enum(COUNTRIES)).to_physical().cast(pl.Int64)
    key: pl.Expr = country * _KEYS + pl.col("company_number").cast(pl.Int64)
    return key


def names_of(keys: pl.Series) -> pl.DataFrame:
    """Return `country` and `company_number` for keys, in the same order.

    Example:
        >>> import polars as pl
        >>> names_of(pl.Series([10001000000])).row(0)
        ('NL', '01000000')
    """
    import polars as pl

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
