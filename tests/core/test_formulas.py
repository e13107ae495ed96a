"""Text that a spreadsheet would take for a formula is made harmless, and can be had back."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.core.formulas import guard, guard_texts, unguard

TEXTS = st.text(alphabet="=+-@\uff1d\uff0b\uff0d\uff20\t\r\n'09.,a %€", max_size=6)


@given(TEXTS)
def test_every_text_can_be_had_back(text):
    assert unguard(guard(text)) == text


@given(st.lists(TEXTS | st.none(), max_size=5))
def test_polars_and_python_guard_alike(texts):
    frame = pl.DataFrame({"=text": pl.Series(texts, dtype=pl.String), "number": range(len(texts))})
    assert guard_texts(frame)["'=text"].to_list() == [text if text is None else guard(text) for text in texts]


@pytest.mark.parametrize(
    "text",
    [
        *("-2", "+3.5", "-0,25", "2", "-1.234,50", "-1,234,567.5", "-12 345,00", "-5%", "-1.234,50 €", "-", "--"),
        *("a-b", "", "+32 (0)2 123.45.67", "'s-Hertogenbosch", "'t Hof"),
    ],
)
def test_a_number_a_dash_or_a_name_is_no_formula(text):
    assert guard(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("=1+1", "-2+3", "- ", "-1.234,50+A1", "-%", "+cmd|x", "@SUM(A1)", "\t=1", "\r=1", "-2\n=1", "--1", "'=1"),
        *("+32 A1", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)"),
    ],
)
def test_a_formula_is_made_harmless(text):
    assert guard(text) == "'" + text
