"""A warehouse of a few accounts made by hand: only what a test is about is stated."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import duckdb

from firmlake.tables.schemas import TABLES, duckdb_type
from firmlake.warehouse.loads import Load, add_load
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.versions import versions_of
from firmlake.warehouse.views import create_views

_GREATEST = {
    "BIGINT": "9223372036854775807",
    "DECIMAL(18,2)": "9999999999999999.99",
    "DECIMAL(12,4)": "99999999.9999",
    "DECIMAL(9,6)": "999.999999",
}


class Figures:
    """An empty warehouse with its views; companies are Dutch and named by a small number."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        create_tables(self.connection)

    def files(self, company: int, end: str = "2024-12-31", start: str = "2024-01-01", dup_no: int = 0, **values: Any):
        """Add a period; what is not given is null."""
        period = {"start_date": start, "end_date": end, "dup_no": dup_no, "position": 0}
        self.add("financials", company, **(values | period))
        if not self.ask(f"SELECT 1 FROM companies WHERE company_number = '{company:08}'"):
            self.add("companies", company, name=f"company {company}")

    def add(self, table: str, company: int, **values: Any) -> None:
        row = {"country": "NL", "company_number": f"{company:08}", "run_id": "r", **values}
        if TABLES[table].volatile is not None:
            row["valid_from"] = 1
        if table not in ("companies", "company_changes", "dead_letters", "list_members"):
            row["fetched_at"] = "2026-01-05 12:00:00"
        columns = ", ".join(f'? AS "{name}"' for name in row)
        self.connection.execute(f"INSERT INTO {versions_of(table)} BY NAME SELECT {columns}", list(row.values()))

    def fill(self, table: str, **values: Any) -> None:
        """Add a row of any table; what is not given is empty, zero or, if it may be, null."""
        empty = {
            "VARCHAR": "",
            "BIGINT": 0,
            "INTEGER": 0,
            "TIMESTAMP": "2026-01-05",
            "DATE": "2026-01-05",
            "JSON": "[]",
        }
        stored = versions_of(table)
        columns = self.ask(
            f"SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = '{stored}' AND NOT is_nullable"
        )
        row = {name: 1 if name == "valid_from" else empty[kind] for name, kind in columns} | values
        named = ", ".join(f'? AS "{name}"' for name in row)
        self.connection.execute(f"INSERT INTO {stored} BY NAME SELECT {named}", list(row.values()))

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
            self.add(
                "relationships", company, direction="parent", position=0, related_kind="company", related_country="NL",
                related_company_number=f"{company // 2:08}", function="SHAREHOLDER", stake_fraction="999.999999",
            )  # fmt: skip

    def made(self) -> Figures:
        create_views(self.connection)
        return self

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()

    def of(self, company: int, columns: str, view: str) -> list[tuple[Any, ...]]:
        return self.ask(f"SELECT {columns} FROM {view} WHERE company_number = '{company:08}' ORDER BY ALL")


def own(made, child, parent=None, stake=None, name=None):
    """State that a company, or a person by name, holds a stake."""
    party = {"related_country": "NL", "related_company_number": f"{parent:08}"} if parent else {"related_name": name}
    kind = "company" if parent else "named_party"
    position = made.ask("SELECT count(*) FROM relationships")[0][0]
    made.add("relationships", child, direction="parent", position=position, related_kind=kind, function="SHAREHOLDER",
             stake_fraction=stake, **party)  # fmt: skip
    for company in (child, parent):
        if company and not made.ask(f"SELECT 1 FROM companies WHERE company_number = '{company:08}'"):
            made.add("companies", company, name=f"company {company}")


def list_of(made, name, *cells, column="limit"):
    """Add a list with one company a line, and one own cell each."""
    made.fill("company_lists", list_name=name, column_names=json.dumps([column]))
    for line, (company, cell) in enumerate(cells, 1):
        key = {"country": "NL", "company_number": f"{company:08}"} if company else {"country": None}
        made.fill("list_members", list_name=name, line=line, columns=json.dumps({column: cell}), **key,
                  status="accepted" if company else "refused")  # fmt: skip
