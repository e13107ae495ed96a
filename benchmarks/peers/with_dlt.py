"""The same with dlt: one resource for each dataset, nested data left to its normaliser, DuckDB as destination."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dlt
from common import DATASETS, TOKEN, fetch_pages, measured, read_companies
from dlt.sources.helpers import requests

_TOTALS = """
    SELECT (SELECT count(DISTINCT (identifier__country, identifier__company_number)) FROM financials),
           (SELECT count(DISTINCT (identifier__country, identifier__company_number)) FROM financials
            WHERE identifier__name IS NULL),
           (SELECT count(*) FROM financials__data),
           (SELECT count(*) FROM financials__data__joint_committee_codes),
           (SELECT count(*) FROM lookalikes__data),
           (SELECT count(*) FROM relationships__data__parents)
               + (SELECT count(*) FROM relationships__data__children),
           (SELECT sum(round(profitability__revenue * 100)::HUGEINT) FROM financials__data),
           (SELECT sum(round(profitability__net_profit * 100)::HUGEINT) FROM financials__data),
           (SELECT sum(round(solvency__total_assets * 100)::HUGEINT) FROM financials__data),
           (SELECT sum(round(percentage * 1000000)::HUGEINT) FROM
               (SELECT percentage FROM relationships__data__parents
                UNION ALL SELECT percentage FROM relationships__data__children))
"""
_NAMES = (
    "companies", "not_found", "financials", "joint_committees", "lookalikes", "relationships",
    "revenue_cents", "net_profit_cents", "total_assets_cents", "stake_millionths",
)  # fmt: skip


def work(base_url: str, company_list: Path, data: Path) -> dict[str, int]:
    """Run one pipeline over all datasets."""
    client = requests.Client()
    companies = read_companies(company_list)

    def post(path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        answer = client.post(base_url + path, json=body, headers={"Authorization": f"Bearer {TOKEN}"})
        elements: list[dict[str, Any]] = answer.json()
        return elements

    def resource_of(dataset: str) -> Any:
        def pages() -> Iterator[list[dict[str, Any]]]:
            yield from fetch_pages(post, dataset, companies)

        return dlt.resource(pages, name=dataset, write_disposition="replace")

    database = data / "peer.duckdb"
    pipeline = dlt.pipeline(
        "peer",
        pipelines_dir=str(data / "pipelines"),
        destination=dlt.destinations.duckdb(str(database)),
        dataset_name="main_data",
    )
    pipeline.run([resource_of(dataset) for dataset in DATASETS], loader_file_format="parquet")
    with pipeline.sql_client() as connection:  # its tables are the default schema
        found = connection.execute_sql(_TOTALS)
    return {name: int(value) for name, value in zip(_NAMES, found[0], strict=True)}


if __name__ == "__main__":
    measured(work)
