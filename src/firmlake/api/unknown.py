"""Recognise a refusal of a whole request that is about one company which the service does not know."""

from __future__ import annotations

import re

from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings

__all__ = ["NOT_FOUND", "is_about"]

NOT_FOUND = 404


def is_about(api: ApiSettings, company: Company, said: str) -> bool:
    """Tell whether the message of a 404 says that a company is unknown.

    A wrong address gives a 404 too. So the message must be the one for unknown companies, or name the company.

    Example:
        >>> is_about(ApiSettings(), Company("BE", "0403227515"), "No company 0403.227.515")
        True
        >>> is_about(ApiSettings(), Company("BE", "0403227515"), "Not Found")
        False
    """
    if said.casefold() == api.names.not_found_message.casefold():
        return True
    number = company.company_number.removeprefix("0")
    spellings = (said, re.sub(r"(?<=\d)[ .](?=\d)", "", said))
    return any(re.search(rf"(?<!\d)0?{number}(?!\d)", spelling) for spelling in spellings)
