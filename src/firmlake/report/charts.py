"""Charts of sections: a data frame in, an Altair chart out, and from that an SVG drawing without any request.

Colours are CSS variables of the page, so that one drawing serves light and dark. Altair takes half a second to import,
so each function imports it when it is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import polars as pl

# Altair does not type the results of its methods.
# mypy: disable-error-code="no-any-return"


if TYPE_CHECKING:
    import altair as alt


WIDTH, HEIGHT = 340, 230
"""Size of a drawing in pixels, axes included: the width of a phone, so that texts are not shrunk there."""

PLUS, MINUS, SOFT, INK = "var(--plus)", "var(--minus)", "var(--soft)", "var(--ink)"
AMOUNT = "replace(replace(replace(format(datum.value, '~s'), 'T', ' tn'), 'G', ' bn'), 'M', ' M')"
"""Labels of an axis of amounts: 10k, 10 M, 10 bn."""
ZONES = {"safe": PLUS, "grey": "var(--middle)", "distress": MINUS, "no score": "var(--faint)"}
"""The colour of each of Altman's zones."""


def bars(frame: pl.DataFrame, *, colours: Mapping[str, str] | None = None, shares: bool = False) -> alt.Chart:
    """Draw upright bars in the order of the rows.

    Args:
        frame: One row per bar, or per part of a bar if `colours` is given. The first column has what the bars stand
            for, the last their heights.
        colours: The parts of a bar, bottom last, with their colours; the column `part` names the part of a row.
        shares: Draw each bar at full height, its parts as shares of it.
    """
    import altair as alt

    x, y = frame.columns[0], frame.columns[-1]
    names = frame[x].unique(maintain_order=True).to_list()
    across = alt.X(x, type="nominal", sort=names, title=None, axis=alt.Axis(values=_thinned(names)))
    up = alt.Y(y, type="quantitative", stack="normalize" if shares else "zero", title=None)
    up = up.axis(format="%" if shares else ",.0f", **_few_ticks(frame, x, y, shares)).scale(nice=4)
    width: Any = {"band": 0.8} if len(names) > _FEW else 44
    if not colours:
        return _sized(alt.Chart(frame).mark_bar(width=width).encode(x=across, y=up, color=alt.value(PLUS)))
    parts = list(colours)
    colour = alt.Color("part", type="nominal", title=None, sort=parts).scale(domain=parts, range=list(colours.values()))
    ranks = pl.col("part").replace_strict(parts, range(len(parts)), return_dtype=pl.Int64)
    mark = alt.Chart(frame.with_columns(ranks.alias("rank"))).mark_bar(width=width)
    return _sized(mark.encode(x=across, y=up, color=colour, order=alt.Order("rank", type="quantitative")))


def quartiles(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw a median as a line within the band of the middle half: p25, p50 and p75 over the first column."""
    import altair as alt

    x = frame.columns[0]
    across = alt.X(x, type="nominal", sort=None, title=None, axis=alt.Axis(values=_thinned(frame[x].to_list())))
    axis = alt.Axis(format="%", tickCount=4)
    base = alt.Chart(frame).encode(x=across)
    band = base.mark_area(opacity=0.22, color=PLUS).encode(
        y=alt.Y("p25", type="quantitative", title=None, axis=axis), y2=alt.Y2("p75")
    )
    line = base.mark_line(color=PLUS, point={"color": PLUS, "size": 22}).encode(y=alt.Y("p50", type="quantitative"))
    return _sized(alt.layer(band, line))


def lines(frame: pl.DataFrame) -> alt.Chart:
    """Draw lines with points over the texts of the first column; a missing value breaks the line.

    Args:
        frame: One row per point: a text, `series` (the name of its line), and `value` (an amount) or `share`.
    """
    import altair as alt

    x, y = frame.columns[0], "share" if "share" in frame.columns else "value"
    axis = alt.Axis(format=".0%", tickCount=4) if y == "share" else alt.Axis(labelExpr=AMOUNT, tickCount=4)
    names, series = (frame[column].unique(maintain_order=True).to_list() for column in (x, "series"))
    colours = [PLUS, "var(--middle)", MINUS]
    colour = alt.Color("series", type="nominal", title=None).scale(domain=series, range=colours[: len(series)])
    chart = alt.Chart(frame).mark_line(point={"size": 26, "filled": True}, strokeWidth=2)
    return _sized(
        chart.encode(
            x=alt.X(x, type="nominal", sort=names, title=None, axis=alt.Axis(values=_thinned(names))),
            y=alt.Y(y, type="quantitative", title=None, axis=axis).scale(nice=4),
            color=colour if len(series) > 1 else alt.value(PLUS),
        )
    )


def growth_by_margin(frame: pl.DataFrame) -> alt.Chart:
    """Draw a point per company: columns growth, margin, part (its zone) and about (its tooltip)."""
    import altair as alt

    x = alt.X("growth", type="quantitative", title="growth of revenue").scale(domain=[-1.1, 1.65], nice=False)
    x = x.axis(format="%", values=[-1, -0.5, 0, 0.5, 1, 1.5])
    return _scatter(frame, x, alt.Y("margin", type="quantitative", title="net margin").axis(format="%", tickCount=5))


def size_by_health(frame: pl.DataFrame) -> alt.Chart:
    """Draw a point per company: columns assets, health, part (its zone) and about (its tooltip)."""
    import altair as alt

    x = alt.X("assets", type="quantitative", title="total assets").scale(type="log")
    x = x.axis(labelExpr=AMOUNT, tickCount=5)
    return _scatter(frame, x, alt.Y("health", type="quantitative", title="health indicator").axis(tickCount=5))


def matrix(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw counts of companies by Altman's zones as a matrix of shaded fields.

    Args:
        frame: One row per field: `row` (zone a year before), `column` (today), `count`, and `shade` from 0 to 1.
    """
    import altair as alt

    rows = [name for name in [*ZONES, "no accounts"] if name in frame["row"].to_list()]
    base = alt.Chart(frame).encode(
        x=alt.X("column", type="nominal", sort=list(ZONES), title="today").axis(
            orient="top", labelAngle=0, ticks=False
        ),
        y=alt.Y("row", type="nominal", sort=rows, title="a year before").axis(ticks=False),
    )
    shade = alt.Opacity("shade", type="quantitative", legend=None).scale(domain=[0, 1], range=[0.06, 0.75])
    fields = base.mark_rect(color=PLUS, cornerRadius=3, stroke="var(--card)", strokeWidth=2).encode(opacity=shade)
    return _sized(fields + base.mark_text(color=INK, fontSize=12).encode(text=alt.Text("count:Q", format=",")))


def ranges(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw where values stand among others: one line per `name`, from 0 to 1, with a point at `percentile`."""
    import altair as alt

    base = alt.Chart(frame.with_columns(start=0.0, end=1.0, low=0.25, high=0.75))
    y = alt.Y("name", type="nominal", sort=None, title=None).axis(
        labelLimit=170, labelPadding=10, ticks=False, domain=False
    )
    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format="%", grid=True)
    x = alt.X("start", type="quantitative", title=None, scale=alt.Scale(domain=[0, 1]), axis=axis)
    whole = base.mark_bar(height=3, color="var(--line)").encode(x=x, x2="end", y=y)
    half = base.mark_bar(height=7, color="var(--faint)").encode(x=alt.X("low", type="quantitative"), x2="high", y=y)
    point = base.mark_circle(size=70, color=PLUS, opacity=1).encode(x=alt.X("percentile", type="quantitative"), y=y)
    return _sized(alt.layer(whole, half, point), height=19 * frame.height + 40)


def to_svg(chart: alt.TopLevelMixin, label: str) -> str:
    """Draw a chart as an SVG element for an HTML page: it loads nothing, and texts in it stay texts.

    Args:
        chart: A chart of this module, or any chart of Altair.
        label: What the chart shows, for readers that see no pictures.
    """
    import vl_convert

    return clean_svg(vl_convert.vegalite_to_svg(chart.to_dict(), config=CONFIG | {"background": None}), label)


CHARTS: dict[str, Callable[[pl.DataFrame], Any]] = {
    "bars": lambda frame: bars(frame, colours={"credits": PLUS, "free refreshes": "var(--faint)"}),
    "classes": lambda frame: bars(frame),
    "growth_by_margin": growth_by_margin,
    "lines": lines,
    "matrix": matrix,
    "quartiles": quartiles,
    "ranges": ranges,
    "size_by_health": size_by_health,
    "zones": lambda frame: bars(frame, colours=_zones_in(frame), shares=True),
}
"""The charts that a section can name; their functions say which columns they need."""

_FEW = 4
"""Up to so many bars are not wider than they need be."""
_MANY = 300
"""From so many points on they are drawn smaller."""
_AXIS, _LETTER, _GAP = 300, 6.5, 8
"""Width of a horizontal axis, of a letter, and between two labels, in pixels."""
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif'

CONFIG: dict[str, Any] = {
    "aria": False,
    "font": _FONT,
    "padding": {"left": 10, "right": 14, "top": 2, "bottom": 2},  # fonts of browsers are wider than those measured
    "view": {"stroke": None},
    "axis": {
        "labelColor": SOFT, "titleColor": SOFT, "titleFontWeight": "normal", "labelFontSize": 11, "titleFontSize": 11,
        "domainColor": "var(--line)", "tickColor": "var(--line)", "gridColor": "var(--line)", "labelLimit": 110,
    },
    "axisX": {"grid": False, "labelAngle": 0, "labelFlush": False, "labelPadding": 5},
    "axisXQuantitative": {"labelBound": 25, "labelSeparation": 8},
    "axisY": {"domain": False, "ticks": False},
    "legend": {
        "orient": "top", "labelColor": SOFT, "labelFontSize": 11, "symbolType": "circle", "symbolSize": 60,
        "symbolOpacity": 1, "title": None, "offset": 4, "columnPadding": 12,
    },
}  # fmt: skip


def _zones_in(frame: pl.DataFrame) -> dict[str, str]:
    zones = frame["part"].unique().to_list()
    return {zone: colour for zone, colour in ZONES.items() if zone in zones}


def _scatter(frame: pl.DataFrame, x: alt.X, y: alt.Y) -> alt.Chart:
    import altair as alt

    colours = _zones_in(frame)
    colour = alt.Color("part", type="nominal", title=None).scale(domain=list(colours), range=list(colours.values()))
    points = alt.Chart(frame).mark_circle(size=16 if frame.height > _MANY else 40, opacity=0.6, aria=True)
    return _sized(points.encode(x=x, y=y, color=colour, description=alt.Description("about", type="nominal")))


def _few_ticks(frame: pl.DataFrame, x: str, y: str, shares: bool) -> dict[str, Any]:
    """Choose about four ticks, and whole numbers where there are few."""
    most = frame.group_by(x).agg(pl.col(y).sum())[y].max() if not shares else None
    return {"values": list(range(most + 1))} if isinstance(most, int) and most < _FEW else {"tickCount": 4}


def _sized(chart: Any, height: int = HEIGHT) -> Any:
    fit: Any = {"type": "fit", "contains": "padding"}
    return chart.properties(width=WIDTH, height=height, autosize=fit)


def _thinned(names: Sequence[str]) -> list[str]:
    """Choose the labels of an axis, so that they do not overlap: all, or every second or third, and the last."""
    room = max(int(_AXIS / (_LETTER * max(map(len, names), default=1) + _GAP)), 1)
    step = max(-(-len(names) // room), 1)
    return list(names)[::-1][::step][::-1]


def clean_svg(drawing: str, label: str) -> str:
    """Write a drawing again with what a picture needs and nothing else.

    Args:
        drawing: SVG from a library for charts. The description of a symbol becomes its tooltip.
        label: What the drawing shows, for readers that see no pictures.
    """
    root = ElementTree.fromstring(_UNREADABLE.sub("\N{REPLACEMENT CHARACTER}", drawing))  # noqa: S314 - no document of others
    _, _, width, height = root.get("viewBox", "0 0 0 0").split()
    shapes = "".join(part for child in root for part in _written(child))
    return (
        f'<svg class="chart" role="img" aria-label="{escape(label)}" viewBox="0 0 {escape(width)} '
        f'{escape(height)}" width="{escape(width)}" height="{escape(height)}">{shapes}</svg>'
    )


_UNREADABLE = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAGS = {"g", "path", "line", "rect", "text", "tspan", "circle"}
_ATTRIBUTES = (
    "d", "transform", "x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "r", "cx", "cy", "width", "height", "rx", "fill",
    "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "text-anchor",
    "font-size", "font-weight",
)  # fmt: skip
_DEFAULTS = {"transform": "translate(0,0)", "opacity": "1", "stroke-width": "0", "font-weight": "normal"}
_NOTHING = {"", "M0,0h0v0h0Z"}


def _written(element: ElementTree.Element) -> Iterator[str]:
    tag = element.tag.rpartition("}")[2]
    shape = element.get("d")
    if tag not in _TAGS or element.get("display") == "none" or (tag == "path" and (shape or "") in _NOTHING):
        return
    inner = "".join(part for child in element for part in _written(child))
    if tag in ("text", "tspan") and element.text:
        inner = escape(element.text) + inner
    if not inner and tag in ("g", "text", "tspan"):
        return
    # A transparent area, which the library draws to catch the pointer.
    if element.get("class") == "background" and not (element.get("fill") or element.get("stroke")):
        return
    about = element.get("aria-label")
    if about and element.get("aria-roledescription") != "group mark container":
        inner += f"<title>{escape(about)}</title>"
    kept = ((name, element.get(name)) for name in _ATTRIBUTES)
    attributes = "".join(
        f' {name}="{escape(value)}"' for name, value in kept if value is not None and value != _DEFAULTS.get(name)
    )
    if tag == "g" and not attributes:
        yield inner
    else:
        yield f"<{tag}{attributes}>{inner}</{tag}>" if inner else f"<{tag}{attributes}/>"
