"""A section of a page, and the escaping of text from outside."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

__all__ = ["Section", "shown_text"]


class Section(NamedTuple):
    """A table, chart or drawing of a page.

    Attributes:
        chapter: Heading of the chapter that this section begins; empty if it continues the previous chapter.
        title: Heading of the section.
        about: A short explanation under the heading.
        sql: The query for the rows. Its columns may say more about a row: `depth` indents it, `number` stands in small
            letters under the first column, and `total` is how many rows there are of which the query returns the first.
        chart: Draws the rows as a chart, which takes a third of the page; None shows a table.
        draw: Writes the rows, given as dicts, as HTML; None shows a table or chart.
    """

    chapter: str
    title: str
    about: str
    sql: str
    chart: Callable[[pl.DataFrame], alt.TopLevelMixin] | None = None
    draw: Callable[[Sequence[dict[str, Any]]], str] | None = None


def shown_text(value: object) -> str:
    """Escape markup in a text, and replace control characters."""
    return escape(_CONTROL.sub(chr(0xFFFD), str(value)))


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
