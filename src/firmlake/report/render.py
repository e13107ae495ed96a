"""Write pages as HTML without network or script: sections, tables, tiles, charts, and numbers as people read them.

A chart is a template of a Vega-Lite specification in `charts/`, without its data. Its first lines say which columns it
needs, and it is filled with what follows from the rows: `x` and `y` (the names of the first and last column), `names`
(the different texts of the first), `labels` (those of `names` for which there is room), `parts` and `series` (the
different texts of these columns) and `count` (of the rows).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import duckdb
import jinja2
import msgspec
import polars as pl

from firmlake import __version__
from firmlake.core.sql import fetch_dicts
from firmlake.report.sections import TOO_LARGE, Section, SectionTables, read_frame

MINUS = "\N{MINUS SIGN}"

_SHARE = re.compile(r"(fraction|growth|margin|return_on_\w+|share|percentile)$")
_AMOUNT = re.compile(r"_amount$")
_SCORE = re.compile(r"^score$")
_RATIO = re.compile(r"(^z|^zmijewski|^altman_private|ratio|_to_\w+)$")
_HEADINGS = {
    "altman_private": "Altman's Z', private",
    "bfr_amount": "working capital required",
    "capital_explained_fraction": "capital with known owners",
    "direct_fraction": "direct stake",
    "effective_fraction": "effective stake",
    "equity_fraction": "equity ratio",
    "f_score": "Piotroski's F",
    "fr_amount": "net working capital",
    "further_of_the_name": "others of this name",
    "is_ring": "ring of owners",
    "loss_making_share": "made a loss",
    "stake_fraction": "stake",
    "zmijewski": "Zmijewski",
}
_UNITS = ((1e9, "bn"), (1e6, "M"), (1e3, "k"))
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_DAY = re.compile(r"\b(\d{4}-\d\d-\d\d)\b")
_ID = re.compile(r"[^\s]{1,24}")
_RANK = re.compile(r"[\d,]+ of [\d,]+")
_LONG_TEXT = 60
_ROWS_MAX = 200
_HIDDEN = ("depth", "number", "total", "shown_as", "remark", "head_id")
_IF_ANY = ("closed", "days_between", "doubtful_because", "reason")
"""Columns that are left out if no row has a value."""
_BOX_WIDTH, _BOX_HEIGHT, _BOX_STEP, _BOX_SPACE = 200, 42, 264, 10
"""Width and height of a box of a group, from one column to the next, and space between rows, in pixels."""

_CHARTS_FOLDER = Path(__file__).with_name("charts")
_LAYOUT = {"width": 340, "height": 230, "autosize": {"type": "fit", "contains": "padding"}}
"""Size of a drawing in pixels, axes included: the width of a phone, so that texts are not shrunk there."""
_AXIS, _LETTER, _GAP = 300, 6.5, 8
"""Width of a horizontal axis, of a letter, and between two labels, in pixels."""
_to_json = msgspec.json.Encoder(decimal_format="number").encode

CHARTS = frozenset(path.stem for path in _CHARTS_FOLDER.glob("*.json")) - {"config", "parts", "scatter", "upright"}
"""The charts that a section can name."""
_UNREADABLE = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAGS = {"g", "path", "line", "rect", "text", "tspan", "circle"}
_ATTRIBUTES = (
    "d", "transform", "x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "r", "cx", "cy", "width", "height", "rx", "fill",
    "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "text-anchor",
    "font-size", "font-weight",
)  # fmt: skip
_DEFAULTS = {"transform": "translate(0,0)", "opacity": "1", "stroke-width": "0", "font-weight": "normal"}
_NOTHING = {"", "M0,0h0v0h0Z"}


class Tile(NamedTuple):
    """A figure in large letters, as people read it, a note under it, and the colour of the note: good, bad or empty."""

    name: str
    shown: str
    note: str = ""
    tone: str = ""


class Column(NamedTuple):
    """A column of a table; `kind` is its class: number, when, long or empty."""

    name: str
    heading: str
    kind: str


class Part(NamedTuple):
    """What a page shows of a section.

    Attributes:
        kind: Class of the section: drawn, empty or none.
        about: The explanation.
        remark: A further text, not ours.
        columns: Those of its rows that are shown.
        rows: The rows of its table; `firmlake.report.sections` lists columns that say more about a row.
    """

    chapter: str
    title: str
    about: str
    kind: str = ""
    remark: str = ""
    svg: str = ""
    tiles: Sequence[Tile] = ()
    groups: Sequence[dict[str, Any]] = ()
    columns: Sequence[Column] = ()
    rows: Sequence[dict[str, Any]] = ()


def render_page(template: str, title: str, parts: Sequence[Part], **values: Any) -> str:
    """Write a page by a file of `templates/`, as HTML that loads nothing.

    Texts are escaped; `values` go into its header.
    """
    return _templates().get_template(template).render(title=title, parts=parts, version=__version__, **values)


def draw_section(connection: duckdb.DuckDBPyConnection, tables: SectionTables, section: Section) -> Part:
    """Ask the question of a section, and draw the answer.

    A section that takes too much memory says so. Raises duckdb.Error if DuckDB cannot compute a figure.
    """
    try:
        tables.prepare(section.sql)
        frame = read_frame(connection.sql(section.sql)) if section.chart in CHARTS else None
        rows = fetch_dicts(connection.execute(section.sql)) if frame is None else frame.to_dicts()
    except duckdb.OutOfMemoryException:
        return Part(section.chapter, section.title, TOO_LARGE, "empty")
    if not rows:
        return Part(section.chapter, section.title, "None.", "drawn" if section.chart in CHARTS else "empty")
    about, remark = _explain(section.about, len(rows), rows[0].get("total") or 0), rows[0].get("remark") or ""
    part = Part(section.chapter, section.title, about, remark=remark)
    if frame is not None:
        return part._replace(kind="drawn", svg=draw(section.chart, frame, section.title))
    if section.chart == "tiles":
        return part._replace(
            tiles=[
                Tile(name, "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value))
                for name, value in rows[0].items()
            ]
        )
    if section.chart == "groups":
        return part._replace(groups=draw_groups(rows))
    return part._replace(columns=_columns(rows), rows=rows)


def draw_alerts(title: str, about: str, rows: Sequence[dict[str, Any]], total: int = 0) -> Part:
    """Draw the first of some alerts, which are not asked in SQL; `total` is how many there are, 0 for no more."""
    if not rows:
        return Part("Alerts", title, "None.", "empty")
    some = rows[:_ROWS_MAX]
    about = _explain(about, len(some), max(total, len(rows)))
    return Part("Alerts", title, about, columns=_columns(some), rows=some)


def draw_groups(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Place the members of groups, each on its shortest path from the head, from left to right.

    The rows are the members, grouped by head, each after its parent: head_no, no, parent_no (None for the head), depth,
    name, number, stake (the fraction that the parent holds), is_held (whether we hold its accounts), is_asked (whether
    it is the company that the page is about), is_ring, member_count (of the group, including members that are not
    drawn).
    """
    return [_draw_group(list(members)) for _, members in groupby(rows, lambda row: row["head_no"])]


def draw(chart: str, frame: pl.DataFrame, label: str) -> str:
    """Draw one of `CHARTS` as an SVG element for an HTML page: it loads nothing, and texts in it stay texts.

    The frame has the columns that the chart needs; the label is for readers that see no pictures.
    """
    import vl_convert

    different = {
        plural: frame[name].unique(maintain_order=True).to_list() if name in frame.columns else []
        for plural, name in (("names", frame.columns[0]), ("parts", "part"), ("series", "series"))
    }
    x, y, labels = frame.columns[0], frame.columns[-1], _thinned(list(map(str, different["names"])))
    template = _chart_templates().get_template(f"{chart}.json")
    filled = template.render(x=x, y=y, labels=labels, count=frame.height, **different)
    specification = {**_LAYOUT, **msgspec.json.decode(filled), "data": {"values": frame.to_dicts()}}
    drawing = vl_convert.vegalite_to_svg(_to_json(specification).decode(), config=_config())
    return clean_svg(drawing, label)


def clean_svg(drawing: str, label: str) -> str:
    """Write a drawing of a library for charts again, with what a picture needs and nothing else.

    The description of a symbol becomes its tooltip; the label is for readers that see no pictures.
    """
    root = ElementTree.fromstring(_UNREADABLE.sub("\N{REPLACEMENT CHARACTER}", drawing))  # noqa: S314 - no document of others
    _, _, width, height = root.get("viewBox", "0 0 0 0").split()
    shapes = "".join(part for child in root for part in _written(child))
    return (
        f'<svg class="chart" role="img" aria-label="{escape(label)}" viewBox="0 0 {escape(width)} '
        f'{escape(height)}" width="{escape(width)}" height="{escape(height)}">{shapes}</svg>'
    )


def shown_number(name: str, value: Any) -> str:
    """Write a number as the name of its column asks.

    An ending such as fraction, growth or margin makes it a percentage, `_amount` an amount (1.2 M) without a currency,
    which the service does not state, score a number with three decimals and ratio one with two; anything else is a
    count with thousand separators.
    """
    number = float(value)
    if _SHARE.search(name):
        return f"{number:,.1%}"
    if _AMOUNT.search(name):
        return _shown_amount(number)
    if _SCORE.search(name):
        return f"{number:.3f}"
    return f"{number:,.2f}" if _RATIO.search(name) else f"{value:,.0f}"


def shown_change(name: str, before: Any, now: Any) -> str:
    """Write by how much a figure changed: with its sign, percentages in points; empty if it is the same or unknown."""
    if before is None or now is None or before == now:
        return ""
    change = float(now) - float(before)
    text = f"{abs(change) * 100:,.1f} points" if _SHARE.search(name) else shown_number(name, abs(now - before))
    return f"{'+' if change > 0 else MINUS}{text}" if re.search("[1-9]", text) else ""


def heading(name: str) -> str:
    """Write the heading of a column."""
    if name in _HEADINGS:
        return _HEADINGS[name]
    return _AMOUNT.sub("", name).replace("_", " ").replace("ebitda", "EBITDA")


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        finalize=_readable,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    made.globals["shown_number"] = shown_number
    made.tests["figure"] = _is_number
    made.filters["split_days"] = lambda value: _DAY.split(str(value))
    return made


def _readable(value: Any) -> Any:
    """Replace control characters in a text that is not HTML yet."""
    return _CONTROL.sub(chr(0xFFFD), value) if type(value) is str else value


def _explain(about: str, count: int, total: int) -> str:
    """Add to an explanation of how many rows these are the first."""
    return " ".join(filter(None, [about, f"Shown: {count:,} of {total:,}." if total > count else ""]))


def _columns(rows: Sequence[dict[str, Any]]) -> list[Column]:
    """Choose the columns to show, with their headings."""
    return [
        Column(name, heading(name), _kind([row[name] for row in rows]))
        for name in rows[0]
        if name not in _HIDDEN and not (name in _IF_ANY and all(row[name] is None for row in rows))
    ]


def _kind(values: Sequence[Any]) -> str:
    """Choose the class of a column: numbers align right, dates and ids do not wrap, long texts get more width."""
    known = [value for value in values if value is not None]
    texts = [value for value in known if isinstance(value, str)]
    if all(_is_number(value) for value in known) or (known and all(map(_RANK.fullmatch, texts)) and texts == known):
        return "number"
    if all(isinstance(value, date) for value in known) or (texts == known and all(map(_ID.fullmatch, texts))):
        return "when"
    return "long" if any(len(text) > _LONG_TEXT for text in texts) else ""


def _is_number(value: Any) -> bool:
    return not isinstance(value, str | bool | date | datetime) and hasattr(value, "__float__")


def _shown_amount(number: float) -> str:
    for unit, name in _UNITS:
        if abs(number) >= unit * (10 if name == "k" else 0.9995):
            scaled = number / unit
            return f"{scaled:,.1f} {name}" if abs(scaled) < 99.95 else f"{scaled:,.0f} {name}"
    return f"{number:,.0f}"


def _draw_group(members: Sequence[dict[str, Any]]) -> dict[str, Any]:
    head, rows = members[0], _assign_rows(members)
    tops = {no: row * (_BOX_HEIGHT + _BOX_SPACE) + _BOX_SPACE // 2 for no, row in rows.items()}
    boxes = [
        member | {"x": member["depth"] * _BOX_STEP, "y": tops[member["no"]], "parent_y": tops.get(member["parent_no"])}
        for member in members
    ]
    width = max(box["x"] for box in boxes) + _BOX_WIDTH + 2
    height = (max(rows.values()) + 1) * (_BOX_HEIGHT + _BOX_SPACE)
    return head | {"boxes": boxes, "width": width, "height": height, "left_out": head["member_count"] - len(members)}


def _assign_rows(members: Sequence[dict[str, Any]]) -> dict[int, int]:
    """Assign a row to each member: a leaf gets a row of its own, a parent the row of its first child."""
    children: dict[int, list[int]] = {member["no"]: [] for member in members}
    for member in members[1:]:
        children[member["parent_no"]].append(member["no"])
    rows: dict[int, int] = {}
    free_rows = iter(range(len(members)))

    def assign(member: int) -> int:
        below = [assign(child) for child in children[member]]
        rows[member] = below[0] if below else next(free_rows)
        return rows[member]

    assign(members[0]["no"])
    return rows


@cache
def _chart_templates() -> jinja2.Environment:
    made = jinja2.Environment(loader=jinja2.FileSystemLoader(_CHARTS_FOLDER), undefined=jinja2.StrictUndefined)  # noqa: S701 - JSON
    made.filters["zip"] = lambda names, others: list(zip(names, others, strict=False))
    return made


@cache
def _config() -> dict[str, Any]:
    config: dict[str, Any] = msgspec.json.decode((_CHARTS_FOLDER / "config.json").read_bytes())
    return config


def _thinned(names: Sequence[str]) -> list[str]:
    """Choose the labels of an axis, so that they do not overlap: all, or every second or third, and the last."""
    room = max(int(_AXIS / (_LETTER * max(map(len, names), default=1) + _GAP)), 1)
    step = max(-(-len(names) // room), 1)
    return list(names)[::-1][::step][::-1]


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
