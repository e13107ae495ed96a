"""Small landed answers beside the exact tables they give: `tests/golden/*.json`, to be read by people.

Each file holds the companies of a run, what landed, and every row of every table that is not empty. Left out of the
rows are nulls and `run_id`. Amounts are texts, as JSON numbers would not keep their zeros.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firmlake.core.company import Company
from firmlake.core.folders import Folders
from firmlake.tables.flatten import flatten_shard
from firmlake.tables.schemas import TABLES, polars_schema
from support import MINUTE, NOON, STAGED, header, land, make_run, plain

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.json"))


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that landed; `body` keeps the digits as they stand in the file."""

    dataset: str
    companies: list[str]
    body: msgspec.Raw = msgspec.Raw(b"")
    limit: int | None = None
    offset: int | None = None
    status: int | None = 200
    kind: str = "answer"
    error: str = ""
    code: str = ""
    headers: dict[str, str] = {}


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    about: str
    datasets: list[str]
    companies: list[str]
    landed: list[Answer]
    tables: dict[str, list[dict[str, Any]]]


def read_case(path: Path) -> Case:
    return msgspec.json.decode(path.read_bytes(), type=Case)


def make_tables(case: Case, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of all tables that have any."""
    run = make_run(Folders(folder), [_company(text) for text in case.companies], case.datasets)
    records = []
    asked = [(answer.dataset, answer.companies, answer.limit, answer.offset) for answer in case.landed]
    for number, answer in enumerate(case.landed):
        one = header(
            answer.dataset,
            [_company(text) for text in answer.companies],
            at=NOON + number * MINUTE,
            request_id=f"request {asked.index(asked[number])}",
            **{
                name: getattr(answer, name)
                for name in ("limit", "offset", "status", "kind", "error", "code", "headers")
            },
        )
        records.append((one, msgspec.json.format(answer.body, indent=-1) if bytes(answer.body) else b""))
    land(run, *records)
    tables = dict(flatten_shard(run, 1))
    for name, frame in tables.items():
        assert frame.schema == polars_schema(TABLES[name])
    return {name: [_readable(row) for row in frame.to_dicts()] for name, frame in tables.items() if frame.height}


def _company(text: str) -> Company:
    return Company(*text.split())


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in row.items() if value is not None and name != "run_id"}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_landed_answers_give_exactly_these_tables(path, tmp_path):
    case = read_case(path)
    made = make_tables(case, tmp_path)
    assert sorted(made) == sorted(case.tables), json.dumps(made, indent=1)
    for name, rows in case.tables.items():
        assert made[name] == rows, name


def test_every_table_made_from_answers_has_a_golden_row():
    assert {name for path in GOLDEN for name in read_case(path).tables} == STAGED - {"refused_lines"}
