"""`python docs/make_dbt.py`: write the sources of the dbt package from the schema of the tables."""

from __future__ import annotations

from pathlib import Path

from firmlake.delivery.scripts import render_package_sources

SOURCES = Path(__file__).parents[1] / "dbt" / "models" / "sources.yml"

if __name__ == "__main__":
    SOURCES.write_text(render_package_sources(), "utf-8")
