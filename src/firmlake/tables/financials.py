"""Financial periods and their joint committee codes."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from firmlake.tables.answered import Answered, Gathered, gather

__all__ = ["flatten_financials"]

_PERIOD = ("country", "company_number", "start_date", "end_date")


def flatten_financials(answers: Sequence[Answered]) -> tuple[dict[str, pl.DataFrame], list[Gathered]]:
    """Flatten answers to one row per period, and one row per joint committee code of a period.

    A period can be filed twice; `dup_no` numbers its filings in the order of the answer.
    """
    gathered = gather("financials", "period", answers)
    has_repeated = gathered.frame.select(_PERIOD).is_duplicated().any()  # seldom, and cheaper than to count in each
    nth = pl.col("position").cum_count().over(_PERIOD).cast(pl.Int64) - 1 if has_repeated else pl.lit(0, pl.Int64)
    periods = gathered.frame.with_columns(nth.alias("dup_no"))
    codes = (
        periods.select(*_PERIOD, "dup_no", "fetched_at", pl.col("joint_committee_codes").alias("code"))
        .filter(pl.col("code").list.len() > 0)
        .with_columns(pl.int_ranges(0, pl.col("code").list.len(), dtype=pl.Int64).alias("position"))
        .explode("code", "position")
    )
    return {"financials": periods, "financial_joint_committees": codes}, [gathered]
