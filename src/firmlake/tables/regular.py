"""The fastest way to read records: if they differ only in their digits, their values are read as a CSV.

It takes two passes over the bytes. The first removes the digits; the rest of a record is its skeleton. Thousands of
records share a few skeletons, and each skeleton is compared with the contract once: known keys in their order, none
absent or repeated, numbers bare, dates and texts quoted, texts of letters and digits only. The second removes quotes
and braces, and letters unless they are part of a value. A colon becomes a comma, so that a column precedes each value
and shows keys that contain a digit. Arrow's CSV reader converts the result to columns, exactly or not at all. Records
that do not fit exactly are left to the other ways.
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

from firmlake.api.contract import Group
from firmlake.tables.cells import DECIMALS, fits
from firmlake.tables.reading import Leaf, Records
from firmlake.tables.schemas import KIND_TYPES

__all__ = ["Regular", "read_regular", "regular_shape"]

_ARROW = {
    "date": pa.date32(),
    "integer": pa.int64(),
    # Wider than our types: Arrow accepts digits beyond the precision; Polars turns values that do not fit into null.
    **{kind: pa.decimal128(38, scale) for kind, (_, scale) in DECIMALS.items()},
    "score": pa.float64(),
    "codes": pa.string(),
    "text": pa.string(),
}
_SKELETON = {"date": rb'(?:""|null)', "codes": rb'(?:\[(?:""(?:,"")*)?\]|null)', "text": rb'"[A-Za-z]*"'}
_NUMBER = rb"(?:null)?"

_DIGITS = b"0123456789.-"
_MARKS = b'"{}'
_AS_CSV = bytes.maketrans(b":[]", b',""')


class Regular(NamedTuple):
    """The shape of a group, worked out once."""

    leaves: dict[str, Leaf]
    tree: dict[str, Any]
    """The fields nested as in a record: by key a field, or another dict."""
    skeleton: re.Pattern[bytes]
    columns: dict[str, pa.DataType]
    """Of the CSV, in order: each key's, which must be null, and each value's."""
    rest: bytes
    """What the CSV is without."""
    convert: pyarrow.csv.ConvertOptions


def regular_shape(group: Group, leaves: Sequence[Leaf]) -> Regular | None:
    """Make the shape of a group; None if its records may have any shape, or hold both texts and arrays of texts."""
    kinds = {leaf.kind for leaf in leaves}
    if group.is_open or {"text", "codes"} <= kinds or any(leaf.shift for leaf in leaves):
        return None
    tree = _tree(leaves)
    columns = dict(_columns(tree, ""))
    # Texts keep their letters, and so do keys and nulls; no text is null, or the skeleton would show it.
    has_text = "text" in kinds
    keys = {key for leaf in leaves for key in leaf.path.split(".")}
    convert = pyarrow.csv.ConvertOptions(
        column_types=columns,
        include_columns=list(columns),
        null_values=["null", *sorted(keys)] if has_text else [""],
        strings_can_be_null=not has_text,
        quoted_strings_can_be_null=False,
    )
    rest = _MARKS if has_text else _MARKS + string.ascii_letters.encode()
    return Regular({leaf.name: leaf for leaf in leaves}, tree, re.compile(_skeleton(tree)), columns, rest, convert)


def read_regular(shape: Regular, raws: Sequence[Raw | bytes], start: int) -> Records | None:
    """Read records; return None if anything is irregular.

    Args:
        shape: The shape of their group.
        raws: Records, each valid JSON.
        start: Index of the first.
    """
    if not shape.skeleton.fullmatch(bytes(raws[0]).translate(None, _DIGITS)):
        return None  # a service in another dialect shows it here as a rule, at no cost
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
    raw = pl.DataFrame(pl.from_arrow(table.select(list(shape.leaves))))
    nulls = sum(count * skeleton.count(b":null") for skeleton, count in skeletons.items())
    codes = sum(count * _count_codes(skeleton) for skeleton, count in skeletons.items())
    frame = raw.select(
        pl.int_range(start, start + len(raws), dtype=pl.UInt32).alias("record"),
        *map(_final, shape.leaves.values()),
    )
    if len(raw) != len(raws) or not _is_whole(shape, frame, nulls, codes):
        return None
    return Records(frame.with_columns(pl.lit(None, pl.String).alias("extra_json")), [], [])


# ---------------------------------------------------------------------------------------------------------------------


def _tree(leaves: Sequence[Leaf]) -> dict[str, Any]:
    """Nest the fields of a group like the objects of a record: by key a field, or another dict."""
    tree: dict[str, Any] = {}
    for leaf in leaves:
        *parents, key = leaf.path.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[key] = leaf
    return tree


def _skeleton(tree: dict[str, Any]) -> bytes:
    """Make the pattern of a record without its digits."""
    inner = (
        b'"%b":%b' % (re.escape(key).encode(), _skeleton(sub) if isinstance(sub, dict) else _value(sub))
        for key, sub in tree.items()
    )
    return rb"\{" + b",".join(inner) + rb"\}"


def _value(leaf: Leaf) -> bytes:
    return _SKELETON.get(leaf.kind, _NUMBER)


def _columns(tree: dict[str, Any], prefix: str) -> Iterator[tuple[str, pa.DataType]]:
    for key, sub in tree.items():
        yield f"key:{prefix}{key}", pa.null()
        if isinstance(sub, dict):
            yield from _columns(sub, f"{prefix}{key}.")
        else:
            yield sub.name, _ARROW[sub.kind]


def _final(leaf: Leaf) -> pl.Expr:
    column = pl.col(leaf.name)
    if leaf.kind == "codes":
        codes = pl.when(column == "").then(pl.lit([], pl.List(pl.String))).otherwise(column.str.split(","))
        return codes.alias(leaf.name)
    if leaf.kind == "date":
        return column
    return column.cast(KIND_TYPES[leaf.kind], strict=False)


def _count_codes(skeleton: bytes) -> int:
    """Count the texts in the arrays of a skeleton."""
    return sum(array.count(b'""') for array in re.findall(rb"\[[^]]*\]", skeleton))


def _is_whole(shape: Regular, frame: pl.DataFrame, nulls: int, codes: int) -> bool:
    """Tell whether there are as many nulls and codes as the skeletons say, and nothing that must not be there."""
    found, leaves = frame.null_count().row(0, named=True), shape.leaves.values()
    if sum(found.values()) != nulls or any(found[leaf.name] for leaf in leaves if leaf.required):
        return False
    if sum(frame[leaf.name].list.len().sum() for leaf in leaves if leaf.kind == "codes") != codes:
        return False
    return all(fits(leaf, frame[leaf.name]) for leaf in leaves)
