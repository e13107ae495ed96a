"""A warehouse of a few accounts made by hand: only what a test is about is stated."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from typing import Any

import duckdb

from firmlake.tables.schemas import TABLES, duckdb_type
from firmlake.warehouse.loads import Load, add_load
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.versions import versions_of
from firmlake.warehouse.views import create_views
from support import empty_warehouse

_GREATEST = {
    "BIGINT": "9223372036854775807",
    "DECIMAL(18,2)": "9999999999999999.99",
    "DECIMAL(12,4)": "99999999.9999",
    "DECIMAL(9,6)": "999.999999",
}
_NOT_FETCHED = ("companies", "company_changes", "dead_letters", "list_members", "company_lists", "runs")
_EMPTY = {"VARCHAR": "", "BIGINT": 0, "INTEGER": 0, "TIMESTAMP": "2026-01-05", "DATE": "2026-01-05", "JSON": "[]"}


def number(company: int) -> str:
    return f"{company:08}"


def key(company: int) -> str:
    return "NL" + number(company)


_NUMBERS = count(1)


class Figures:
    """An empty warehouse; companies are Dutch and named by a small number. `made` makes its views."""

    def __init__(self, *, is_bare: bool = False) -> None:
        """Begin with tables alone, or with a copy of a warehouse that has views."""
        self.positions = 0
        if is_bare:
            self.connection = duckdb.connect()
            create_tables(self.connection, with_comments=False)
            return
        copy = empty_warehouse().with_name(f"{next(_NUMBERS)}.duckdb")
        shutil.copyfile(empty_warehouse(), copy)
        self.connection = duckdb.connect(copy)
        self.connection.execute("BEGIN")

    def files(self, company: int, end: str = "2024-12-31", start: str = "2024-01-01", dup_no: int = 0, **values: Any):
        """Add a period; what is not given is null."""
        period = {"start_date": start, "end_date": end, "dup_no": dup_no, "position": 0}
        self.add("financials", company, **(values | period))
        self.knows(company)

    def knows(self, company: int, name: str | None = "", country: str = "NL") -> None:
        """Add the company, if it is not there, with a name made of its number unless one is given."""
        if not self.ask(f"SELECT 1 FROM companies WHERE company_number = '{number(company)}'"):
            self.add("companies", company, name=f"company {company}" if name == "" else name, country=country)

    def add(self, table: str, company: int, **values: Any) -> None:
        row = {"country": "NL", "company_number": number(company), "run_id": "r", **values}
        if table not in _NOT_FETCHED:
            row["fetched_at"] = "2026-01-05 12:00:00"
        self._insert(table, row | ({} if TABLES[table].volatile is None else {"valid_from": 1}))

    def fill(self, table: str, **values: Any) -> None:
        """Add a row of any table; what is not given is empty, zero or, if it may be, null."""
        columns = self.ask(
            "SELECT column_name, data_type FROM duckdb_columns() "
            f"WHERE table_name = '{versions_of(table)}' AND NOT is_nullable"
        )
        self._insert(table, {name: 1 if name == "valid_from" else _EMPTY[kind] for name, kind in columns} | values)

    def _insert(self, table: str, row: dict[str, Any]) -> None:
        columns = ", ".join(f'? AS "{name}"' for name in row)
        self.connection.execute(f"INSERT INTO {versions_of(table)} BY NAME SELECT {columns}", list(row.values()))

    def owner(self, child: int, owner: int | str | None, stake: Any = None, function: str = "SHAREHOLDER") -> None:
        """State what a company says of its owner: a company, a person by name, or somebody unidentified."""
        self.party(child, "parent", owner, stake, function)

    def owned(self, child: int, owner: int, stake: Any = None) -> None:
        """State what an owner says of the company that it owns."""
        self.party(owner, "child", child, stake, "SHAREHOLDER")

    def party(self, company: int, direction: str, other: int | str | None, stake: Any, function: str) -> None:
        related: dict[str, Any] = {"related_kind": "named_party" if other else "anonymous", "related_name": other}
        if isinstance(other, int):
            related = {"related_kind": "company", "related_country": "NL", "related_company_number": number(other)}
        self.positions += 1
        self.add(
            "relationships", company, direction=direction, position=self.positions, function=function,
            stake_fraction=stake, **related,
        )  # fmt: skip

    def owners(self, *stakes: tuple[int, int | str | None, float]) -> Figures:
        """State many owners: child, owner and stake."""
        for stake in stakes:
            self.owner(*stake)
        return self

    def list_of(self, name: str, *cells: tuple[int | None, str], column: str = "limit") -> None:
        """Add a list with one company a line, and one own cell each."""
        self.fill("company_lists", list_name=name, column_names=json.dumps([column]))
        for line, (company, cell) in enumerate(cells, 1):
            identifier = {"country": "NL", "company_number": number(company)} if company else {"country": None}
            self.fill("list_members", list_name=name, line=line, columns=json.dumps({column: cell}), **identifier,
                      status="accepted" if company else "refused")  # fmt: skip

    def loads(self, generation: int, run_id: str) -> None:
        """Mark a run as loaded on 5 January 2026."""
        at = datetime(2026, 1, 5, tzinfo=UTC)
        add_load(self.connection, Load(generation, run_id, at, at), {})

    def files_extremes(self) -> None:
        """Add a group of companies whose figures are the greatest or least that a table holds, by chance."""
        chance = random.Random(1)
        kinds = {column.name: duckdb_type(column) for column in TABLES["financials"].columns}
        for company in range(1, 9):
            for year in (2022, 2023, 2024):
                figures = {
                    name: chance.choice(("", "-")) + _GREATEST[kind]
                    for name, kind in kinds.items()
                    if kind in _GREATEST and name != "dup_no"
                }
                self.files(company, f"{year}-12-31", f"{year}-12-31", **figures)
            self.owner(company, company // 2, "999.999999")

    def made(self) -> Figures:
        if not self.ask("FROM companies LIMIT 1"):  # else what is computed at load would be left as it is
            self.add("company_state", 99_999_999, dataset="lookalikes", status="waiting")
        with suppress(duckdb.TransactionException):  # when called again
            self.connection.execute("COMMIT")
        create_views(self.connection)
        return self

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()

    def of(self, company: int, columns: str, view: str) -> list[tuple[Any, ...]]:
        return self.ask(f"SELECT {columns} FROM {view} WHERE company_number = '{number(company)}' ORDER BY ALL")
