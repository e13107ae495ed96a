"""Numbers as people read them. The name of a column decides how its values are shown."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any

__all__ = ["MINUS", "heading", "is_number", "shown_change", "shown_number"]

MINUS = "\N{MINUS SIGN}"
_SHARE = re.compile(r"(fraction|growth|margin|return_on_\w+|share|percentile)$")
_AMOUNT = re.compile(r"_amount$")
_SCORE = re.compile(r"^score$")
_RATIO = re.compile(r"(^z|ratio|_to_\w+)$")
_HEADINGS = {
    "direct_fraction": "direct stake",
    "effective_fraction": "effective stake",
    "equity_fraction": "equity ratio",
    "is_ring": "ring of owners",
    "loss_making_share": "made a loss",
    "stake_fraction": "stake",
}
_UNITS = ((1e9, "bn"), (1e6, "M"), (1e3, "k"))


def shown_number(name: str, value: Any) -> str:
    """Write a number.

    Args:
        name: Name of its column. An ending such as fraction, growth or margin makes it a percentage, `_amount` an
            amount (1.2 M) without a currency, which the service does not state, score a number with three decimals and
            ratio one with two; anything else is a count with thousand separators.
        value: The number.
    """
    number = float(value)
    if _SHARE.search(name):
        return f"{number:,.1%}"
    if _AMOUNT.search(name):
        return _amount(number)
    if _SCORE.search(name):
        return f"{number:.3f}"
    return f"{number:,.2f}" if _RATIO.search(name) else f"{value:,.0f}"


def shown_change(name: str, before: Any, now: Any) -> str:
    """Write by how much a figure changed: with its sign, percentages in points; empty if it is the same or unknown."""
    if before is None or now is None or before == now:
        return ""
    change = float(now) - float(before)
    text = f"{abs(change) * 100:,.1f} points" if _SHARE.search(name) else shown_number(name, abs(now - before))
    return f"{'+' if change > 0 else MINUS}{text}" if re.search("[1-9]", text) else ""


def heading(name: str) -> str:
    """Write the heading of a column."""
    if name in _HEADINGS:
        return _HEADINGS[name]
    return _AMOUNT.sub("", name).replace("_", " ").replace("ebitda", "EBITDA")


def is_number(value: Any) -> bool:
    """Tell whether a value is shown as a number."""
    return not isinstance(value, str | bool | date | datetime) and hasattr(value, "__float__")


# ---------------------------------------------------------------------------------------------------------------------


def _amount(number: float) -> str:
    for unit, name in _UNITS:
        if abs(number) >= unit * (10 if name == "k" else 0.9995):
            scaled = number / unit
            return f"{scaled:,.1f} {name}" if abs(scaled) < 99.95 else f"{scaled:,.0f} {name}"
    return f"{number:,.0f}"
