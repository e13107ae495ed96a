"""Numbers in texts: read if there is one way to read them."""

from __future__ import annotations

import json
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.tables.number_texts import number_in, numbers_in
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


TEXTS = st.text("0159.,- '\u202f", max_size=12) | st.builds(
    "{}{:,}{}".format,
    st.sampled_from(["", "-", "0"]),
    st.integers(0, 10**7),
    st.sampled_from(["", ".5", ".250", ",75"]),
)


@pytest.mark.parametrize("kind", ["money", "ratio", "fraction"])
@pytest.mark.parametrize("marks", [".,", ".", ","])
@examples(200)
@given(st.lists(TEXTS, min_size=1))
def test_a_column_is_read_as_one_by_one(kind, marks, texts):
    texts += [text.translate(str.maketrans(",.", ".,")) for text in texts]
    cells = [json.dumps(text, ensure_ascii=False) for text in texts] + ["null", "5", "[]", '"', '"5']
    one_by_one = [found and found.decode() for found in (number_in(cell.encode(), kind, marks) for cell in cells)]
    assert numbers_in(pl.Series(cells), kind, marks).to_list() == one_by_one
