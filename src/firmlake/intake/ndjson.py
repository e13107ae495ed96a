"""Read NDJSON (one JSON object per line) as a table whose columns are the keys of the objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.intake.table import BLANK, SAMPLE_ROWS, TextTable, field
from firmlake.intake.text import TextFile, line_blocks

__all__ = ["open_ndjson"]

_NO_OBJECT: Final = "not a JSON object: write one object on each line"


def open_ndjson(file: TextFile) -> TextTable:
    """Open NDJSON; the columns are the keys of the first objects.

    Raises:
        CompanyListError: None of the first lines is an object, or, while batches are read, the last line is truncated.
    """
    first = next(line_blocks(file)).head(SAMPLE_ROWS)
    path, keys = file.path, dict[str, None]()
    for line in first["text"]:
        try:
            keys.update(dict.fromkeys(msgspec.json.decode(line, type=dict[str, object])))
        except msgspec.MsgspecError:
            continue  # the batches refuse this line, with its number
    if not keys:
        raise CompanyListError(
            f"{path} looks like JSON, but none of its first lines is an object",
            "Write one object on each line (NDJSON)",
        )
    sample = first.select(fields=pl.concat_list(_value(key).fill_null("") for key in keys))
    return TextTable(tuple(keys), len(keys), 0, sample, partial(_batches, file, tuple(keys)))


def _batches(file: TextFile, keys: Sequence[str], positions: Sequence[int]) -> Iterator[pl.DataFrame]:
    text = pl.col("text")
    path = file.path
    is_blank = text.str.strip_chars() == ""
    values = {field(n): _value(keys[n]) for n in positions}
    last = "{}"
    for lines in line_blocks(file):
        last = lines.select(text.filter(~is_blank).last()).item() or last
        rows = lines.with_columns(**values)
        # A line without any of the values may lack the keys, or may not be an object.
        doubtful = rows.filter(~is_blank & pl.all_horizontal(pl.col(name).is_null() for name in values))
        broken = doubtful.filter(~_is_object(doubtful["text"]))["line"]
        defect = (
            pl.when(is_blank).then(pl.lit(BLANK)).when(pl.col("line").is_in(broken.implode())).then(pl.lit(_NO_OBJECT))
        )
        yield rows.with_columns(defect=defect, text=pl.when(defect.is_not_null()).then("text"))
    if not last.rstrip().endswith("}") and not _is_object(pl.Series([last])).all():
        raise CompanyListError(f"{path} is truncated: its last line is incomplete", "Copy or export it again")


def _is_object(text: pl.Series) -> pl.Series:
    return text.str.json_path_match("$").str.starts_with("{").fill_null(value=False)


def _value(key: str) -> pl.Expr:
    """Return an object's value for a key: text as it is, anything else as JSON."""
    text = pl.col("text")
    if '"' in key or "\\" in key:  # JSON paths cannot quote these
        return text.map_elements(partial(_member, key), pl.String)
    return text.str.json_path_match(f'$["{key}"]')


def _member(key: str, line: str) -> str | None:
    try:
        value = msgspec.json.decode(line, type=dict[str, object]).get(key)
    except msgspec.MsgspecError:
        return None
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
