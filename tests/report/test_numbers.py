"""Numbers as people read them, and drawings that pass on shapes and texts and nothing else."""

from __future__ import annotations

import html
import re
from datetime import date
from decimal import Decimal

import polars as pl
import pytest

from firmlake.report.render import _kind, _thinned, clean_svg, draw, heading, shown_change, shown_number


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("revenue_amount", Decimal("1234567.89"), "1.2 M"), ("revenue_amount", 999_499, "999 k"),
        ("revenue_amount", 999_960, "1.0 M"),
        ("revenue_amount", -85_100, "-85.1 k"), ("revenue_amount", 9_999, "9,999"),
        ("revenue_amount", 5.3e12, "5,300 bn"),
        ("companies", 1234567, "1,234,567"), ("equity_fraction", Decimal("0.4039"), "40.4%"),
        ("net_margin", -0.1, "-10.0%"),
        ("current_ratio", 1.2345, "1.23"), ("debt_to_equity", 2, "2.00"), ("zmijewski", -3.1415, "-3.14"),
    ],
)  # fmt: skip
def test_the_name_of_a_column_decides_how_a_number_is_shown(name, value, shown):
    assert shown_number(name, value) == shown


@pytest.mark.parametrize(
    ("name", "before", "now", "shown"),
    [
        ("companies", 10, 12, "+2"), ("distress", 12, 10, "\N{MINUS SIGN}2"), ("distress", 10, 10, ""),
        ("growth", None, 1, ""),
        ("equity_fraction", 0.40, 0.42, "+2.0 points"), ("equity_fraction", 0.40001, 0.40002, ""),
        ("revenue_amount", Decimal("1000000"), Decimal("3500000"), "+2.5 M"),
    ],
)  # fmt: skip
def test_a_change_has_a_sign_and_shares_change_by_points(name, before, now, shown):
    assert shown_change(name, before, now) == shown


def test_a_heading_claims_no_currency_which_the_service_does_not_state():
    assert heading("total_assets_amount") == "total assets"
    assert heading("equity_fraction") == "equity ratio", "the usual name goes before that of the column"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, Decimal("2.5")], "number"), (["1 of 2", None, "12 of 1,300"], "number"),
        ([date(2026, 1, 5), None], "when"), (["20260105T120000Z-0001"], "when"), (["two words", "one"], ""),
        (["1 of 2", 3], ""), ([True, None], ""), (["short", "some words " * 6], "long"),
    ],
)  # fmt: skip
def test_the_values_of_a_column_decide_how_it_is_set(values, kind):
    assert _kind(values) == kind


@pytest.mark.parametrize(("count", "step"), [(9, 1), (20, 2)])
def test_labels_of_an_axis_are_all_or_every_second_and_the_last(count, step):
    names = [f"{number:02}" for number in range(count)]
    assert _thinned(names) == names[::-1][::step][::-1]


def test_a_drawing_keeps_shapes_and_texts_and_nothing_that_acts():
    drawing = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" onload="a()"><script>b()</script>
        <style>@import url(c)</style><image href="http://d/"/><foreignObject><b>e</b></foreignObject>
        <a href="javascript:f()"><text>g</text></a><path d="M0,0h0v0h0Z"/>
        <path d="M1,1h1" fill="red" onclick="h()" style="background:url(i)" aria-label="&lt;script&gt;"/>
        <text x="1" class="j">&lt;b&gt;&#x202e;</text></svg>"""
    assert clean_svg(drawing, 'k"') == (
        '<svg class="chart" role="img" aria-label="k&quot;" viewBox="0 0 9 9" width="9" height="9">'
        '<path d="M1,1h1" fill="red"><title>&lt;script&gt;</title></path><text x="1">&lt;b&gt;\u202e</text></svg>'
    )


def test_names_in_a_chart_stay_texts_of_the_drawing():
    names = ["</title><script>alert(1)</script>", "\u202ecompany", "a & b", "\x00\x1b", "{{datum}}"]
    frame = pl.DataFrame({"assets": [1, 2, 3, 4, 5], "health": [1, 2, 3, 4, 5], "part": "safe", "about": names})
    drawing = draw("size_by_health", frame, "a chart")
    shown = re.findall("<title>(.*?)</title>", drawing)
    assert shown == [html.escape(name.replace("\x00\x1b", "\ufffd\ufffd")) for name in names]
