"""Why a generation is not complete for its lists: the view `incomplete`, for everything that hands its data on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import duckdb
import msgspec

from firmlake.core.text import count_of

COMPLETENESS = "firmlake.completeness"
"""The key in the metadata of Parquet files."""

CAUSES = {
    "budget": "the budget of a run or month was used up",
    "credits": "the service's credits ran out",
    "outage": "the service did not answer",
    "forbidden": "the service does not allow it",
    "gave_up": "every attempt failed",
    "rejected": "records do not fit the tables",
    "not_asked": "not asked yet; run the whole list",
    "gate": "a gate holds the figures back",
}
"""Causes of the view `incomplete`, in words."""


class Incomplete(msgspec.Struct, frozen=True):
    """How many companies lack a dataset for one cause; the view `incomplete` explains the columns."""

    list_name: str | None
    dataset: str | None
    cause: str
    company_count: int
    example: str


class Completeness(NamedTuple):
    """Whether every company of a list was asked for everything, and what else its reader must know."""

    incomplete: Sequence[Incomplete]  # why data of its companies is missing; nothing if none is
    refused_line_count: int  # lines of the list that name no usable company
    service: str  # whose figures it has; empty if it has none

    def as_json(self) -> bytes:
        """Return it as a file and its metadata have it; `is_complete` is about the companies alone."""
        told = {"service": self.service} if self.service else {}
        return to_json(to_hand_on(self.incomplete), refused_line_count=self.refused_line_count, **told)


def read_incomplete(
    connection: duckdb.DuckDBPyConnection, list_name: str | None = None, *, of_lists: bool = False
) -> list[Incomplete]:
    """Read the causes for one list, for each list, or for all companies and each list; most companies first."""
    where = "list_name IS NOT DISTINCT FROM $name" if list_name else f"{not of_lists} OR list_name IS NOT NULL"
    given = {"name": list_name} if list_name else {}
    with suppress(duckdb.CatalogException):  # an earlier version of firmlake made the generation
        return [
            Incomplete(*row) for row in connection.execute(f"FROM incomplete WHERE {where} {_ORDER}", given).fetchall()
        ]
    return []


def describe_incomplete(rows: Iterable[Incomplete]) -> str:
    """Say in one line whether data is complete, and if not why: `Incomplete because of budget: financials of ...`."""
    said = [
        f"{each.cause} ({each.dataset or 'all datasets'}: {count_of(each.company_count, 'company')})" for each in rows
    ]
    return f"Incomplete because of {', '.join(said)}" if said else "Complete"


def to_hand_on(rows: Iterable[Incomplete]) -> list[dict[str, str | int | None]]:
    """Return the causes as plain values for files, without the example, which `firmlake forget` would have to clean."""
    return [
        {"list": each.list_name, "dataset": each.dataset, "cause": each.cause, "company_count": each.company_count}
        for each in rows
    ]


def to_json(handed_on: list[dict[str, str | int | None]], **told: str | int) -> bytes:
    """Return as JSON whether data is complete, and if not why and how much is missing; and what else is told."""
    return json.dumps({"is_complete": not handed_on, "incomplete": handed_on, **told}).encode()


def describe_service(connection: duckdb.DuckDBPyConnection) -> str:
    """Name the service whose figures a generation has; empty if it has none."""
    found = connection.execute("SELECT service FROM runs ORDER BY started_at DESC LIMIT 1").fetchall()
    return _EMBEDDED.get(found[0][0], found[0][0]) if found else ""


_EMBEDDED = {"embedded": "the embedded service, which makes figures up"}

_ORDER = "ORDER BY list_name NULLS FIRST, company_count DESC, cause, dataset"
