r"""Many rows as text: guarded against formulas, written as CSV or a JSON array, part by part.

Text that a spreadsheet might run as a formula gets a leading apostrophe. So does such a text behind apostrophes of its
own: `unguard` then restores every text. Numbers (`-2`, `-1.234,50`), dashes, telephone numbers (`+32 2 123 45 67`)
and names (`'s-Hertogenbosch`) are left alone.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from firmlake.core.files import write_file

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")
_PART: Final = 1000

RISKY: Final = "^'*[=+@\t\r\n\uff1d\uff0b\uff20\uff0d-]"
"""Matches the start of text that needs the guard. The pattern works in Python, Arrow, DuckDB and PostgreSQL.

The last four signs are = + @ - as East Asian keyboards write them (full width): some spreadsheets run them too.
"""

_GROUPED: Final = r"[0-9]{1,3}([., ][0-9]{3})+"
HARMLESS: Final = rf"^([+-]([0-9]+|{_GROUPED})([.,][0-9]+)?( ?[%€])?|-+|\+[0-9][0-9 ()./-]*)$"
"""Matches numbers with a sign, dashes and telephone numbers, which begin like a formula and need no guard."""

_RISKY, _HARMLESS = re.compile(RISKY), re.compile(HARMLESS.replace("$", r"\Z"))


def guard(text: str) -> str:
    r"""Put an apostrophe before text that needs the guard.

    Example:
        >>> [guard(text) for text in ("=1+1", "-1.234,50", "-", "'t Hof", "'=1+1")]
        ["'=1+1", '-1.234,50', '-', "'t Hof", "''=1+1"]
    """
    return f"'{text}" if is_risky(text) else text


def unguard(text: str) -> str:
    r"""Take the apostrophe of `guard` away.

    Example:
        >>> [unguard(text) for text in ("'=1+1", "-2", "'t Hof", "''=1+1")]
        ['=1+1', '-2', "'t Hof", "'=1+1"]
    """
    return text.removeprefix("'") if _RISKY.match(text) else text


def is_risky(text: str) -> bool:
    """Tell whether a text could be run as a formula, or could be taken for one that is guarded already."""
    return _RISKY.match(text) is not None and _HARMLESS.match(text) is None


def guard_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Guard every text of a frame, and the names of its columns."""
    import polars as pl

    text = pl.selectors.string()
    is_formula = text.str.contains(RISKY) & ~text.str.contains(HARMLESS)
    guarded = pl.when(is_formula).then("'" + text).otherwise(text)
    return frame.with_columns(guarded.name.keep()).rename(guard)


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


def csv_parts(header: Sequence[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Write a header and rows as CSV, with LF at the end of a line."""
    yield _lines([header])
    for part in _parts(rows):
        yield _lines(part)


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


def _lines(rows: Iterable[Iterable[object]]) -> str:
    """Write rows with CR and LF quoted: until Python 3.13 the writer quotes only those that its line ends hold."""
    lines: list[str] = []
    csv.writer(_Written(lines.append), lineterminator="\r\n").writerows(rows)
    return "".join(line.removesuffix("\r\n") + "\n" for line in lines)


class _Written(NamedTuple):
    """What the writer calls once for each row."""

    write: Callable[[str], object]
