"""SVG drawings for a page: only shapes and texts pass, and what comes from outside stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from firmlake.report.section import shown_text

__all__ = ["clean_svg"]


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
        f'<svg class="chart" role="img" aria-label="{shown_text(label)}" viewBox="0 0 {shown_text(width)} '
        f'{shown_text(height)}" width="{shown_text(width)}" height="{shown_text(height)}">{shapes}</svg>'
    )


# ---------------------------------------------------------------------------------------------------------------------

_UNREADABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
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
        inner = shown_text(element.text) + inner
    if not inner and tag in ("g", "text", "tspan"):
        return
    # A transparent area, which the library draws to catch the pointer.
    if element.get("class") == "background" and not (element.get("fill") or element.get("stroke")):
        return
    about = element.get("aria-label")
    if about and element.get("aria-roledescription") != "group mark container":
        inner += f"<title>{shown_text(about)}</title>"
    kept = ((name, element.get(name)) for name in _ATTRIBUTES)
    attributes = "".join(
        f' {name}="{shown_text(value)}"' for name, value in kept if value is not None and value != _DEFAULTS.get(name)
    )
    if tag == "g" and not attributes:
        yield inner
    else:
        yield f"<{tag}{attributes}>{inner}</{tag}>" if inner else f"<{tag}{attributes}/>"
