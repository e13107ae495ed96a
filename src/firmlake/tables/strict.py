"""The fast way to read records of any text: Arrow's JSON reader with the contract as explicit schema, made strict.

It keeps decimals exact, and refuses unknown and repeated keys, other types and fractions of an integer. What it would
let pass (a number in a string or out of range, an absent key, an impossible date) is looked for before and after; with
any doubt nothing is read.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.json
from msgspec import Raw

from firmlake.api.contract import Field, Group
from firmlake.tables.reading import DATE, DECIMALS, DIGITS_MAX, ROUNDED, Observation, Records, field_tree, plain
from firmlake.tables.schemas import KIND_TYPES

__all__ = ["Strict", "read_strictly", "strict_shape"]

_ARROW = {
    "text": pa.string(),
    "date": pa.string(),
    "integer": pa.int64(),
    # Wider than ours: Arrow lets digits beyond the precision pass, Polars turns what does not fit into null.
    "money": pa.decimal128(38, 2),
    # Wide enough for what a float prints, so that rounding is ours and is seen.
    "ratio": pa.decimal128(38, 20),
    "fraction": pa.decimal128(38, 20),
    "score": pa.float64(),
    "codes": pa.list_(pa.string()),
}

_CLASSES = bytes.maketrans(b"123456789E-", b"000000000e+")
"""Digits in a row, and exponents: beyond some of them Arrow's decimals are not to be trusted. It takes 1e20 for
1318113592927845595.62, and looks up the power of ten of 1e-999999 outside of its table, which can end the process (seen
with Arrow 26.0)."""


class Strict(NamedTuple):
    """What is to be known of a group, worked out once."""

    fields: dict[str, Field]
    parse: pyarrow.json.ParseOptions
    key_count: int | None
    """Keys of a record, where none may be absent."""
    certain_keys: tuple[bytes, ...]
    """Else the outer keys that every record has."""
    decimal: re.Pattern[bytes] | None
    """A decimal that is not in a string, where there are any."""


def strict_shape(group: Group) -> Strict:
    """Make the shape of a group."""
    tree = field_tree(group)
    decimals = [re.escape(f.path.split(".")[-1]) for f in group.fields.values() if f.kind in DECIMALS]
    is_fixed = not any(field.may_miss for field in group.fields.values())
    certain = {field.path.partition(".")[0] for field in group.fields.values() if not field.may_miss}
    return Strict(
        group.fields,
        pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([("r", pa.list_(_arrow_type(group, tree)))]),
            unexpected_field_behavior="error",
            newlines_in_values=True,
        ),
        _count_keys(tree) if is_fixed else None,
        tuple(f'"{key}":'.encode() for key in sorted(certain)),
        re.compile(rb'"(?:%s)"\s*:\s*[-0-9]' % "|".join(decimals).encode()) if decimals else None,
    )


def read_strictly(shape: Strict, raws: Sequence[Raw], start: int) -> Records | None:
    """Read records, or give None where anything is odd.

    Args:
        shape: Of their group.
        raws: Records, each valid JSON.
        start: Index of the first.
    """
    body = b'{"r":[' + b",".join(raws) + b"]}"
    options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(body) + 1)
    if not _is_plain(shape, body, len(raws)):
        return None
    try:
        table = pyarrow.json.read_json(io.BytesIO(body), read_options=options, parse_options=shape.parse)
    except pa.ArrowException:
        return None
    records = pl.from_arrow(table["r"].combine_chunks().flatten())
    if table.num_rows != 1 or len(records) != len(raws) or records.null_count():
        return None
    nested = pl.DataFrame({"r": records})
    raw = nested.select(
        pl.int_range(start, start + len(raws), dtype=pl.UInt32).alias("record"),
        *(_at(field.path).alias(name) for name, field in shape.fields.items()),
        pl.lit(None, pl.String).alias("extra_json"),
    )
    if not _is_strict(shape, nested, raw, body):
        return None
    frame = raw.with_columns(
        *(pl.col(n).str.to_date("%Y-%m-%d", strict=False) for n, f in shape.fields.items() if f.kind == "date"),
        *(pl.col(n).cast(KIND_TYPES[f.kind], strict=False) for n, f in shape.fields.items() if f.kind in DECIMALS),
    )
    # A date or number that turned into null did not fit, and a required field may not be null at all.
    if frame.null_count().row(0) != raw.null_count().row(0) or any(
        frame[name].null_count() for name, field in shape.fields.items() if field.required
    ):
        return None
    return Records(frame, [], _observe_rounding(shape, raw, frame))


# ---------------------------------------------------------------------------------------------------------------------


def _arrow_type(group: Group, tree: dict[str, Any]) -> pa.DataType:
    return pa.struct(
        [
            (key, _arrow_type(group, sub) if isinstance(sub, dict) else _ARROW[group.fields[sub].kind])
            for key, sub in tree.items()
        ]
    )


def _count_keys(tree: dict[str, Any]) -> int:
    return sum(1 + _count_keys(sub) if isinstance(sub, dict) else 1 for sub in tree.values())


def _at(path: str) -> pl.Expr:
    first, *rest = path.split(".")
    expression = pl.col("r").struct.field(first)
    for name in rest:
        expression = expression.struct.field(name)
    return expression


def _is_plain(shape: Strict, body: bytes, count: int) -> bool:
    """Tell by its bytes whether Arrow can be trusted with a body: UTF-8, tame decimals, no absent key.

    A quotation mark before a colon ends a key, unless it is escaped; so keys are counted at the speed of memchr. Blanks
    before a colon or escapes in a key make the count too small, and the batch goes down the exact path.
    """
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    if shape.key_count is None:
        has_all_keys = all(body.count(key) == count for key in shape.certain_keys)
    else:
        has_all_keys = b"\\" not in body and body.count(b'":') == 1 + shape.key_count * count
    if not has_all_keys or shape.decimal is None:
        return has_all_keys
    digits = body.translate(_CLASSES)
    return not any(odd in digits for odd in (b"0e0", b"0e+", b"0" * (DIGITS_MAX + 1)))


def _is_strict(shape: Strict, nested: pl.DataFrame, raw: pl.DataFrame, body: bytes) -> bool:
    """Tell whether nothing was coerced or absent that only the values show."""
    by_kind = {kind: [name for name, field in shape.fields.items() if field.kind == kind] for kind in _ARROW}
    dates = [raw[name].str for name in by_kind["date"]]
    if any(not date.contains(f"^{DATE.pattern}$").all() or date.starts_with("0000").any() for date in dates):
        return False
    if shape.key_count is None:
        decimals = sum(raw[name].count() for kind in DECIMALS for name in by_kind[kind])
        literals = len(shape.decimal.findall(body)) if shape.decimal else 0
        return literals == decimals and not _lacks_keys(shape, nested)
    codes = [raw[name].explode(empty_as_null=False, keep_nulls=False) for name in by_kind["codes"]]
    if any(code.null_count() for code in codes):
        return False
    # Every key and every text is two quotation marks; any more are those of numbers in strings.
    strings = sum(raw[name].count() for kind in ("text", "date") for name in by_kind[kind]) + sum(map(len, codes))
    return body.count(b'"') == 2 * (1 + shape.key_count * len(raw) + strings)


def _lacks_keys(shape: Strict, nested: pl.DataFrame) -> bool:
    """Tell whether an inner value is null that may only be so together with the object around it."""
    inner = [field.path for field in shape.fields.values() if not field.may_miss and "." in field.path]
    lacking = [_at(path.rpartition(".")[0]).is_not_null() & _at(path).is_null() for path in inner]
    return any(nested.select(lack.any()).item() for lack in lacking)


def _observe_rounding(shape: Strict, raw: pl.DataFrame, frame: pl.DataFrame) -> list[Observation]:
    found = []
    for name, field in shape.fields.items():
        if field.kind in ROUNDED:
            lost = raw.filter(pl.col(name) != frame[name].cast(pl.Decimal(38, 20)))
            if lost.height:
                example = plain(lost[name][0])
                found.append(Observation("rounded_value", field.path, example, lost["record"][0], lost.height))
    return found
