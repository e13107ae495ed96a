"""NDJSON (one JSON object on each line) as a table; the keys of the objects are its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.intake.table import BLANK, SAMPLE_ROWS, Table, field
from firmlake.intake.text import line_blocks

__all__ = ["open_ndjson"]

_NO_OBJECT: Final = "not a JSON object: write one object on each line"


def open_ndjson(path: Path, encoding: str) -> Table:
    """Open NDJSON; its columns are the keys of some first objects.

    Raises:
        CompanyListError: None of the first lines is an object, or (when read) the last line is cut.
    """
    keys: dict[str, None] = {}
    for line in next(line_blocks(path, encoding))["text"].head(SAMPLE_ROWS):
        try:
            keys.update(dict.fromkeys(msgspec.json.decode(line, type=dict[str, object])))
        except msgspec.MsgspecError:
            continue  # refused with its number when it is read
    if not keys:
        raise CompanyListError(
            f"{path} looks like JSON, but has no object on a line", "Write one object on each line (NDJSON)"
        )
    nothing = pl.DataFrame(schema={"fields": pl.List(pl.String)})
    return Table(tuple(keys), len(keys), 0, nothing, partial(_batches, path, encoding, tuple(keys)))


def _batches(path: Path, encoding: str, keys: Sequence[str], positions: Sequence[int]) -> Iterator[pl.DataFrame]:
    text = pl.col("text")
    is_blank = text.str.strip_chars() == ""
    values = {field(n): text.str.json_path_match(_json_path(path, keys[n])) for n in positions}
    last = "{}"
    for lines in line_blocks(path, encoding):
        last = lines.select(text.filter(~is_blank).last()).item() or last
        rows = lines.with_columns(**values)
        # Where nothing was found, the key may be missing or the line be no object.
        doubtful = rows.filter(~is_blank & pl.all_horizontal(pl.col(name).is_null() for name in values))
        broken = doubtful.filter(~_is_object(doubtful["text"]))["line"]
        defect = (
            pl.when(is_blank).then(pl.lit(BLANK)).when(pl.col("line").is_in(broken.implode())).then(pl.lit(_NO_OBJECT))
        )
        yield rows.with_columns(defect=defect, text=pl.when(defect.is_not_null()).then("text"))
    if not last.rstrip().endswith("}") and not _is_object(pl.Series([last])).all():
        raise CompanyListError(f"{path} was cut: its last line is not complete", "Copy or export it again")


def _is_object(text: pl.Series) -> pl.Series:
    return text.str.json_path_match("$").str.starts_with("{").fill_null(value=False)


def _json_path(path: Path, key: str) -> str:
    if '"' in key or "\\" in key:  # which paths cannot quote
        raise CompanyListError(f"{path}: key {key!r} has a quotation mark or backslash", "Rename it")
    return f'$["{key}"]'
