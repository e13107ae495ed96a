"""The fastest way to read records: where all have the same text but for their digits, their values are a CSV.

Two passes over the bytes do it. One takes the digits away: what is left of a record is its skeleton. Thousands of
records have but a few, and each is held against the contract once: known keys in their order, none absent or twice,
numbers bare, dates and texts quoted, texts of letters and digits alone. The other takes quotes and braces away, and
letters too where none are part of a value; a colon becomes a comma, so that there is a column before each value, and
a key with a digit in it shows there. Arrow's CSV reader makes columns of that, exact or not at all. Whatever does not
fit exactly is left to the other ways.
"""

from __future__ import annotations

import io
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.csv
from msgspec import Raw

from firmlake.api.contract import Field, Group
from firmlake.tables.reading import Records, field_tree
from firmlake.tables.schemas import KIND_TYPES

__all__ = ["Regular", "read_regular", "regular_shape"]

_ARROW = {
    "date": pa.date32(),
    "integer": pa.int64(),
    # Wider than ours: Arrow lets digits beyond the precision pass, Polars turns what does not fit into null.
    "money": pa.decimal128(38, 2),
    "ratio": pa.decimal128(38, 4),
    "fraction": pa.decimal128(38, 6),
    "score": pa.float64(),
    "codes": pa.string(),
    "text": pa.string(),
}
_SKELETON = {"date": rb'(?:""|null)', "codes": rb'(?:\[(?:""(?:,"")*)?\]|null)', "text": rb'"[A-Za-z]*"'}
_NUMBER = rb"(?:null)?"

_DIGITS = b"0123456789.-"
_MARKS = b'"{}'
_AS_CSV = bytes.maketrans(b":[]", b',""')
_FIRST_DAY = pl.date(1, 1, 1)


class Regular(NamedTuple):
    """What is to be known of a group, worked out once."""

    fields: dict[str, Field]
    skeleton: re.Pattern[bytes]
    columns: dict[str, pa.DataType]
    """Of the CSV, in order: each key's, which must be null, and each value's."""
    rest: bytes
    """What the CSV is without."""
    convert: pyarrow.csv.ConvertOptions


def regular_shape(group: Group) -> Regular | None:
    """Make the shape of a group; None where keys may be absent, or where texts and arrays of texts stand together."""
    kinds = {field.kind for field in group.fields.values()}
    if any(field.may_miss for field in group.fields.values()) or {"text", "codes"} <= kinds:
        return None
    tree = field_tree(group)
    columns = dict(_columns(group, tree, ""))
    # Texts keep their letters, and so do keys and nulls; no text is null, or the skeleton would show it.
    has_text = "text" in kinds
    keys = {key for field in group.fields.values() for key in field.path.split(".")}
    convert = pyarrow.csv.ConvertOptions(
        column_types=columns,
        include_columns=list(columns),
        null_values=["null", *sorted(keys)] if has_text else [""],
        strings_can_be_null=not has_text,
        quoted_strings_can_be_null=False,
    )
    rest = _MARKS if has_text else _MARKS + string.ascii_letters.encode()
    return Regular(group.fields, re.compile(_skeleton(group, tree)), columns, rest, convert)


def read_regular(shape: Regular, raws: Sequence[Raw], start: int) -> Records | None:
    """Read records, or give None where anything is odd.

    Args:
        shape: Of their group.
        raws: Records, each valid JSON.
        start: Index of the first.
    """
    text = b"\n".join(raws)
    skeletons = Counter(text.translate(None, _DIGITS).split(b"\n"))
    if len(skeletons) > len(raws) // 4 + 16 or not all(map(shape.skeleton.fullmatch, skeletons)):
        return None
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(text.translate(_AS_CSV, shape.rest)),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, column_names=list(shape.columns), block_size=len(text) + 1
            ),
            convert_options=shape.convert,
        )
    except pa.ArrowException:
        return None
    raw = pl.DataFrame(pl.from_arrow(table.select(list(shape.fields))))
    nulls = sum(count * skeleton.count(b":null") for skeleton, count in skeletons.items())
    codes = sum(count * _count_codes(skeleton) for skeleton, count in skeletons.items())
    frame = raw.select(
        pl.int_range(start, start + len(raws), dtype=pl.UInt32).alias("record"),
        *(_final(name, field) for name, field in shape.fields.items()),
    )
    if len(raw) != len(raws) or not _is_whole(shape, frame, nulls, codes):
        return None
    return Records(frame.with_columns(pl.lit(None, pl.String).alias("extra_json")), [], [])


# ---------------------------------------------------------------------------------------------------------------------


def _skeleton(group: Group, tree: dict[str, Any]) -> bytes:
    """Make the pattern of a record without its digits."""
    inner = (
        b'"%b":%b' % (re.escape(key).encode(), _skeleton(group, sub) if isinstance(sub, dict) else _value(group, sub))
        for key, sub in tree.items()
    )
    return rb"\{" + b",".join(inner) + rb"\}"


def _value(group: Group, name: str) -> bytes:
    return _SKELETON.get(group.fields[name].kind, _NUMBER)


def _columns(group: Group, tree: dict[str, Any], prefix: str) -> Iterator[tuple[str, pa.DataType]]:
    for key, sub in tree.items():
        yield f"key:{prefix}{key}", pa.null()
        if isinstance(sub, dict):
            yield from _columns(group, sub, f"{prefix}{key}.")
        else:
            yield sub, _ARROW[group.fields[sub].kind]


def _final(name: str, field: Field) -> pl.Expr:
    column = pl.col(name)
    if field.kind == "codes":
        return pl.when(column == "").then(pl.lit([], pl.List(pl.String))).otherwise(column.str.split(",")).alias(name)
    if field.kind == "date":
        return column
    return column.cast(KIND_TYPES[field.kind], strict=False)


def _count_codes(skeleton: bytes) -> int:
    """Count the texts in the arrays of a skeleton."""
    return sum(array.count(b'""') for array in re.findall(rb"\[[^]]*\]", skeleton))


def _is_whole(shape: Regular, frame: pl.DataFrame, nulls: int, codes: int) -> bool:
    """Tell whether there are as many nulls and codes as the skeletons say, and nothing that may not be."""
    found = frame.null_count().row(0, named=True)
    if sum(found.values()) != nulls or any(found[name] for name, field in shape.fields.items() if field.required):
        return False
    kinds = {kind: [name for name, field in shape.fields.items() if field.kind == kind] for kind in _ARROW}
    if sum(frame[name].list.len().sum() for name in kinds["codes"]) != codes:
        return False
    bad = [pl.col(name) < _FIRST_DAY for name in kinds["date"]] + [
        pl.col(name).is_infinite() for name in kinds["score"]
    ]
    return not bad or not frame.select(pl.any_horizontal(test.any() for test in bad)).item()
