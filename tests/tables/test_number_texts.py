"""Numbers in texts: read if there is one way to read them."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.tables.cells import number_in
from support import examples


def meant(text, kind="money", marks=".,"):
    found = number_in(json.dumps(text).encode(), kind, marks)
    return found and found.decode()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8109058,52", "8109058.52"),
        ("-0,5", "-0.5"),
        ("591,240.50", "591240.50"),
        ("591.240,50", "591240.50"),
        ("1.591.240", "1591240"),
        ("1 234,5", "1234.5"),
        ("1\u202f234\u202f567", "1234567"),
        ("1'234.50", "1234.50"),
        ("1000.500", "1000.500"),
        ("1.234E+6", "1.234E+6"),
    ],
)
def test_a_text_with_one_reading_is_that_number(text, number):
    assert meant(text) == number


@pytest.mark.parametrize("text", ["591.240", "591,240", "1.000", "1.234.56", "1,23,456", "1.234 567", "01,5", "1,5E3"])
def test_a_text_with_two_readings_or_none_is_no_number(text):
    assert meant(text) is None


@pytest.mark.parametrize("kind", ["ratio", "fraction", "score"])
def test_where_thousands_are_hardly_ever_reached_a_point_stands_before_decimals(kind):
    assert (meant("1.234", kind), meant("1,234", kind)) == ("1.234", "1.234" if kind == "fraction" else None)


@pytest.mark.parametrize(("marks", "numbers"), [(".", ["591.240", "591240"]), (",", ["591240", "591.240"])])
def test_a_known_mark_decides(marks, numbers):
    assert [meant(text, marks=marks) for text in ("591.240", "591,240")] == numbers
    assert meant("5,5" if marks == "." else "5.5", marks=marks) is None


@examples(100)
@given(st.decimals(-(10**15), 10**15, places=2), st.sampled_from(["", " ", ".", "'", "\u00a0"]))
def test_amounts_as_people_write_them_are_exact_whatever_stands_between_thousands(amount, apart):
    text = f"{amount:,f}".replace(".", "@").replace(",", apart).replace("@", ",")
    assert Decimal(meant(text)) == amount
