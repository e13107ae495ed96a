"""Query results: a table that fits the screen, or a format for programs, on stdout or in a file."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from firmlake.core.errors import UsageError
from firmlake.core.files import write_file
from firmlake.core.formulas import guard
from firmlake.core.settings_layers import SAMPLE_SETTINGS
from firmlake.core.text import count_of, shown
from firmlake.terminal.echo import echo
from firmlake.terminal.rows import (
    FRAME,
    SHOWN_FIRST,
    SHOWN_MAX,
    Part,
    Table,
    fits,
    measure,
    screen_width,
    show_long_table,
    show_table,
    show_uncut,
)

if TYPE_CHECKING:
    import duckdb

    from firmlake.report.feed import Alert

_VERTICAL_ROWS: Final = 3
"""Up to this many rows are shown one value per line if they are too wide for the screen."""
_PART_ROWS: Final = 1000
"""Rows that are written as text at once."""
_BATCH_ROWS: Final = 100_000
_ROWS_IN_MEMORY: Final = 10_000
_CELL_WIDTH: Final = 24
"""If a row is too wide, cells are cut to this many characters, or to more if the screen has room."""

T = TypeVar("T")
Rows = Iterable[tuple[Any, ...]]


def show_result(
    columns: Sequence[str], rows: Rows, noun: str = "row", *, is_folded: bool = False, if_empty: str = ""
) -> None:
    """Print a result so that it fits the screen; of more than a thousand rows, a terminal shows the first fifty.

    Args:
        columns: The names of the columns.
        rows: The rows, read as they are needed.
        noun: What a row is, in the singular.
        is_folded: Whether long cells are folded; otherwise they are cut, or each value gets a line of its own.
        if_empty: What to say where there are no rows; empty shows the columns of the table.
    """
    rest = _with_plain_years(columns, rows)
    first = list(islice(rest, SHOWN_MAX + 1))
    show_few = show_table if is_folded else _show_fitting
    if if_empty and not first:
        echo(if_empty)
        return
    if len(first) <= SHOWN_MAX:
        number = len(first)
        show_few(columns, first)
    elif sys.stdout.isatty():
        number = len(first) + sum(1 for _ in rest)
        show_few(columns, first[:SHOWN_FIRST])
        echo(f"Only the first {SHOWN_FIRST} are shown; --out FILE writes all")
    else:
        number = show_long_table(columns, chain(first, rest))
    echo(count_of(number, noun))


def alerts_parts(columns: Sequence[str], found: Rows, *, has_rules: bool) -> Iterator[Part]:
    """Yield alerts, found with the columns of the table `alerts` and the name of the company, one row for each.

    Without a file of rules in the settings, the output says how to set one.
    """
    from firmlake.report.feed import describe_evidence

    alerts: list[Alert] = [dict(zip(columns, row, strict=True)) for row in found]
    rows = [
        (alert["severity"], alert["says"], alert["name"], f"{alert['country']} {alert['company_number']}",
         _state(alert), describe_evidence(alert))
        for alert in alerts
    ]  # fmt: skip
    yield Table(("severity", "alert", "name", "number", "state", "evidence"), rows)
    open_count = sum(alert["closed_run"] is None for alert in alerts)
    closed = f", {len(alerts) - open_count:,} closed" if len(alerts) > open_count else ""
    yield f"{count_of(open_count, 'open alert')}{closed}"
    if not has_rules:
        shipped = SAMPLE_SETTINGS["paths.alert_rules"]
        yield f'No file of rules is set. To use the rules that come with firmlake: paths.alert_rules = "{shipped}"'


def as_csv(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Write a result as CSV. Text that a spreadsheet would run as a formula is guarded."""
    cells = ([None if value is None else guard(_plain(value)) for value in row] for row in rows)
    for part in _parts(chain([columns], cells)):
        lines: list[str] = []
        # With LF as the end of a line, the writer of Python before 3.13 would not quote a CR.
        csv.writer(_Written(lines.append), lineterminator="\r\n").writerows(part)
        yield "".join(line.removesuffix("\r\n") + "\n" for line in lines)


def as_json(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Write a result as a JSON array of objects. Amounts become strings, so that they stay exact."""
    opening = "["
    for part in _parts(dict(zip(columns, row, strict=True)) for row in rows):
        text = msgspec.json.format(msgspec.json.encode(part, enc_hook=str), indent=2).decode()
        yield opening + text.removeprefix("[").removesuffix("\n]")
        opening = ","
    yield "[]\n" if opening == "[" else "\n]\n"


def as_markdown(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Write a result as a table in Markdown."""
    for row in chain([columns, ["---"] * len(columns)], rows):
        cells = ("" if value is None else _plain(value).replace("|", "\\|") for value in row)
        yield f"| {' | '.join(cells)} |".replace("\r", " ").replace("\n", " ") + "\n"


FORMATS: dict[str, Callable[[Sequence[str], Rows], Iterator[str]]] = {
    "csv": as_csv,
    "json": as_json,
    "markdown": as_markdown,
}
"""The text formats of a result."""

BINARY_FORMATS: Final = ("parquet", "xlsx")


def write_text(path: Path, kind: str, columns: Sequence[str], rows: Rows) -> int:
    """Write a result in a text format, whole or not at all, and return the number of rows."""
    count = 0

    def counted() -> Iterator[tuple[Any, ...]]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    def write(aside: Path) -> None:
        with aside.open("w", encoding="utf-8", newline="") as file:
            file.writelines(FORMATS[kind](columns, counted()))

    write_file(path, write)
    return count


def write_binary(path: Path, kind: str, connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    """Write the result of a query as Parquet or XLSX, batch by batch, whole or not at all; return the number of rows.

    A statement that returns no rows is a UsageError.
    """
    count, relation = 0, connection.sql(sql)
    if relation is None:
        raise UsageError("The statement returns no rows to write", "Write a query, such as 'FROM companies'")

    def write(aside: Path) -> None:
        nonlocal count
        reader = relation.to_arrow_reader(_BATCH_ROWS if kind == "parquet" else _ROWS_IN_MEMORY)
        if kind == "xlsx":
            from firmlake.delivery.list_workbook import write_result

            columns = dict(zip(relation.columns, map(str, relation.types), strict=True))
            count = write_result(aside, path.stem, columns, reader)
            return
        from pyarrow.parquet import ParquetWriter

        with ParquetWriter(aside, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
                count += batch.num_rows

    write_file(path, write)
    return count


def _parts(rows: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(rows)
    return iter(lambda: list(islice(rest, _PART_ROWS)), [])


class _Written(NamedTuple):
    """What the writer of CSV calls once for each row."""

    write: Callable[[str], object]


def _state(alert: Alert) -> str:
    if alert["closed_at"]:
        return f"closed {alert['closed_at']:%Y-%m-%d}: {alert['closed_because']}"
    return f"{alert['state']}, since {alert['opened_at']:%Y-%m-%d}" if alert["state"] != "opened" else "opened"


def _with_plain_years(columns: Sequence[str], rows: Rows) -> Iterator[tuple[Any, ...]]:
    """Turn years and ids into text, which is shown without thousands separators."""
    plain = {place for place, name in enumerate(columns) if name.lower().endswith(("year", "_id"))}
    for row in rows:
        yield tuple(str(cell) if at in plain and type(cell) is int else cell for at, cell in enumerate(row))


def _show_fitting(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Print a result so that it fits the screen: as a table, with one value per line, or cut."""
    cells, widths = measure(columns, rows)
    if fits(widths) or len(rows) <= _VERTICAL_ROWS:
        show_uncut(columns, rows)
    else:
        _show_cut(columns, rows, cells, widths)


def _show_cut(
    columns: Sequence[str], rows: Sequence[tuple[Any, ...]], cells: Sequence[Sequence[str]], widths: Sequence[int]
) -> None:
    """Print as many columns as fit, and cut long cells."""
    needed = list(accumulate(min(width, _CELL_WIDTH) + FRAME for width in widths))
    fitting = max(1, sum(total < screen_width() for total in needed))
    long_count = sum(width > _CELL_WIDTH for width in widths[:fitting])
    most = _CELL_WIDTH + max(0, screen_width() - 1 - needed[fitting - 1]) // max(1, long_count)
    cut = [
        [f"{cell[: most - 1]}…" if len(cell) > most else value for value, cell in zip(row, line, strict=True)][:fitting]
        for row, line in zip(rows, cells, strict=True)
    ]
    show_table(columns[:fitting], cut)
    rest = columns[fitting:]
    if rest:
        echo(f"{count_of(len(rest), 'column')} more: {', '.join(map(shown, rest))}")
    echo("Cut to fit the screen; --format csv, json or markdown shows everything, --out FILE writes it")


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, list | dict | tuple) else str(value)
