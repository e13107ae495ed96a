"""An HTML document that needs no network and no script: its frame, its sections, tables and tiles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars as pl

from firmlake import __version__
from firmlake.report.numbers import heading, is_number, shown_number
from firmlake.report.section import Section, shown_text

__all__ = [
    "TOO_LARGE",
    "Figure",
    "Tile",
    "block",
    "document",
    "draw_table",
    "draw_tiles",
    "marked",
    "read_frame",
    "sections",
]

TOO_LARGE = "Not computed, because it needs more memory than run.duckdb_memory allows."
"""Shown instead of a section that is too costly, for a very large ownership graph or warehouse."""


class Figure(str):
    """A number that is written already; its column aligns right."""


class Tile(NamedTuple):
    """A figure in large letters.

    Attributes:
        name: What it is.
        shown: The figure as people read it.
        note: What stands under it, such as its change; empty for nothing.
        tone: good, bad or empty: the colour of the note.
    """

    name: str
    shown: str
    note: str = ""
    tone: str = ""


def document(title: str, head: str, body: str) -> str:
    """Write a document.

    Args:
        title: Text of the browser's tab.
        head: HTML above the sections.
        body: HTML of the sections.

    Returns:
        HTML that loads nothing.
    """
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    return _PAGE.format(title=shown_text(title), style=style, head=head, body=body, version=escape(__version__))


def sections(connection: duckdb.DuckDBPyConnection, each: Sequence[Section]) -> str:
    """Ask the questions of sections, and write their answers as HTML.

    Args:
        connection: A generation.
        each: The sections, in order.

    Raises:
        duckdb.Error: DuckDB cannot compute a figure. A section that takes too much memory says so instead.
    """
    return "\n".join(part for section in each for part in _section(connection, section))


def block(
    chapter: str, title: str, about: str, rows: Sequence[dict[str, Any]], total: int = 0, *, most: int = 200
) -> str:
    """Write a chapter of one table.

    Args:
        chapter: Heading of the chapter.
        title: Heading of the table.
        about: A short explanation.
        rows: The rows.
        total: Of how many these are the first; 0 for no more than these.
        most: Rows to show.
    """
    head = f"<h2>{escape(chapter)}</h2>"
    if not rows:
        return f'{head}<section class="empty"><h3>{escape(title)}</h3><p>None.</p></section>'
    shown, total = rows[:most], max(total, len(rows))
    more = f" Shown: {len(shown):,} of {total:,}." if total > len(shown) else ""
    return f"{head}<section><h3>{escape(title)}</h3><p>{marked(about)}{more}</p>{draw_table(shown)}</section>"


def draw_table(rows: Sequence[dict[str, Any]]) -> str:
    """Write rows as a table. The names of their columns are the headings; see `Section.sql` for special ones."""
    return _table(list(rows[0]), [list(row.values()) for row in rows])


def draw_tiles(tiles: Sequence[Tile]) -> str:
    """Write tiles as HTML."""
    return f'<div class="tiles">{"".join(map(_tile, tiles))}</div>'


def read_frame(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """Return the rows of a query as a frame."""
    frame = pl.from_arrow(relation.to_arrow_table())
    assert isinstance(frame, pl.DataFrame)
    return frame


def marked(text: str) -> str:
    """Write a text of ours as HTML: what stands in backticks is code."""
    return _CODE.sub(r"<code>\1</code>", shown_text(text))


# ---------------------------------------------------------------------------------------------------------------------

# If escaping ever failed, the policy would still block scripts and requests in a hostile name.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<header>
{head}</header>
<main>
{body}
</main>
<footer>firmlake {version}. Amounts are as filed; the service does not state their currency.
k: thousand, M: million, bn: thousand million; the tooltip has the exact amount.</footer>
</body>
</html>
"""

_CODE = re.compile("`(.*?)`")
_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_LONG = 60
_ID = re.compile(r"[^\s]{1,24}")
_MANY = 9
_HIDDEN = ("depth", "number", "total")
_IF_ANY = ("closed", "days_between", "doubtful_because", "reason")
"""Columns that are left out if no row has a value."""


def _tile(tile: Tile) -> str:
    note = f'<span class="note {tile.tone}">{shown_text(tile.note)}</span>' if tile.note else ""
    return f'<div class="tile">{shown_text(tile.name)}<b>{shown_text(tile.shown)}</b>{note}</div>'


def _section(connection: duckdb.DuckDBPyConnection, section: Section) -> Iterator[str]:
    if section.chapter:
        yield f"<h2>{escape(section.chapter)}</h2>"
    title = f"<h3>{escape(section.title)}</h3>"
    try:
        relation = connection.sql(section.sql)
        frame = read_frame(relation) if section.chart else None
        rows = relation.fetchall() if frame is None else frame.rows()
    except duckdb.OutOfMemoryException:
        yield f'<section class="empty">{title}<p>{TOO_LARGE}</p></section>'
        return
    if not rows:
        kind = "drawn" if section.chart else "empty"
        yield f'<section class="{kind}">{title}<p>None.</p></section>'
        return
    names = relation.columns
    about = " ".join(part for part in (marked(section.about), _how_many(names, rows)) if part)
    about = f"<p>{about}</p>" if about else ""
    if section.chart and frame is not None:
        yield f'<section class="drawn">{title}{about}{_drawn(section, frame)}</section>'
    elif section.draw:
        yield f"<section>{title}{about}{section.draw([dict(zip(names, row, strict=True)) for row in rows])}</section>"
    else:
        yield f"<section>{title}{about}{_table(names, rows)}</section>"


def _drawn(section: Section, frame: pl.DataFrame) -> str:
    from firmlake.report.charts import to_svg

    assert section.chart
    return to_svg(section.chart(frame), section.title)


def _how_many(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Say of how many rows these are the first."""
    total = rows[0][names.index("total")] if "total" in names else len(rows)
    return f"Shown: {len(rows):,} of {total:,}." if total > len(rows) else ""


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    shown = [
        position
        for position, name in enumerate(names)
        if name not in _HIDDEN and not (name in _IF_ANY and all(row[position] is None for row in rows))
    ]
    kinds = {position: _kind([row[position] for row in rows]) for position in shown}
    head = "".join(f"<th{kinds[p]}>{shown_text(heading(names[p]))}</th>" for p in shown)
    lines = []
    for row in rows:
        hidden = {name: row[names.index(name)] for name in _HIDDEN if name in names}
        cells = [f"<td{kinds[p]}>{_cell(names[p], row[p])}</td>" for p in shown]
        if hidden.get("number") is not None:
            number = f"<small><bdi>{shown_text(hidden['number'])}</bdi></small>"
            cells[0] = f"{cells[0].removesuffix('</td>')}{number}</td>"
        if hidden.get("depth"):
            cells[0] = cells[0].replace("<td", f'<td style="padding-left:{0.6 + 1.3 * hidden["depth"]:.1f}em"', 1)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    many = ' class="many"' if len(shown) > _MANY else ""
    table = f"<table{many}><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="wide" tabindex="0">{table}</div>'  # so that the arrow keys scroll it


def _kind(values: Sequence[Any]) -> str:
    """Choose the class of a column: numbers align right, dates and ids do not wrap, long texts get more width."""
    for name, is_kind in (("number", _is_figure), ("when", lambda value: isinstance(value, date))):
        if all(value is None or is_kind(value) for value in values):
            return f' class="{name}"'
    if all(value is None or (isinstance(value, str) and _ID.fullmatch(value)) for value in values):
        return ' class="when"'
    return ' class="long"' if any(isinstance(value, str) and len(value) > _LONG for value in values) else ""


def _is_figure(value: Any) -> bool:
    return isinstance(value, Figure) or is_number(value)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return '<span class="none">-</span>'
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_number(value):
        shown = shown_number(name, value)
        return f'<span title="{value:,}">{shown}</span>' if name.endswith("_amount") else shown
    # Isolated, so that a name written from right to left does not reorder the text around it.
    text = _DAY.sub(r'<span class="day">\g<0></span>', shown_text(value))
    return f"<bdi>{text}</bdi>"
