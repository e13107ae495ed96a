"""The output about company lists: all lists, the lines of one list, and the file that a list is written to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any

from firmlake.core.text import count_of
from firmlake.delivery.list_file import AddedColumn, Written, line_columns
from firmlake.terminal.echo import echo
from firmlake.terminal.rows import show_rows

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
    if written.cut_count:
        yield f"{count_of(written.cut_count, 'text')} cut at 32,767 characters, the limit of a cell; .csv has no limit"
    has_sheet = written.refused_count and written.path.suffix.lower() == ".xlsx"
    refused = f"; see its sheet Refused lines for {count_of(written.refused_count, 'line')}" if has_sheet else ""
    yield f"Written: {count_of(written.line_count, 'line')} to {written.path}{refused}"


def show_addable(columns: Sequence[AddedColumn]) -> None:
    """Print the columns that can be added to a list."""
    relations = dict.fromkeys(each.relation for each in columns)
    always = [(each.name, each.meaning) for each in line_columns()]
    show_rows(("column", "meaning"), always, "always added")
    for relation in relations:
        rows = [(each.name, each.meaning) for each in columns if each.relation == relation]
        title = f"{relation}{', the default' if relation == columns[0].relation else ''}"
        show_rows(("column", "meaning"), rows, title)
    echo('"Null:" in a meaning says when the cell is empty')
    echo("Choose with --columns revenue,portfolio.days_to_file,company_status.* ; `default` means the default columns")


def show_company_lists(rows: Sequence[dict[str, Any]]) -> None:
    """Print all lists."""
    if not rows:
        echo("No list has been run yet. Run one with `firmlake run LIST`")
        return
    shown = [
        (
            each["list_name"],
            each["file_name"],
            each["line_count"],
            each["company_count"],
            f"{each['listed_at']:%Y-%m-%d}",
        )
        for each in rows
    ]
    show_rows(("list", "file", "lines", "companies", "last run, UTC"), shown)


def show_company_list(content: dict[str, Any]) -> None:
    """Print the status of the lines of a list, and the companies that joined or left it in its last version."""
    echo(f"{content['list_name']}: {content['file_name']}, {count_of(content['line_count'], 'line')}")
    show_rows(("status", "lines"), list(content["statuses"].items()))
    lines = [(each["line"], each["given"], each["status"], each["reason"]) for each in content["problems"]]
    count = sum(content["statuses"].get(status, 0) for status in ("refused", "not found", "failed"))
    more = f", the first {_LINES_MAX} of {count:,}" if count > _LINES_MAX else ""
    show_rows(("line", "given", "status", "because"), lines[:_LINES_MAX], f"lines without data{more}")
    rows = [(each["move"], each["country"], each["company_number"], each["name"]) for each in content["moves"]]
    more = f", the first {_MOVES_MAX} of {len(rows):,}" if len(rows) > _MOVES_MAX else ""
    show_rows(("", "country", "number", "name"), rows[:_MOVES_MAX], f"since the version before{more}")
    query = quote(f"FROM {content['view']}")
    echo(f"To query it: `firmlake query {query}`")
