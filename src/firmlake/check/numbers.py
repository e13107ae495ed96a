"""JSON values as numbers."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

__all__ = ["is_number", "may_be_number", "places"]

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def is_number(value: Any) -> bool:
    """Tell whether a value is a JSON number."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def may_be_number(value: Any) -> bool:
    """Tell whether a value is read as a number: it is one, or a string spelled as JSON spells numbers."""
    return is_number(value) or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)


def places(value: Any) -> int:
    """Count the decimals of a number."""
    exponent = Decimal(value).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
