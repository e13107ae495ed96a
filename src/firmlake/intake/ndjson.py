"""Read NDJSON (one JSON object per line) as a table whose columns are the keys of the objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final

import msgspec
import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.detect import too_large
from firmlake.intake.table import BLANK, SAMPLE_ROWS, TextTable, field
from firmlake.intake.text import TextFile, read_lines

_BATCH_CHARACTERS: Final = 8 * 2**20
_NO_OBJECT: Final = "not a JSON object: write one object on each line"

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def open_ndjson(file: TextFile, options: IntakeSettings) -> TextTable:
    """Open NDJSON; the columns are the keys of the first objects.

    Raises:
        CompanyListError: None of the first lines is an object, or, while batches are read, the last line is truncated.
    """
    path, keys = file.path, dict[str, None]()
    first = list(islice(read_lines(file), SAMPLE_ROWS))
    objects = [_read_object(line) or {} for line in first]
    for each in objects:
        keys.update(dict.fromkeys(each))
        if len(keys) > options.max_columns:
            raise too_large(path, options.max_columns, "columns", "intake.max_columns")
    if not keys:
        raise CompanyListError(
            f"{path} looks like JSON, but none of its first lines is an object",
            "Write one object on each line (NDJSON)",
        )
    sample = pl.DataFrame({"fields": [[each.get(key) or "" for key in keys] for each in objects]})
    return TextTable(tuple(keys), len(keys), 0, sample, partial(_batches, file, tuple(keys)))


def _batches(file: TextFile, keys: Sequence[str], positions: Sequence[int]) -> Iterator[pl.DataFrame]:
    names = {field(n): keys[n] for n in positions}
    lines, count = read_lines(file), 0
    last: str | None = None
    while batch := _take(lines):
        texts = [line.removesuffix("\n") for line in batch]
        objects = [_read_object(text) for text in texts]
        defects = [BLANK if not text.strip() else _NO_OBJECT if found is None else None
                   for text, found in zip(texts, objects, strict=True)]  # fmt: skip
        yield pl.DataFrame(
            {
                "line": range(count + 1, count + len(texts) + 1),
                "defect": defects,
                "text": [text if defect else None for text, defect in zip(texts, defects, strict=True)],
                **{name: [found and found.get(key) for found in objects] for name, key in names.items()},
            },
            schema={"line": pl.Int64, "defect": pl.String, "text": pl.String, **dict.fromkeys(names, pl.String)},
        )
        count += len(texts)
        last = next((defect for defect in reversed(defects) if defect != BLANK), last)
        ending = next((text for text in reversed(texts) if text.strip()), "}")
        is_cut = last == _NO_OBJECT and not ending.rstrip().endswith("}")
    if is_cut:
        raise CompanyListError(f"{file.path} is truncated: its last line is incomplete", "Copy or export it again")


def _take(lines: Iterator[str]) -> list[str]:
    taken, size = [], 0
    for line in lines:
        taken.append(line)
        size += len(line)
        if size > _BATCH_CHARACTERS:
            break
    return taken


def _read_object(line: str) -> dict[str, str | None] | None:
    """Return the values of an object by key: text as it is, null as None, anything else as written; None if none."""
    try:
        return {key: _as_text(value) for key, value in _members.decode(line).items()}
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


def _as_text(value: msgspec.Raw) -> str | None:
    written = bytes(value).strip()
    if written == b"null":
        return None
    return msgspec.json.decode(written, type=str) if written.startswith(b'"') else written.decode()
