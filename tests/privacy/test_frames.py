"""Rows of tables lose what names a forgotten subject, and nothing else."""

from __future__ import annotations

import polars as pl

from firmlake.privacy.frames import clean_frame
from firmlake.privacy.tombstones import Subject
from support import ACME, BOLT

from .conftest import person


def test_the_name_of_a_list_is_no_data_about_one_of_its_companies(forget):
    """The name stands in the plan of the run, which is about no company: both must be cleaned, or neither."""
    lines = pl.DataFrame(
        [(*company, "for_jan_peeters", "Jan Peeters") for company in (ACME, BOLT)],
        ("country", "company_number", "list_name", "columns"),
        orient="row",
    )
    about_acme = clean_frame(lines, forget(Subject("person", "Jan Peeters", ACME)))
    assert about_acme["list_name"].to_list() == ["for_jan_peeters", "for_jan_peeters"]
    assert about_acme["columns"].to_list() == [None, "Jan Peeters"]
    assert clean_frame(lines, forget(person("Jan Peeters")))["list_name"].to_list() == ["for_[forgotten]"] * 2
