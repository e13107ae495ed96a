"""A warehouse of a few accounts made by hand: only what a test is about is stated."""

from __future__ import annotations

from typing import Any

import duckdb

from firmlake.tables.schemas import TABLES
from firmlake.warehouse.load import create_tables
from firmlake.warehouse.views import create_views


class Figures:
    """An empty warehouse with its views; companies are Dutch and named by a small number."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        create_tables(self.connection)

    def files(self, company: int, end: str = "2024-12-31", start: str = "2024-01-01", dup_no: int = 0, **values: Any):
        """Add a period; what is not given is null."""
        self.add("financials", company, start_date=start, end_date=end, dup_no=dup_no, position=0, **values)
        if not self.ask(f"SELECT 1 FROM companies WHERE company_number = '{company:08}'"):
            self.add("companies", company, name=f"company {company}")

    def add(self, table: str, company: int, **values: Any) -> None:
        row = {"country": "NL", "company_number": f"{company:08}", "run_id": "r", **values}
        if TABLES[table].volatile is not None:
            row["valid_from_run"] = "r"
        if table not in ("companies", "changes", "dead_letters"):
            row["fetched_at"] = "2026-01-05 12:00:00"
        columns = ", ".join(f'? AS "{name}"' for name in row)
        self.connection.execute(f"INSERT INTO {table} BY NAME SELECT {columns}", list(row.values()))

    def made(self) -> Figures:
        create_views(self.connection)
        return self

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()

    def of(self, company: int, columns: str, view: str) -> list[tuple[Any, ...]]:
        return self.ask(f"SELECT {columns} FROM {view} WHERE company_number = '{company:08}' ORDER BY ALL")
