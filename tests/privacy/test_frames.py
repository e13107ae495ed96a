"""Rows of tables lose what names a forgotten subject, and nothing else."""

from __future__ import annotations

import polars as pl
import pytest

from firmlake.privacy.cleaning import clean_frame
from firmlake.privacy.tombstones import Subject
from support import ACME, BOLT

from .conftest import person


@pytest.mark.parametrize("column", ["list_name", "rule", "says", "condition"])
def test_the_names_of_a_list_and_of_a_rule_are_no_data_about_one_of_its_companies(forget, column):
    """They stand in the plan of the run, which is about no company: both must be cleaned, or neither."""
    lines = pl.DataFrame(
        [(*company, "for_jan_peeters", "Jan Peeters") for company in (ACME, BOLT)],
        ("country", "company_number", column, "columns"),
        orient="row",
    )
    about_acme = clean_frame(lines, forget(Subject("person", "Jan Peeters", ACME)))
    assert about_acme[column].to_list() == ["for_jan_peeters", "for_jan_peeters"]
    assert about_acme["columns"].to_list() == [None, "Jan Peeters"]
    assert clean_frame(lines, forget(person("Jan Peeters")))[column].to_list() == ["for_[forgotten]"] * 2
