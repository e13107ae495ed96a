"""Outward: the companies beside those of a list, by what the warehouse holds of them."""

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
"""Where to, and how the nearest are found: most similar to most companies first, or the largest stake first."""


def neighbours(
    connection: duckdb.DuckDBPyConnection, companies: pl.DataFrame, known: pl.DataFrame, direction: str
) -> pl.DataFrame:
    """Find the companies one step beside others.

    Args:
        connection: A generation.
        companies: Where to start: country, company_number.
        known: Those to leave out: likewise.
        direction: One of `DIRECTIONS`.

    Returns:
        country, company_number: each once, the nearest first, so that a budget reaches those.
    """
    connection.register("inner_companies", companies.select("country", "company_number").to_arrow())
    found = pl.from_arrow(connection.sql(DIRECTIONS[direction]).to_arrow_table())
    connection.unregister("inner_companies")
    assert isinstance(found, pl.DataFrame)
    return found.join(known, on=["country", "company_number"], how="anti", maintain_order="left")
