"""Many rows as text, in parts: lines of CSV, and a JSON array. Only one part is in memory at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

__all__ = ["csv_parts", "json_parts"]

T = TypeVar("T")

_PART: Final = 1000


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


# ---------------------------------------------------------------------------------------------------------------------


def _parts(rows: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(rows)
    return iter(lambda: list(islice(rest, _PART)), [])


def _lines(rows: Iterable[Iterable[object]], line_end: str) -> str:
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator=line_end).writerows(rows)
    return file.getvalue()
