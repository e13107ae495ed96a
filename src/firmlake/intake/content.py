"""Examine the columns of a list for values that are countries or valid company numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import polars as pl

from firmlake.core.company import COUNTRIES
from firmlake.intake.countries import country_codes
from firmlake.intake.numbers import identify_column
from firmlake.intake.words import ERROR

__all__ = ["Evidence", "column_texts", "country_shares", "number_evidence"]

_MOST_CELLS: Final = 200_000
_MOST_COLUMNS: Final = 40
"""Examine at most this many columns closely: the leftmost that look like numbers."""

_LIKE_A_NUMBER: Final = r"^(?:[^0-9]*[0-9]){7,14}[^0-9]*$"
_LIKE_A_DATE: Final = r"^(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$"
_BARE: Final = r"^[0-9]{7,8}$"


class Evidence(NamedTuple):
    """The evidence that a column holds company numbers.

    Attributes:
        share: Share of filled cells that are valid company numbers.
        valid_count: Number of valid company numbers.
        is_checked: Whether most of the valid numbers have a check digit or a prefix, so they are hardly anything else.
        companies: The company of each row, null if there is none.
        examples: The first valid texts.
    """

    share: float
    valid_count: int
    is_checked: bool
    companies: pl.Series
    examples: tuple[str, ...]


def column_texts(sample: pl.DataFrame, position: int) -> pl.Series:
    """Return the texts of one column of a sample; empty texts and errors of a spreadsheet are null."""
    text = pl.col("fields").list.get(position, null_on_oob=True).str.strip_chars()
    return sample.select(pl.when((text != "") & ~text.str.contains(ERROR)).then(text).alias("text"))["text"]


def country_shares(sample: pl.DataFrame) -> dict[int, float]:
    """Return the share of filled cells that name a known country, by column position."""
    cells = _cells(sample)
    known = cells.with_columns(known=country_codes(cells["text"]).is_in(COUNTRIES).fill_null(value=False))
    return dict(known.group_by("position", maintain_order=True).agg(pl.col("known").mean()).sort("position").rows())


def number_evidence(
    sample: pl.DataFrame,
    roles: Mapping[int, str],
    country: pl.Series,
    default_country: str | None,
    *,
    is_register: bool = False,
) -> dict[int, Evidence]:
    """Collect evidence for the columns whose values look like numbers.

    Args:
        sample: Rows with `fields`, a list of texts.
        roles: Role by position, for columns that may be chosen.
        country: `BE`, `NL`, `FR` or null for each row.
        default_country: Country of numbers without another country; None if there is no default.
        is_register: Whether only numbers of the register named by their role count, whatever the country of a row.
    """
    looks = _cells(sample).filter(pl.col("text").str.contains(_LIKE_A_NUMBER))["position"].unique().sort()
    likely = [position for position in looks if position in roles][:_MOST_COLUMNS]
    texts = {position: column_texts(sample, position) for position in likely}
    found = {
        position: identify_column(cells, country, roles[position], default_country, is_register=is_register)
        for position, cells in texts.items()
    }
    return {position: _weigh(cells, found[position]) for position, cells in texts.items()}


def _weigh(texts: pl.Series, found: pl.DataFrame) -> Evidence:
    holds = found["problem"].is_null()
    count, filled = int(holds.sum()), texts.len() - texts.null_count()
    bare = (texts.str.contains(_BARE) & (found["country"] == "NL")).fill_null(value=False)
    dates = (texts.str.contains(_LIKE_A_DATE) & bare).sum()
    is_checked = count > 0 and int((holds & ~bare).sum()) * 2 > count
    share = 0.0 if dates * 2 > count else count / max(filled, 1)
    companies = found.select(pl.concat_str("country", "company_number", separator=" "))["country"]
    return Evidence(share, count, is_checked, companies, tuple(texts.filter(holds).head(3)))


def _cells(sample: pl.DataFrame) -> pl.DataFrame:
    """Return the filled cells of the first rows: position, text."""
    width = int(sample["fields"].list.len().max() or 1)  # type: ignore[arg-type]
    rows = sample.head(max(20, _MOST_CELLS // width))
    cells = rows.select(position=pl.int_ranges(pl.col("fields").list.len()), text="fields").explode("position", "text")
    text = pl.col("text").str.strip_chars()
    return cells.filter((text != "") & ~text.str.contains(ERROR))
