"""`python docs/make_dbt.py`: write the sources of the dbt package from the schema of the tables."""

from __future__ import annotations

from pathlib import Path

from firmlake.delivery.record import describe_table
from firmlake.delivery.scripts import sources_file
from firmlake.delivery.selection import EXPORTED_TABLES
from firmlake.tables.schemas import WAREHOUSE_TABLES

SOURCES = Path(__file__).parents[1] / "dbt" / "models" / "sources.yml"


def render() -> str:
    """Write the sources file of the dbt package for tables that `firmlake load` writes."""
    return sources_file(
        "Made by docs/make_dbt.py from the schema of the tables.",
        "Tables that `firmlake load` writes",
        [describe_table(WAREHOUSE_TABLES[name]) for name in EXPORTED_TABLES],
        schema="{{ var('firmlake_schema') }}",
        key_test=("unique_key", "columns"),
    )


if __name__ == "__main__":
    SOURCES.write_text(render(), "utf-8")
