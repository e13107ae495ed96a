"""The output about company lists: all lists, the lines of one list, and the file that a list is written to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any

from firmlake.core.text import count_of
from firmlake.delivery.list_file import AddedColumn, Written, line_columns
from firmlake.terminal.rows import Part, Table, first_rows

_MOVES_MAX = 20
_LINES_MAX = 20


def describe_written(written: Written) -> Iterator[str]:
    """Describe the written file, and the columns that had to be renamed in it."""
    if written.replaced:
        yield (
            f"An earlier --out wrote this list: its figures ({count_of(len(written.replaced), 'column')} from "
            f"{written.replaced[0]} on) are replaced; columns with other names are kept"
        )
    if written.renamed:
        pairs = ", ".join(f"{name} is {given}" for name, given in written.renamed.items())
        yield f"The list already has columns with these names, so the added columns are renamed: {pairs}"
    has_sheet = written.refused_count and written.path.suffix.lower() == ".xlsx"
    refused = f"; see its sheet Refused lines for {count_of(written.refused_count, 'line')}" if has_sheet else ""
    yield f"Written: {count_of(written.line_count, 'line')} to {written.path}{refused}"


def addable_parts(columns: Sequence[AddedColumn]) -> Iterator[Part]:
    """Yield the columns that can be added to a list."""
    relations = dict.fromkeys(each.relation for each in columns)
    always = [(each.name, each.meaning) for each in line_columns()]
    yield Table(("column", "meaning"), always, "always added")
    for relation in relations:
        rows = [(each.name, each.meaning) for each in columns if each.relation == relation]
        title = f"{relation}{', the default' if relation == columns[0].relation else ''}"
        yield Table(("column", "meaning"), rows, title)
    yield '"Null:" in a meaning says when the cell is empty'
    yield "Choose with --columns revenue,portfolio.days_to_file,company_status.* ; `default` means the default columns"


def company_lists_parts(rows: Sequence[dict[str, Any]]) -> Iterator[Part]:
    """Yield all lists."""
    names = ("list_name", "file_name", "line_count", "company_count")
    shown = [(*(each[name] for name in names), f"{each['listed_at']:%Y-%m-%d}") for each in rows]
    yield Table(("list", "file", "lines", "companies", "last run, UTC"), shown)
    if not rows:
        yield "No list has been run yet. Run one with `firmlake run LIST`"


def company_list_parts(content: dict[str, Any]) -> Iterator[Part]:
    """Yield the status of the lines of a list, and the companies that joined or left it in its last version."""
    yield f"{content['list_name']}: {content['file_name']}, {count_of(content['line_count'], 'line')}"
    yield Table(("status", "lines"), list(content["statuses"].items()))
    lines = [(each["line"], each["given"], each["status"], each["reason"]) for each in content["problems"]]
    count = sum(content["statuses"].get(status, 0) for status in ("refused", "not found", "failed"))
    yield first_rows(_LINES_MAX, ("line", "given", "status", "because"), lines, "lines without data", count)
    moves = [(each["move"], each["country"], each["company_number"], each["name"]) for each in content["moves"]]
    yield first_rows(_MOVES_MAX, ("", "country", "number", "name"), moves, "since the version before")
    query = quote(f"FROM {content['view']}")
    yield f"To query it: `firmlake query {query}`"
