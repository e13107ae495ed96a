"""What a section of the report is, and how texts from outside are shown in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

__all__ = ["Section", "shown_text"]


class Section(NamedTuple):
    """A table of the report.

    Attributes:
        chapter: Heading above it; empty where it stays in the chapter of the section before.
        title: Its own heading.
        about: What one should know of it.
        sql: Query for its rows.
        bars: Column whose numbers are drawn as bars as well; empty for none.
        draw: Makes a picture of the rows, which it gets as dicts; None shows them as a table.
    """

    chapter: str
    title: str
    about: str
    sql: str
    bars: str = ""
    draw: Callable[[Sequence[dict[str, Any]]], str] | None = None


def shown_text(value: object) -> str:
    """Make a text safe to stand in a page: no markup, and no character that nobody can see."""
    return escape(_CONTROL.sub(chr(0xFFFD), str(value)))


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
