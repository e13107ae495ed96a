"""Financial periods and their joint committee codes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import polars as pl

from firmlake.tables.answered import Gathered

__all__ = ["flatten_financials"]

_PERIOD = ("country", "company_number", "start_date", "end_date")


def flatten_financials(gathered: Mapping[str, Gathered]) -> dict[str, pl.DataFrame]:
    """Flatten records to one row per period, and one row per joint committee code of a period.

    A period can be filed more than once. `dup_no` numbers its filings from the one received first, so that a filing
    keeps its number when a newer one joins it. A filing without a date counts as the oldest; of filings received on the
    same day the answer names the newest first.
    """
    frame = gathered["period"].frame
    periods = frame.with_columns(_filing_numbers(frame).alias("dup_no"))
    codes = (
        periods.select(*_PERIOD, "dup_no", "fetched_at", pl.col("joint_committee_codes").alias("code"))
        .filter(pl.col("code").list.len() > 0)
        .with_columns(pl.int_ranges(0, pl.col("code").list.len(), dtype=pl.Int64).alias("position"))
        .explode("code", "position")
    )
    return {"financials": periods, "financial_joint_committees": codes}


# ---------------------------------------------------------------------------------------------------------------------


def _filing_numbers(periods: pl.DataFrame) -> pl.Series:
    """Number the filings of each period: 0 is the one received first."""
    is_repeated = periods.select(_PERIOD).is_duplicated()  # few are, and ranking all would cost ten times as much
    received = pl.struct(pl.col("date_received").fill_null(date.min), -pl.col("position"))
    numbers = periods.filter(is_repeated).select((received.rank("ordinal").over(_PERIOD) - 1).cast(pl.Int64))
    return pl.zeros(len(periods), pl.Int64, eager=True).scatter(is_repeated.arg_true(), numbers.to_series())
