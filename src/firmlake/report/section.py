"""A section of the report, and the escaping of text from outside."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

__all__ = ["Section", "shown_text"]


class Section(NamedTuple):
    """A table or drawing of the report.

    Attributes:
        chapter: Heading of the chapter that this section begins; empty if it continues the previous chapter.
        title: Heading of the section.
        about: A short explanation under the heading.
        sql: The query for the rows.
        bars: The column whose numbers are also drawn as bars; empty for none.
        draw: Draws the rows, given as dicts; None shows them as a table.
    """

    chapter: str
    title: str
    about: str
    sql: str
    bars: str = ""
    draw: Callable[[Sequence[dict[str, Any]]], str] | None = None


def shown_text(value: object) -> str:
    """Escape markup in a text, and replace control characters."""
    return escape(_CONTROL.sub(chr(0xFFFD), str(value)))


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
