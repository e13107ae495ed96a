"""A company is known by its country and its number in normal form, whatever the spelling."""

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
    """Give the company that the service means by a country and a number.

    The service drops the leading zero of Belgian numbers in its examples, so that a short number is padded.
    Digits only: repairing what people type is the work of `firmlake.intake.company_list`.

    Returns:
        The company, or None where this cannot be one (unknown country, not digits, too long).

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
    """Make a company of digits; a run reads each some times, in the answers of every dataset and page."""
    return Company(country, number.zfill(length)) if number.isascii() and number.isdigit() else None
