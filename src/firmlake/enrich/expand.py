"""Expansion: find lookalikes, parents or children of companies in the warehouse."""

from __future__ import annotations

import duckdb
import polars as pl

__all__ = ["DIRECTIONS", "neighbours"]

_RELATED = """
    SELECT related_country AS country, related_company_number AS company_number
    FROM relationships r SEMI JOIN inner_companies c USING (country, company_number)
    WHERE direction = '{direction}' AND related_kind = 'company'
    GROUP BY ALL ORDER BY max(stake_fraction) DESC NULLS LAST, country, company_number
"""

DIRECTIONS = {
    "lookalikes": """
        SELECT lookalike_country AS country, lookalike_company_number AS company_number
        FROM lookalikes l SEMI JOIN inner_companies c USING (country, company_number)
        GROUP BY ALL ORDER BY sum(score) DESC, country, company_number
    """,
    "parents": _RELATED.format(direction="parent"),
    "children": _RELATED.format(direction="child"),
}
"""A query for each value of `run.expand`. Lookalikes come by total similarity, parents and children by stake."""


def neighbours(
    connection: duckdb.DuckDBPyConnection, companies: pl.DataFrame, known: pl.DataFrame, direction: str
) -> pl.DataFrame:
    """Find the companies one step away from the given ones.

    Args:
        connection: A generation of the warehouse.
        companies: The companies to start from: country, company_number.
        known: The companies to leave out: country, company_number.
        direction: One of `DIRECTIONS`.

    Returns:
        One row per company: country, company_number. The nearest come first, so that a budget is spent on them.
    """
    connection.register("inner_companies", companies.select("country", "company_number").to_arrow())
    found = pl.from_arrow(connection.sql(DIRECTIONS[direction]).to_arrow_table())
    connection.unregister("inner_companies")
    assert isinstance(found, pl.DataFrame)
    return found.join(known, on=["country", "company_number"], how="anti", maintain_order="left")
