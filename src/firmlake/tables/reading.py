"""What all ways of reading records share: their results, and the contract's fields by their place in a record."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, NamedTuple

import polars as pl

from firmlake.api.contract import Group

__all__ = ["DATE", "DECIMALS", "DIGITS_MAX", "ROUNDED", "Observation", "Records", "Reject", "field_tree", "plain"]

ROUNDED = ("ratio", "fraction")
DECIMALS = ("money", *ROUNDED)
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
DIGITS_MAX = 17
"""More in a row are too many for a number of ours."""
_PLAIN_MAX = 60


class Reject(NamedTuple):
    """A record that does not fit the contract: its index, the place of the field, and what is wrong."""

    record: int
    path: str
    reason: str


class Observation(NamedTuple):
    """A difference from the contract that cost no record: its kind, place, an example, and how many records."""

    kind: str
    path: str
    example: str | None
    record: int
    records: int = 1


class Records(NamedTuple):
    """What was read.

    Attributes:
        frame: One row per good record: `record` (index), the fields by our names, `extra_json`.
        rejects: The others.
        observations: New, absent and rounded fields.
    """

    frame: pl.DataFrame
    rejects: list[Reject]
    observations: list[Observation]


def field_tree(group: Group) -> dict[str, Any]:
    """Nest the fields of a group as the objects of a record are: by key, our name for a field, or another dict."""
    tree: dict[str, Any] = {}
    for name, field in group.fields.items():
        *parents, leaf = field.path.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[leaf] = name
    return tree


def plain(value: Decimal) -> str:
    """Print a decimal without trailing zeros and, where it would not fill a page, without an exponent."""
    if abs(value.adjusted()) > _PLAIN_MAX or len(value.as_tuple().digits) > _PLAIN_MAX:
        return f"{value:.{DIGITS_MAX}g}"
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
