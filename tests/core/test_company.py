"""A company's key: one number for each, the same in Polars and in DuckDB, and back."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from firmlake.core.company import NUMBER_LENGTH, Company, company_key, names_of

COMPANIES = st.sampled_from(list(NUMBER_LENGTH)).flatmap(
    lambda country: st.builds(
        lambda number: Company(country, f"{number:0{NUMBER_LENGTH[country]}}"),
        st.integers(0, 10 ** NUMBER_LENGTH[country] - 1),
    )
)


@given(st.lists(COMPANIES, unique=True))
def test_a_key_is_one_company_and_leads_back_to_it(companies):
    frame = pl.DataFrame(companies, schema={"country": pl.String, "company_number": pl.String}, orient="row")
    keys = frame.select(company_key().alias("key"))["key"]
    assert keys.n_unique() == len(companies)
    assert names_of(keys).rows() == companies
