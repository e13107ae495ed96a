"""What tables hold, read back from where they ended: rows and sums, to compare with what the company numbers say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import fastexcel
import msgspec
import polars as pl

from benchmarks.answers import Totals

__all__ = ["read_export", "read_list_back", "read_loaded", "read_warehouse"]

_TOTALS = {
    "companies": "count(*) FROM companies",
    "not_found": "count(*) FROM company_state WHERE status = 'not_found' AND dataset = 'financials'",
    "financials": "count(*) FROM financials",
    "joint_committees": "count(*) FROM financial_joint_committees",
    "lookalikes": "count(*) FROM lookalikes",
    "relationships": "count(*) FROM relationships",
    "revenue_cents": "sum(revenue * 100) FROM financials",
    "net_profit_cents": "sum(net_profit * 100) FROM financials",
    "total_assets_cents": "sum(total_assets * 100) FROM financials",
    "stake_millionths": "sum(stake_fraction * 1000000) FROM relationships",
}
_TABLES = ("companies", "company_state", "financials", "financial_joint_committees", "lookalikes", "relationships")


def read_warehouse(data: Path) -> dict[str, int]:
    """Read the newest generation."""
    from firmlake.core.folders import Folders
    from firmlake.warehouse.generations import open_warehouse

    with open_warehouse(Folders(data)) as connection:
        return _read(connection)


def read_export(folder: Path) -> dict[str, int]:
    """Read the Parquet files of one export."""
    with duckdb.connect() as connection:
        for table in _TABLES:
            files = str(folder / table / "**" / "*.parquet")
            connection.execute(f"CREATE VIEW {table} AS FROM read_parquet('{files}')")
        return _read(connection)


def read_loaded(address: str) -> dict[str, int]:
    """Read the tables that `firmlake load` wrote into a DuckDB file or a PostgreSQL database."""
    if address.startswith("duckdb:"):
        with duckdb.connect(address.removeprefix("duckdb:"), read_only=True) as file:
            file.execute("SET search_path = 'firmlake'")
            return _read(file)
    import psycopg

    with psycopg.connect(address, options="-c search_path=firmlake") as server:
        return _read(server)


def read_list_back(path: Path) -> dict[str, int]:
    """Read a list that was given back: its lines, the companies on it, and those that were not found."""
    if path.suffix == ".xlsx":
        rows = fastexcel.read_excel(path).load_sheet(0, dtypes="string").to_polars()
    else:
        rows = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema=False)
    missing = rows.filter(pl.col("status") == "not found")
    return {"lines": rows.height, "companies": rows["company"].n_unique(), "not_found": missing.height}


def read_report(path: Path) -> dict[str, int]:
    """Read the number of companies at the top of a report."""
    (count,) = re.findall(r"Companies<b>([\d,]+)</b>", path.read_text("utf-8"))
    return {"companies": int(count.replace(",", ""))}


def _read(connection: Any) -> dict[str, int]:
    values = {name: connection.execute(f"SELECT {query}").fetchall()[0][0] for name, query in _TOTALS.items()}
    totals: dict[str, int] = msgspec.to_builtins(Totals(**{name: int(value or 0) for name, value in values.items()}))
    return totals
