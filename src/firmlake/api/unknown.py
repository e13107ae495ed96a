"""Recognise a message about a company that the service does not know."""

from __future__ import annotations

import re

from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings, NameSettings

NOT_FOUND = (204, 404)
"""Statuses of an answer about a company that the service does not know; 204 only where a GET names it alone."""


def is_about(api: ApiSettings, company: Company, said: str) -> bool:
    """Return whether the message of a 404 says that a company is unknown.

    A wrong address gets a 404 too, so the message must be the one for unknown companies or name the company.

    Example:
        >>> is_about(ApiSettings(), Company("BE", "0403227515"), "No company 0403.227.515")
        True
        >>> is_about(ApiSettings(), Company("BE", "0403227515"), "Not Found")
        False
    """
    if says_unknown(api.names, company, said):
        return True
    number = company.company_number.removeprefix("0")
    spellings = (said, re.sub(r"(?<=\d)[ .](?=\d)", "", said))
    return any(re.search(rf"(?<!\d)0?{number}(?!\d)", spelling) for spelling in spellings)


def says_unknown(names: NameSettings, company: Company, said: str) -> bool:
    """Return whether a message is the one for unknown companies, which may name the company.

    The specification's own words count beside those of the settings, since a service may answer in another language.
    """
    usual = {names.not_found_message.casefold(), NameSettings().not_found_message.casefold()}
    general = wording(company, said) if "{number}" in names.not_found_message else said
    return not usual.isdisjoint({said.casefold(), general.casefold()})


def wording(company: Company, said: str) -> str:
    """Replace the country and number of a company in a message by placeholders.

    Example:
        >>> wording(Company("BE", "0403227515"), "Company BE/403227515 could not be found.")
        'Company {country}/{number} could not be found.'
    """
    number = company.company_number.lstrip("0")
    general = re.sub(rf"(?<!\d)0*{number}(?!\d)", "{number}", said)
    return said if general == said else re.sub(rf"\b{company.country}\b", "{country}", general)
