"""Whether the first line of a list names its columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from firmlake.intake.columns import Synonyms, role_of
from firmlake.intake.countries import is_country

__all__ = ["is_header"]

_NOT_DIGIT: Final = re.compile(r"[^0-9]")
_FEWEST_DIGITS: Final = 7
"""Digits of the shortest company number: a KVK number that lost its leading zero."""


def is_header(fields: Sequence[str], choice: str, synonyms: Synonyms) -> bool:
    """Tell whether these fields are names and no data.

    A name that is known settles it. Else a field that reads like a number or a country makes it a line of data.

    Args:
        fields: The fields of the first line that is not blank.
        choice: `yes`, `no`, or `auto` to look.
        synonyms: The names that are known.

    Example:
        >>> from firmlake.intake.columns import COMPANY_COLUMNS
        >>> is_header(["Naam", "Nr."], "auto", COMPANY_COLUMNS), is_header(["BE 0403.227.515"], "auto", COMPANY_COLUMNS)
        (True, False)
    """
    if choice != "auto":
        return choice == "yes"
    if any(role_of(text, synonyms) for text in fields):
        return True
    return not any(is_country(text) or len(_NOT_DIGIT.sub("", text)) >= _FEWEST_DIGITS for text in fields)
