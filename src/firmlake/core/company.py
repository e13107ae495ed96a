"""The key of a company: its country and its company number in normal form."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

__all__ = ["COUNTRIES", "NUMBER_LENGTH", "Company", "normal_form"]

NUMBER_LENGTH = {"BE": 10, "NL": 8, "FR": 9}
"""Digits of a company number in normal form: enterprise number, KVK number, SIREN."""

COUNTRIES = tuple(NUMBER_LENGTH)


class Company(NamedTuple):
    """Country (`BE`, `NL`, `FR`) and company number in normal form: the key of every table."""

    country: str
    company_number: str

    def __str__(self) -> str:
        return f"{self.country} {self.company_number}"


def normal_form(country: str, number: str) -> Company | None:
    """Return the company for a country and a number as the service writes them.

    The service's examples drop the leading zero of Belgian numbers, so short numbers are padded.
    The number must consist of digits; `firmlake.intake.company_list` repairs what people type.

    Returns:
        The company, or None if there cannot be one (unknown country, not digits, too long or too short).

    References:
        docs/service_gaps.md, "spelling of BE numbers".

    Example:
        >>> normal_form("BE", "770493071")
        Company(country='BE', company_number='0770493071')
    """
    length = NUMBER_LENGTH.get(country)
    if length is None or not length - 2 <= len(number) <= length:
        return None
    return _pad(country, number, length)


@lru_cache(maxsize=32_768)
def _pad(country: str, number: str, length: int) -> Company | None:
    """Pad a number. Cached, because a run reads every company several times, in each dataset and page."""
    return Company(country, number.zfill(length)) if number.isascii() and number.isdigit() else None
