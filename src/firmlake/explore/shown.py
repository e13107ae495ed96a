"""How the application shows frames: charts to choose from, figures in large letters, tables. Texts stay texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Final, cast

import altair as alt
import marimo as mo
import polars as pl

FILTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "country": ("BE", "NL", "FR"),
    "size": ("micro", "small", "medium", "large", "not stated"),
    "zone": ("safe", "grey", "distress", "no score"),
    "tens": (*(str(tens) for tens in range(-100, 110, 10)), "none"),
}
"""The columns to choose by, with their values in order; `tens` is the health indicator in tens."""
_ZONES = {"safe": "#3f8f9b", "grey": "#d9a441", "distress": "#cf6a3c", "no score": "#8a9499"}
"""Colours that can be told apart on white and on black."""
_POINTS_MAX = 1_500
_FRACTIONS = ("revenue_growth", "net_margin", "equity_fraction")
_AMOUNTS = ("revenue", "total_assets", "employees", "members", "held", "total_assets_amount", "debt_amount")


def heading(text: str, below: str = "") -> mo.Html:
    """Write a heading, with a line below it."""
    line = f'<p style="margin:0;opacity:.7;font-size:.9rem">{escape(below)}</p>' if below else ""
    title = f'<h2 style="margin:.4em 0 .1em;font-size:1.25rem;font-weight:600">{escape(text)}</h2>'
    return mo.Html(f"<div>{title}{line}</div>")


def note(text: str) -> mo.Html:
    """Write a line of small text."""
    return mo.Html(f'<p style="opacity:.75;font-size:.9rem">{escape(text)}</p>')


def beside(parts: Sequence[mo.Html]) -> mo.Html:
    """Put parts beside each other, or below each other where the page is narrow."""
    cells = "".join(f'<div style="min-width:0">{part.text}</div>' for part in parts)
    return mo.Html(
        f'<div style="display:grid;gap:.5rem;grid-template-columns:repeat(auto-fit,minmax(240px,1fr))">{cells}</div>'
    )


def bar(frame: pl.DataFrame, column: str) -> mo.ui.altair_chart:
    """Draw how many companies have each value of a column; a click on a bar chooses it."""
    counts = frame.group_by(column).agg(companies=pl.len())
    chart = (
        alt.Chart(counts)
        .mark_bar(color=_ZONES["safe"], cursor="pointer")
        .encode(
            x=alt.X(column, type="nominal", sort=list(FILTERS[column]), title=None, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("companies", type="quantitative", title=None, axis=alt.Axis(tickCount=3, format="~s")),
            tooltip=[column, alt.Tooltip("companies", format=",")],
        )
        .properties(width="container", height=120, title="health" if column == "tens" else column)
    )
    return mo.ui.altair_chart(chart, chart_selection="point", legend_selection=False)


def chosen(chart: mo.ui.altair_chart, column: str) -> list[str]:
    """Return the values that are chosen in a chart; none chooses all."""
    if not any(chart.selections.values()):
        return []
    found = cast("pl.DataFrame", chart.value)
    return [str(value) for value in found[column].to_list()]


def filtered(frame: pl.DataFrame, choice: Mapping[str, list[str]]) -> pl.DataFrame:
    """Return the rows that have a chosen value in each column."""
    keep = [pl.col(column).is_in(values) for column, values in choice.items() if values]
    return frame.filter(keep) if keep else frame


def figures(frame: pl.DataFrame, whole: int) -> mo.Html:
    """Show the figures of a portfolio in large letters."""
    scored = frame.filter(pl.col("zone") != "no score")
    distress = len(scored.filter(pl.col("zone") == "distress")) / len(scored) if len(scored) else None
    growth = frame["revenue_growth"].median()
    stats = (
        ("Companies", f"{len(frame):,}", f"of {whole:,} with accounts"),
        ("Revenue, annual", _short(frame["revenue"].sum()), "as far as stated"),
        ("Total assets", _short(frame["total_assets"].sum()), "as far as stated"),
        ("Employees", _short(frame["employees"].sum()), "as far as stated"),
        ("Median growth", _percent(growth), "of revenue"),
        ("In distress", _percent(distress), f"of {len(scored):,} with a score"),
    )
    return mo.hstack(
        [mo.stat(value=value, label=label, caption=caption, bordered=True) for label, value, caption in stats],
        wrap=True, justify="start", gap=0.5,
    )  # fmt: skip


def scatter(frame: pl.DataFrame) -> mo.ui.altair_chart:
    """Draw growth by margin of the largest companies; a rectangle drawn with the mouse chooses companies."""
    points = frame.filter(
        pl.col("revenue_growth").is_between(-1, 2) & pl.col("net_margin").is_between(-1, 1) & pl.col("doubt").is_null()
    ).head(_POINTS_MAX)
    chart = (
        alt.Chart(
            points.select("country", "company_number", "name", "revenue_growth", "net_margin", "zone", "total_assets")
        )
        .mark_circle(size=36, opacity=0.75)
        .encode(
            x=alt.X("revenue_growth:Q", title="growth of revenue", axis=alt.Axis(format="%", tickCount=6)),
            y=alt.Y("net_margin:Q", title="net margin", axis=alt.Axis(format="%")),
            color=alt.Color("zone:N", title=None)
            .scale(domain=list(_ZONES), range=list(_ZONES.values()))
            .legend(orient="top"),
            tooltip=[
                "name:N",
                "company_number:N",
                alt.Tooltip("revenue_growth:Q", format=".1%"),
                alt.Tooltip("net_margin:Q", format=".1%"),
            ],
        )
        .properties(width="container", height=280)
    )
    return mo.ui.altair_chart(chart, chart_selection="interval", legend_selection=False)


def within(frame: pl.DataFrame, chart: mo.ui.altair_chart) -> pl.DataFrame:
    """Return the rows of the companies that are chosen in a scatter; without a choice, all."""
    if not any(chart.selections.values()):
        return frame
    return frame.join(
        cast("pl.DataFrame", chart.value).select("country", "company_number"),
        on=["country", "company_number"],
        how="semi",
    )


def table(
    frame: pl.DataFrame,
    on_change: Callable[[Any], None] | None = None,
    *,
    hidden: tuple[str, ...] = (),
    label: str = "",
) -> mo.ui.table:
    """Show a frame as a table, in pages; a row can be chosen if `on_change` is given."""
    formats: dict[str, str | Callable[..., Any]] = {name: _percent for name in _FRACTIONS if name in frame.columns}
    formats |= {name: _whole for name in _AMOUNTS if name in frame.columns}
    return mo.ui.table(
        frame,
        selection="single" if on_change else None,
        on_change=on_change,
        page_size=10,
        show_column_summaries=False,
        show_data_types=False,
        format_mapping=formats,
        hidden_columns=list(hidden),
        label=label,
        max_columns=None,
    )


def _percent(value: Any) -> str:
    return "-" if value is None else f"{value:,.1%}"


def _whole(value: Any) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _short(value: Any) -> str:
    for size, unit in ((1e9, " bn"), (1e6, " M"), (1e3, " k")):
        if value is not None and abs(value) >= size:
            return f"{value / size:,.1f}{unit}"
    return _whole(value)
