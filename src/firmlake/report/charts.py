"""Charts of sections: a frame and a chart of `charts/` in, an SVG drawing for a page out, without any request.

A chart is a template of a Vega-Lite specification without its data. Its first lines say which columns it needs, and it
is filled with what follows from the rows: `x` and `y` (the names of the first and last column), `names` (the different
texts of the first), `labels` (those of `names` for which there is room), `parts` and `series` (the different texts of
these columns) and `count` (of the rows).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
import msgspec
import polars as pl

_FOLDER = Path(__file__).with_name("charts")
_LAYOUT = {"width": 340, "height": 230, "autosize": {"type": "fit", "contains": "padding"}}
"""Size of a drawing in pixels, axes included: the width of a phone, so that texts are not shrunk there."""
_AXIS, _LETTER, _GAP = 300, 6.5, 8
"""Width of a horizontal axis, of a letter, and between two labels, in pixels."""
_to_json = msgspec.json.Encoder(decimal_format="number").encode

CHARTS = frozenset(path.stem for path in _FOLDER.glob("*.json")) - {"config", "parts", "scatter", "upright"}
"""The charts that a section can name."""


def draw(chart: str, frame: pl.DataFrame, label: str) -> str:
    """Draw a chart as an SVG element for an HTML page: it loads nothing, and texts in it stay texts.

    Args:
        chart: One of `CHARTS`.
        frame: The rows, with the columns that the chart needs.
        label: What the chart shows, for readers that see no pictures.
    """
    import vl_convert

    different = {
        plural: frame[name].unique(maintain_order=True).to_list() if name in frame.columns else []
        for plural, name in (("names", frame.columns[0]), ("parts", "part"), ("series", "series"))
    }
    x, y, labels = frame.columns[0], frame.columns[-1], _thinned(list(map(str, different["names"])))
    filled = _templates().get_template(f"{chart}.json").render(x=x, y=y, labels=labels, count=frame.height, **different)
    specification = {**_LAYOUT, **msgspec.json.decode(filled), "data": {"values": frame.to_dicts()}}
    drawing = vl_convert.vegalite_to_svg(_to_json(specification).decode(), config=_config())
    return clean_svg(drawing, label)


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(loader=jinja2.FileSystemLoader(_FOLDER), undefined=jinja2.StrictUndefined)  # noqa: S701 - JSON
    made.filters["zip"] = lambda names, others: list(zip(names, others, strict=False))
    return made


@cache
def _config() -> dict[str, Any]:
    config: dict[str, Any] = msgspec.json.decode((_FOLDER / "config.json").read_bytes())
    return config


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
