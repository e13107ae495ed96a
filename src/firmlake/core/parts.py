"""Many rows, in parts: read from DuckDB, turned into CSV or a JSON array, and written to a file.

Only one part is in memory at a time.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import duckdb
import msgspec

from firmlake.core.files import write_file

T = TypeVar("T")

_PART: Final = 1000


def read_rows(cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    """Read the first rows of a result now, so that a query that fails does so at once, and the others when needed."""
    first = cursor.fetchmany(_PART)
    return chain(first, chain.from_iterable(iter(lambda: cursor.fetchmany(_PART), [])))


def fetch_dicts(cursor: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Fetch all rows of a small result, with their values by column."""
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def write_parts(path: Path, rows: Iterable[T], as_text: Callable[[Iterable[T]], Iterator[str]]) -> int:
    """Write rows to a file, whole or not at all, and return their number."""
    count = 0

    def counted() -> Iterator[T]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    def write(aside: Path) -> None:
        with aside.open("w", encoding="utf-8", newline="") as file:
            file.writelines(as_text(counted()))

    write_file(path, write)
    return count


def csv_parts(header: Sequence[str], rows: Iterable[Iterable[object]], line_end: str = "\r\n") -> Iterator[str]:
    """Write a header and rows as CSV."""
    yield _lines([header], line_end)
    for part in _parts(rows):
        yield _lines(part, line_end)


def json_parts(values: Iterable[Any], otherwise: Callable[[Any], Any] | None = None) -> Iterator[str]:
    """Write values as an indented JSON array; `otherwise` converts a value that JSON has no type for."""
    opening = "["
    for part in _parts(values):
        text = msgspec.json.format(msgspec.json.encode(part, enc_hook=otherwise), indent=2).decode()
        yield opening + text.removeprefix("[").removesuffix("\n]")
        opening = ","
    yield "[]\n" if opening == "[" else "\n]\n"


def _parts(rows: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(rows)
    return iter(lambda: list(islice(rest, _PART)), [])


def _lines(rows: Iterable[Iterable[object]], line_end: str) -> str:
    """Write rows with CR and LF quoted: until Python 3.13 the writer quotes only those that its line ends hold."""
    lines: list[str] = []
    csv.writer(_Written(lines.append), lineterminator="\r\n").writerows(rows)
    return "".join(line.removesuffix("\r\n") + line_end for line in lines)


class _Written(NamedTuple):
    """What the writer calls once for each row."""

    write: Callable[[str], object]
