"""One company, asked for by the single-company endpoints: a look without a list, a run or a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl
from msgspec import Raw

from firmlake.api import requests
from firmlake.api.answers import read_single_answer
from firmlake.api.client import Client
from firmlake.api.contract import DATASETS
from firmlake.core.company import Company
from firmlake.core.errors import RequestRefusedError, UnusableAnswerError, UsageError
from firmlake.core.settings import Settings
from firmlake.intake.identifiers import identify
from firmlake.tables.answered import Answered, Part, shape_table
from firmlake.tables.flatten import FLATTEN

__all__ = ["Found", "as_content", "look_up", "read_company"]

_PAGES_MAX = 1000


class Found(NamedTuple):
    """What the service says about a company.

    Attributes:
        tables: Rows by table, in the shape the warehouse has.
        rejects: Records that do not fit the contract: dataset, path, reason.
    """

    company: Company
    name: str | None
    place: str | None
    is_found: bool
    tables: dict[str, pl.DataFrame]
    rejects: list[tuple[str, str, str]]


def read_company(country: str, text: str) -> Company:
    """Read a company number in any spelling.

    Raises:
        UsageError: It is none; the reason is named.
    """
    row = identify(pl.Series([text]), pl.Series([country]), None).row(0, named=True)
    if row["problem"] is not None or row["country"] != country:
        raise UsageError(f"{country} {text}: {row['problem'] or 'a number of another country'}", "Correct the number")
    return Company(row["country"], row["company_number"])


def look_up(client: Client, settings: Settings, company: Company, datasets: Sequence[str]) -> Found:
    """Ask for a company, all pages.

    Raises:
        FirmlakeError: As `Client.send`.
    """
    name = place = None
    is_found = False
    tables: dict[str, pl.DataFrame] = {}
    rejects: list[tuple[str, str, str]] = []
    for dataset in datasets:
        try:
            element, parts = _ask(client, settings, company, dataset)
        except RequestRefusedError as error:
            answer = getattr(error, "answer", None)
            if answer is None or answer.status != 404:
                raise
            continue
        is_found, name, place = True, name or element.name, place or element.place
        made, gathered = FLATTEN[dataset]([Answered(company, parts)])
        tables |= {table: shape_table(table, frame, "") for table, frame in made.items()}
        rejects += [(dataset, *row) for part in gathered for row in part.rejects.select("path", "reason").iter_rows()]
    return Found(company, name, place, is_found, tables, rejects)


def as_content(found: Found) -> dict[str, Any]:
    """Give plain values for JSON; amounts stay exact as texts."""
    tables = {
        table: frame.drop("run_id", "country", "company_number").to_dicts() for table, frame in found.tables.items()
    }
    return {
        **found.company._asdict(), "is_found": found.is_found, "name": found.name, "place": found.place,
        "tables": tables, "rejects": found.rejects,
    }  # fmt: skip


def _ask(client: Client, settings: Settings, company: Company, dataset: str) -> tuple[Any, list[Part]]:
    limit = settings.api.page_limit_max if DATASETS[dataset].is_paged else None
    parts: list[Part] = []
    held = 0
    for _ in range(_PAGES_MAX):
        request = requests.single(settings.api, dataset, company, limit, held if limit else None)
        answer = client.send(request, lambda body: read_single_answer(dataset, body))
        element = read_single_answer(dataset, answer.body)
        records: dict[str, list[Raw]] = element.records or {}
        count = sum(map(len, records.values()))
        parts.append(Part("", answer.fetched_at, records))
        held += count
        if element.total is None or held >= element.total:
            return element, parts
        if not count:
            raise UnusableAnswerError(f"{company}: an empty page, but {element.total} records in all")
    raise UnusableAnswerError(f"{company}: more than {_PAGES_MAX} pages")
