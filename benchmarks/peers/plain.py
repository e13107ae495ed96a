"""The script that one writes first: requests, pandas, Parquet, DuckDB.

It keeps nothing of what it received, checks nothing, and has amounts as floats.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import requests
from common import DATASETS, TOKEN, fetch_pages, measured, read_companies

_BATCH = 5_000
_TABLES = ("companies", "financials", "joint_committees", "lookalikes", "relationships")
_TOTALS = """
    SELECT (SELECT count(*) FROM companies), (SELECT count(*) FROM companies WHERE name IS NULL),
           (SELECT count(*) FROM financials), (SELECT count(*) FROM joint_committees),
           (SELECT count(*) FROM lookalikes), (SELECT count(*) FROM relationships),
           (SELECT sum(round("profitability.revenue" * 100)::HUGEINT) FROM financials),
           (SELECT sum(round("profitability.netProfit" * 100)::HUGEINT) FROM financials),
           (SELECT sum(round("solvency.totalAssets" * 100)::HUGEINT) FROM financials),
           (SELECT sum(round(percentage * 1000000)::HUGEINT) FROM relationships)
"""
_NAMES = (
    "companies", "not_found", "financials", "joint_committees", "lookalikes", "relationships",
    "revenue_cents", "net_profit_cents", "total_assets_cents", "stake_millionths",
)  # fmt: skip


def work(base_url: str, company_list: Path, data: Path) -> dict[str, int]:
    """Fetch the list into Parquet, some thousand companies at a time, and load it into DuckDB."""
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {TOKEN}"

    def post(path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        answer = session.post(base_url + path, json=body, timeout=60)
        answer.raise_for_status()
        elements: list[dict[str, Any]] = answer.json()
        return elements

    companies = read_companies(company_list)
    for number, start in enumerate(range(0, len(companies), _BATCH)):
        batch = companies[start : start + _BATCH]
        rows: dict[str, list[dict[str, Any]]] = {table: [] for table in _TABLES}
        for dataset in DATASETS:
            for elements in fetch_pages(post, dataset, batch):
                for element in elements:
                    collect(dataset, element, rows)
        for table in _TABLES:
            frame = pd.json_normalize(rows[table])
            if table == "companies":
                frame = frame.drop_duplicates(["country", "companyNumber"])
            frame.to_parquet(data / f"{table}-{number:05}.parquet", compression="zstd")
    with duckdb.connect(data / "companies.duckdb") as connection:
        for table in _TABLES:
            files = str(data / f"{table}-*.parquet")
            connection.execute(f"CREATE TABLE {table} AS FROM read_parquet('{files}', union_by_name = true)")
        found = connection.execute(_TOTALS).fetchall()[0]
    return {name: int(value) for name, value in zip(_NAMES, found, strict=True)}


def collect(dataset: str, element: dict[str, Any], rows: dict[str, list[dict[str, Any]]]) -> None:
    """Take one company's element apart into rows."""
    identifier = element["identifier"]
    key = {"country": identifier["country"], "company_number": identifier["companyNumber"]}
    data = element["data"]
    if dataset == "financials" and (data is None or element["pagination"]["offset"] == 0):
        rows["companies"].append({"name": None, "place": None, **identifier})
    if data is None:
        return
    if dataset == "financials":
        for period in data:
            codes = period.pop("jointCommitteeCodes")
            rows["financials"].append({**key, **period})
            rows["joint_committees"] += [{**key, "start_date": period["startDate"], "code": code} for code in codes]
    elif dataset == "lookalikes":
        rows["lookalikes"] += [{**key, "rank": rank, **entry} for rank, entry in enumerate(data, 1)]
    else:
        rows["relationships"] += [
            {**key, "direction": direction, **entry}
            for direction in ("parents", "children")
            for entry in data[direction]
        ]


if __name__ == "__main__":
    measured(work)
