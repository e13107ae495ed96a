"""The same with Airbyte: a low-code source (airbyte.yaml), its messages as JSON Lines, and DuckDB as destination."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
from airbyte_cdk.entrypoint import AirbyteEntrypoint
from airbyte_cdk.sources.declarative.yaml_declarative_source import YamlDeclarativeSource
from common import DATASETS, TOKEN, measured, read_companies, stage

_MANIFEST = Path(__file__).with_name("airbyte.yaml")
_TABLES = {
    "companies": "SELECT DISTINCT record.data.identifier AS company FROM financials_records",
    "financials": """
        SELECT record.data.identifier AS company, unnest(record.data.data) AS period FROM financials_records""",
    "joint_committees": """
        SELECT company, period.startDate AS start_date, unnest(period.jointCommitteeCodes) AS code FROM financials""",
    "lookalikes": """
        SELECT record.data.identifier AS company, unnest(record.data.data) AS lookalike FROM lookalikes_records""",
    "relationships": """
        SELECT record.data.identifier AS company, 'parents' AS direction, unnest(record.data.data.parents) AS party
        FROM relationships_records
        UNION ALL BY NAME
        SELECT record.data.identifier AS company, 'children' AS direction, unnest(record.data.data.children) AS party
        FROM relationships_records""",
}
_TOTALS = {
    "companies": "count(*) FROM companies",
    "not_found": "count(*) FROM companies WHERE company.name IS NULL",
    "financials": "count(*) FROM financials",
    "joint_committees": "count(*) FROM joint_committees",
    "lookalikes": "count(*) FROM lookalikes",
    "relationships": "count(*) FROM relationships",
    "revenue_cents": "sum(round(period.profitability.revenue * 100)::HUGEINT) FROM financials",
    "net_profit_cents": "sum(round(period.profitability.netProfit * 100)::HUGEINT) FROM financials",
    "total_assets_cents": "sum(round(period.solvency.totalAssets * 100)::HUGEINT) FROM financials",
    "stake_millionths": "sum(round(party.percentage * 1000000)::HUGEINT) FROM relationships",
}


def work(base_url: str, company_list: Path, data: Path) -> dict[str, int]:
    """Read all streams as Airbyte does, and load their records."""
    config, catalog = data / "config.json", data / "catalog.json"
    config.write_text(json.dumps(make_config(base_url, company_list)))
    catalog.write_text(json.dumps({"streams": [configure(dataset) for dataset in DATASETS]}))
    with stage("source"):
        read(data, ["read", "--config", str(config), "--catalog", str(catalog)])
    with stage("load"), duckdb.connect(data / "peer.duckdb") as connection:
        for dataset in DATASETS:
            connection.execute(f"CREATE TEMP TABLE {dataset}_records AS FROM read_ndjson('{data / dataset}.jsonl')")
        for table, query in _TABLES.items():
            connection.execute(f"CREATE TABLE {table} AS {query}")
        found = {name: connection.execute(f"SELECT {query}").fetchall()[0][0] for name, query in _TOTALS.items()}
    return {name: int(value) for name, value in found.items()}


def make_config(base_url: str, company_list: Path) -> dict[str, Any]:
    """Give the source its configuration: the companies of each request as text, which its slices are."""
    companies = read_companies(company_list)

    def batches(size: int) -> list[str]:
        return [json.dumps(companies[start : start + size]) for start in range(0, len(companies), size)]

    return {"base_url": base_url, "token": TOKEN, "hundreds": batches(100), "twenty_fives": batches(25)}


def configure(dataset: str) -> dict[str, Any]:
    """Choose a stream, to be read whole."""
    stream = {"name": dataset, "json_schema": {}, "supported_sync_modes": ["full_refresh"]}
    return {"stream": stream, "sync_mode": "full_refresh", "destination_sync_mode": "overwrite"}


def read(data: Path, arguments: list[str]) -> None:
    """Run the source's command line, and keep its records by stream."""
    parsed = AirbyteEntrypoint.parse_args(arguments)
    source = YamlDeclarativeSource(
        str(_MANIFEST),
        config=YamlDeclarativeSource.read_config(parsed.config),
        catalog=YamlDeclarativeSource.read_catalog(parsed.catalog),
    )
    files = {f'{{"type":"RECORD","record":{{"stream":"{name}"': (data / f"{name}.jsonl").open("w") for name in DATASETS}
    for message in AirbyteEntrypoint(source).run(parsed):
        for start, file in files.items():
            if message.startswith(start):
                file.write(message + "\n")
    for file in files.values():
        file.close()


if __name__ == "__main__":
    measured(work)
