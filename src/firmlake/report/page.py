"""The report: one HTML file that needs no network and no script, made from the newest generation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from firmlake import __version__
from firmlake.core.errors import FirmlakeError
from firmlake.core.files import write_file
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings
from firmlake.report.bill import read_bill
from firmlake.report.doubts import find_doubts
from firmlake.report.section import Section, shown_text
from firmlake.report.sections import COUNT_FINDINGS, GROUP_MEMBERS, PREPARE, SECTIONS, TILES, TOO_LARGE
from firmlake.warehouse.definitions import definitions
from firmlake.warehouse.generations import open_warehouse

__all__ = ["Report", "make_report", "write_report"]


class Report(NamedTuple):
    """A report that was written: its path, and the figures at its top by name."""

    path: Path
    tiles: dict[str, Any]


def write_report(
    folders: Folders,
    now: datetime,
    path: Path | None = None,
    *,
    memory_limit: str,
    company_list: str = "",
    run: RunSettings | None = None,
) -> Report:
    """Write the report on the newest generation.

    A section that needs more memory than `memory_limit` is replaced by a note.

    Args:
        folders: The data folder.
        now: UTC.
        path: The file; None writes report.html into the data folder.
        memory_limit: Memory limit of DuckDB, such as "512MB".
        company_list: Restrict the report to the companies of this list; empty reports on all.
        run: The settings of runs, for the bill of the next four weeks; None leaves it out.

    Raises:
        UsageError: There is no such list. The message suggests a similar name.
        FirmlakeError: Nothing was published yet, a version without views published it, or DuckDB cannot compute a
            figure. The message says what to do.
    """
    path = path or folders.data / "report.html"
    try:
        with open_warehouse(folders, locked=True, memory_limit=memory_limit, company_list=company_list) as connection:
            page = make_report(connection, now, run)
            tiles = _read_tiles(connection)
    except duckdb.Error as error:
        raise FirmlakeError(
            f"No report was written: a figure in it cannot be computed ({str(error).splitlines()[0]})",
            "You can still query the tables with `firmlake query`",
        ) from error
    write_file(path, lambda aside: aside.write_text(page, "utf-8"), folders.readers)
    return Report(path, tiles)


def make_report(connection: duckdb.DuckDBPyConnection, now: datetime, run: RunSettings | None = None) -> str:
    """Write the report on an open generation as one HTML document.

    Args:
        connection: A generation with a run in it.
        now: UTC; shown in the heading.
        run: The settings of runs, for the bill of the next four weeks; None leaves it out.

    Returns:
        HTML that loads nothing. Names come from outside, so they are escaped and isolated from the text around them.

    Raises:
        FirmlakeError: The generation holds no run, or lacks the views of this version. The message says what to do.
        duckdb.Error: DuckDB cannot compute a figure.
    """
    try:
        connection.execute(PREPARE)
        for due in read_bill(connection, run, now).days if run else ():
            connection.execute("INSERT INTO due VALUES (?, ?, ?)", [due.day, due.credits, due.free_refreshes])
        try:
            connection.execute(GROUP_MEMBERS.format("TABLE"))
        except duckdb.OutOfMemoryException:
            connection.execute(GROUP_MEMBERS.format("VIEW"))
        for check in definitions():
            if check.kind == "check":
                values = [check.parameters, check.name]
                try:
                    connection.execute(COUNT_FINDINGS.format(check.sql), [*values, check.meaning])
                except duckdb.OutOfMemoryException:
                    connection.execute("INSERT INTO found VALUES (?, ?, ?, NULL)", [*values, TOO_LARGE])
    except duckdb.CatalogException:
        raise FirmlakeError(
            "The newest generation lacks the views of this version", "`firmlake replay` makes it again"
        ) from None
    loads = connection.execute("SELECT generation, run_id FROM loads ORDER BY generation DESC LIMIT 1").fetchall()
    if not loads:
        raise FirmlakeError("The warehouse holds no run yet", "`firmlake run LIST` fetches one")
    generation, run_id = loads[0]
    tiles = "".join(
        f'<div class="tile"><b>{_cell("", value)}</b>{escape(name)}</div>'
        for name, value in _read_tiles(connection).items()
    )
    body = "\n".join(part for section in SECTIONS for part in _section(connection, section))
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    return _PAGE.format(
        style=style,
        tiles=tiles,
        doubts=_doubts(connection),
        body=body,
        made=f"{now:%Y-%m-%d %H:%M} UTC",
        generation=generation,
        run_id=escape(run_id),
        version=escape(__version__),
    )


# ---------------------------------------------------------------------------------------------------------------------

# If escaping ever failed, the policy would still block scripts and requests in a hostile name.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>firmlake report, generation {generation}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>firmlake report</h1>
<p>Made {made} from generation {generation}, load {run_id}.</p>
<div class="tiles">{tiles}</div>
{doubts}</header>
<main>
{body}
</main>
<footer>firmlake {version}. Amounts are in the currency of the accounts; the service states none.</footer>
</body>
</html>
"""

_SHARE = re.compile(r"(fraction|growth|margin)$")
_CODE, _CODE_SHOWN = re.compile("`(.*?)`"), r"<code>\1</code>"
_WIDTH = 80
_LONG = 60


def _read_tiles(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    names, rows = _ask(connection, TILES)
    return dict(zip(names, rows[0], strict=True))


def _doubts(connection: duckdb.DuckDBPyConnection) -> str:
    """Tell what to look at in the last run."""
    ((run_id,),) = connection.execute("SELECT run_id FROM last_run").fetchall()
    return "".join(
        f'<p class="doubt">{_CODE.sub(_CODE_SHOWN, escape(line))}.</p>\n' for line in find_doubts(connection, run_id)
    )


def _section(connection: duckdb.DuckDBPyConnection, section: Section) -> Iterator[str]:
    if section.chapter:
        yield f"<h2>{escape(section.chapter)}</h2>"
    title = f"<h3>{escape(section.title)}</h3>"
    try:
        names, rows = _ask(connection, section.sql)
    except duckdb.OutOfMemoryException:
        yield f'<section class="empty">{title}<p>{TOO_LARGE}</p></section>'
        return
    if not rows:
        yield f'<section class="empty">{title}<p>None.</p></section>'
        return
    about = f"<p>{_CODE.sub(_CODE_SHOWN, escape(section.about))}</p>" if section.about else ""
    if section.draw:
        content = section.draw([dict(zip(names, row, strict=True)) for row in rows])
    else:
        content = _table(section, names, rows)
    yield f"<section>{title}{about}{content}</section>"


def _table(section: Section, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    shown = [position for position, name in enumerate(names) if name != "depth"]
    kinds = {position: _kind([row[position] for row in rows]) for position in shown}
    depth = names.index("depth") if "depth" in names else None
    longest = max((abs(float(row[names.index(section.bars)] or 0)) for row in rows), default=0) if section.bars else 0
    head = "".join(f"<th{kinds[p]}>{escape(names[p].replace('_', ' '))}</th>" for p in shown)
    lines = []
    for row in rows:
        indent = f' style="padding-left:{0.6 + 1.3 * row[depth]:.1f}em"' if depth is not None else ""
        cells = []
        for place, position in enumerate(shown):
            value = _cell(names[position], row[position])
            if names[position] == section.bars and row[position] is not None:
                value = f'{_bar(float(row[position]), longest)}<span class="beside">{value}</span>'
            cells.append(f"<td{kinds[position]}{indent if place == 0 else ''}>{value}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _kind(values: Sequence[Any]) -> str:
    """Choose the class of a column: numbers align right, dates do not wrap, long texts get more width."""
    for name, is_kind in (("number", _is_number), ("when", lambda value: isinstance(value, date))):
        if all(value is None or is_kind(value) for value in values):
            return f' class="{name}"'
    return ' class="long"' if any(isinstance(value, str) and len(value) > _LONG for value in values) else ""


def _bar(value: float, longest: float) -> str:
    """Draw a bar whose length is the value relative to the longest. Negative values have another colour."""
    width = _WIDTH * abs(value) / longest if longest else 0
    sign = "minus" if value < 0 else "plus"
    return (
        f'<svg class="bar" width="{_WIDTH}" height="10" viewBox="0 0 {_WIDTH} 10" aria-hidden="true">'
        f'<rect class="{sign}" width="{width:.1f}" height="10" rx="2"/></svg>'
    )


def _cell(name: str, value: Any) -> str:
    if value is None:
        return '<span class="none">-</span>'
    if isinstance(value, bool):
        return "yes" if value else "no"
    if _is_number(value):
        return f"{float(value):,.1%}" if _SHARE.search(name) else f"{value:,.0f}"
    # Isolated, so that a name written from right to left does not reorder the text around it.
    return f"<bdi>{shown_text(value)}</bdi>"


def _is_number(value: Any) -> bool:
    return not isinstance(value, str | bool) and hasattr(value, "__float__")


def _ask(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    cursor = connection.execute(sql)
    return [column[0] for column in cursor.description or ()], cursor.fetchall()
