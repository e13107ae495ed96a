"""Raw records become a frame by the contract: two strict fast paths, and an exact one for whatever they refuse.

Records of the same text but for their digits go through `regular.py`. Others go through Arrow's JSON reader with the
contract as explicit schema. It keeps decimals exact, and refuses unknown and repeated keys, other types and fractions
of an integer. What it would let pass (a number in a string or out of range, an absent key, an impossible date) is
looked for before and after. Any doubt sends a batch through again in smaller pieces, and the smallest down the exact
path: record by record, splitting good records from rejects. All give the same frame.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from math import isinf
from typing import Any, NamedTuple

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.json
from msgspec import Raw

from firmlake.api.contract import DATASETS, Field, Group
from firmlake.tables.regular import Regular, read_regular, regular_shape
from firmlake.tables.schemas import KIND_TYPES

__all__ = ["Observation", "Records", "Reject", "read_records"]

_BATCHES = (8000, 1000)
"""Records read at once: so many cost least; where one of them is odd, only its thousand goes down the exact path."""


class Reject(NamedTuple):
    """A record that does not fit the contract: its index, the place of the field, and what is wrong."""

    record: int
    path: str
    reason: str


class Observation(NamedTuple):
    """A difference from the contract that cost no record: its kind, place, an example, and how many records."""

    kind: str
    path: str
    example: str | None
    record: int
    records: int = 1


class Records(NamedTuple):
    """What was read.

    Attributes:
        frame: One row per good record: `record` (index), the fields by our names, `extra_json`.
        rejects: The others.
        observations: New, absent and rounded fields.
    """

    frame: pl.DataFrame
    rejects: list[Reject]
    observations: list[Observation]


def read_records(dataset: str, group: str, raws: Sequence[Raw]) -> Records:
    """Read records of one group of a dataset, as `firmlake.api.answers` took them out of an answer: valid JSON.

    Money, integers, dates and texts are exact or rejected. Fractions and ratios with more decimals than their type
    are rounded half to even, and that is an observation ("rounded_value").
    """
    shape = _SHAPES[dataset, group]
    parts = list(_read_batches(shape, raws, 0, *_BATCHES))
    return Records(
        pl.concat([part.frame for part in parts]) if parts else pl.DataFrame(schema=shape.schema),
        [reject for part in parts for reject in part.rejects],
        [observation for part in parts for observation in part.observations],
    )


# ---------------------------------------------------------------------------------------------------------------------

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
_ROUNDED = ("ratio", "fraction")
_DECIMALS = ("money", *_ROUNDED)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_DIGITS_MAX = 17
"""More in a row, or an exponent, and Arrow's decimals are not to be trusted: it takes 1e20 for 1318113592927845595.62,
and looks up the power of ten of 1e-999999 outside of its table, which can end the process (seen with Arrow 26.0)."""
_CLASSES = bytes.maketrans(b"123456789E-", b"000000000e+")


class _Shape(NamedTuple):
    """What both paths need to know of a group, worked out once."""

    fields: dict[str, Field]
    tree: dict[str, Any]
    parse: pyarrow.json.ParseOptions
    schema: pl.Schema
    key_count: int | None
    """Keys of a record, where none may be absent."""
    certain_keys: tuple[bytes, ...]
    """Else the outer keys that every record has."""
    optional: frozenset[str]
    """Objects that may be null: some of what they hold may be absent anyway."""
    decimal: re.Pattern[bytes] | None
    """A decimal that is not in a string, where there are any."""
    regular: Regular | None
    """Where records without free text may be read faster still."""


def _shape(group: Group) -> _Shape:
    tree: dict[str, Any] = {}
    for field in group.fields.values():
        *parents, leaf = field.path.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[leaf] = field
    decimals = [re.escape(f.path.split(".")[-1]) for f in group.fields.values() if f.kind in _DECIMALS]
    is_fixed = not any(field.may_miss for field in group.fields.values())
    certain = {field.path.partition(".")[0] for field in group.fields.values() if not field.may_miss}
    return _Shape(
        group.fields,
        tree,
        pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([("r", pa.list_(_arrow_type(tree)))]),
            unexpected_field_behavior="error",
            newlines_in_values=True,
        ),
        pl.Schema(
            {
                "record": pl.UInt32(),
                **{n: KIND_TYPES[f.kind] for n, f in group.fields.items()},
                "extra_json": pl.String(),
            }
        ),
        _count_keys(tree) if is_fixed else None,
        tuple(f'"{key}":'.encode() for key in sorted(certain)),
        frozenset(field.path.rpartition(".")[0] for field in group.fields.values() if field.may_miss),
        re.compile(rb'"(?:%s)"\s*:\s*[-0-9]' % "|".join(decimals).encode()) if decimals else None,
        regular_shape(group),
    )


def _arrow_type(tree: dict[str, Any]) -> pa.DataType:
    return pa.struct(
        [(key, _ARROW[sub.kind] if isinstance(sub, Field) else _arrow_type(sub)) for key, sub in tree.items()]
    )


def _count_keys(tree: dict[str, Any]) -> int:
    return sum(1 if isinstance(sub, Field) else 1 + _count_keys(sub) for sub in tree.values())


_SHAPES = {(dataset, name): _shape(group) for dataset, d in DATASETS.items() for name, group in d.groups.items()}


def _read_batches(shape: _Shape, raws: Sequence[Raw], begin: int, size: int, *smaller: int) -> Iterator[Records]:
    """Read batches of a size, those with anything odd in smaller ones, and the smallest exactly."""
    for start in range(0, len(raws), size):
        batch = raws[start : start + size]
        if read := _read_regularly(shape, batch, begin + start) or _read_fast(shape, batch, begin + start):
            yield read
        elif smaller:
            yield from _read_batches(shape, batch, begin + start, *smaller)
        else:
            yield _read_exactly(shape, batch, begin + start)


def _read_regularly(shape: _Shape, raws: Sequence[Raw], start: int) -> Records | None:
    if shape.regular is None or (frame := read_regular(shape.regular, raws, start)) is None:
        return None
    return Records(frame.with_columns(pl.lit(None, pl.String).alias("extra_json")), [], [])


def _read_fast(shape: _Shape, raws: Sequence[Raw], start: int) -> Records | None:
    """Read a batch with Arrow, or give None where anything is odd."""
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
        *(pl.col(n).cast(KIND_TYPES[f.kind], strict=False) for n, f in shape.fields.items() if f.kind in _DECIMALS),
    )
    # A date or number that turned into null did not fit, and a required field may not be null at all.
    if frame.null_count().row(0) != raw.null_count().row(0) or any(
        frame[name].null_count() for name, field in shape.fields.items() if field.required
    ):
        return None
    return Records(frame, [], _observe_rounding(shape, raw, frame))


def _at(path: str) -> pl.Expr:
    first, *rest = path.split(".")
    expression = pl.col("r").struct.field(first)
    for name in rest:
        expression = expression.struct.field(name)
    return expression


def _is_plain(shape: _Shape, body: bytes, count: int) -> bool:
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
    return not any(odd in digits for odd in (b"0e0", b"0e+", b"0" * (_DIGITS_MAX + 1)))


def _is_strict(shape: _Shape, nested: pl.DataFrame, raw: pl.DataFrame, body: bytes) -> bool:
    """Tell whether nothing was coerced or absent that only the values show."""
    by_kind = {kind: [name for name, field in shape.fields.items() if field.kind == kind] for kind in _ARROW}
    dates = [raw[name].str for name in by_kind["date"]]
    if any(not date.contains(f"^{_DATE.pattern}$").all() or date.starts_with("0000").any() for date in dates):
        return False
    if shape.key_count is None:
        decimals = sum(raw[name].count() for kind in _DECIMALS for name in by_kind[kind])
        literals = len(shape.decimal.findall(body)) if shape.decimal else 0
        return literals == decimals and not _lacks_keys(shape, nested)
    codes = [raw[name].explode(empty_as_null=False, keep_nulls=False) for name in by_kind["codes"]]
    if any(code.null_count() for code in codes):
        return False
    # Every key and every text is two quotation marks; any more are those of numbers in strings.
    strings = sum(raw[name].count() for kind in ("text", "date") for name in by_kind[kind]) + sum(map(len, codes))
    return body.count(b'"') == 2 * (1 + shape.key_count * len(raw) + strings)


def _lacks_keys(shape: _Shape, nested: pl.DataFrame) -> bool:
    """Tell whether an inner value is null that may only be so together with the object around it."""
    inner = [field.path for field in shape.fields.values() if not field.may_miss and "." in field.path]
    lacking = [_at(path.rpartition(".")[0]).is_not_null() & _at(path).is_null() for path in inner]
    return any(nested.select(lack.any()).item() for lack in lacking)


def _observe_rounding(shape: _Shape, raw: pl.DataFrame, frame: pl.DataFrame) -> list[Observation]:
    found = []
    for name, field in shape.fields.items():
        if field.kind in _ROUNDED:
            lost = raw.filter(pl.col(name) != frame[name].cast(pl.Decimal(38, 20)))
            if lost.height:
                example = _plain(lost[name][0])
                found.append(Observation("rounded_value", field.path, example, lost["record"][0], lost.height))
    return found


def _plain(value: Decimal) -> str:
    """Print a decimal without trailing zeros and, where it would not fill a page, without an exponent."""
    if abs(value.adjusted()) > _PLAIN_MAX or len(value.as_tuple().digits) > _PLAIN_MAX:
        return f"{value:.{_DIGITS_MAX}g}"
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# --- the exact path --------------------------------------------------------------------------------------------------

_ENCODE = msgspec.json.Encoder(decimal_format="number").encode
_INT64 = 2**63
_PLAIN_MAX = 60


class _MisfitError(ValueError):
    """A value does not fit; the text says why."""


def _read_exactly(shape: _Shape, raws: Sequence[Raw], start: int) -> Records:
    """Read a batch record by record."""
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    observations: list[Observation] = []
    for record, raw in enumerate(raws, start):
        seen: list[Observation] = []
        path = ""
        try:
            content = _load(raw)
            row: dict[str, Any] = {"record": record}
            for name, field in shape.fields.items():
                path = field.path
                row[name] = _value(field, path.rpartition(".")[0] in shape.optional, content, record, seen)
            path = ""
            row["extra_json"] = _extra(shape.tree, content, record, seen)
        except _MisfitError as misfit:
            rejects.append(Reject(record, path, str(misfit)))
        else:
            rows.append(row)
            observations += seen
    return Records(pl.DataFrame(rows, schema=shape.schema), rejects, observations)


def _load(raw: Raw) -> dict[str, Any]:
    try:
        content = json.loads(
            bytes(raw),
            parse_float=Decimal,
            parse_int=_read_integer,
            parse_constant=_refuse_constant,
            object_pairs_hook=_without_doubles,
        )
    except _MisfitError:
        raise
    except InvalidOperation:
        raise _MisfitError("an exponent too big to read") from None
    except (ValueError, RecursionError) as error:
        raise _MisfitError(f"not readable as JSON: {error}") from None
    if not isinstance(content, dict):
        raise _MisfitError(f"an object was expected, not {_name(content)}")
    return content


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise _MisfitError("a key stands there twice")
    return content


def _read_integer(text: str) -> int | Decimal:
    """Read integers of 64 bits as such; of longer ones Python itself would refuse some."""
    return int(text) if len(text) <= len(str(-_INT64)) else Decimal(text)


def _refuse_constant(text: str) -> None:
    raise _MisfitError(f"{text} is no JSON number")


def _value(field: Field, may_be_null: bool, content: dict[str, Any], record: int, seen: list[Observation]) -> Any:
    """Read a field; `may_be_null` says that the object around it may be null, and so lack it."""
    value: Any = content
    for key in field.path.split("."):
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif value is None or isinstance(value, dict):
            if field.required:
                raise _MisfitError("the key is missing")
            if not field.may_miss and not (value is None and may_be_null):
                seen.append(Observation("vanished_field", field.path, None, record))
            return None
        else:
            raise _MisfitError(f"an object was expected around it, not {_name(value)}")
    if value is None:
        if field.required:
            raise _MisfitError("null, but a record without it says nothing")
        return None
    converted = _CONVERT[field.kind](value)
    if field.kind in _ROUNDED and converted != value:
        seen.append(Observation("rounded_value", field.path, _plain(value), record))
    return converted


def _extra(tree: dict[str, Any], content: dict[str, Any], record: int, seen: list[Observation]) -> str | None:
    """Collect what the contract does not know, by path."""
    extra = dict(_unknown(tree, content, ""))
    try:
        seen += [Observation("new_field", path, _ENCODE(value).decode()[:200], record) for path, value in extra.items()]
        return _ENCODE(extra).decode() if extra else None
    except (ValueError, OverflowError, RecursionError) as error:
        raise _MisfitError(f"an unknown field cannot be kept: {error}") from None


def _unknown(tree: dict[str, Any], content: dict[str, Any], prefix: str) -> list[tuple[str, Any]]:
    found = []
    for key, value in content.items():
        known = tree.get(key)
        if known is None:
            found.append((prefix + key, value))
        elif isinstance(known, dict) and isinstance(value, dict):
            found += _unknown(known, value, f"{prefix}{key}.")
    return found


def _name(value: Any) -> str:
    kinds = {dict: "an object", list: "an array", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _to_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _MisfitError(f"a text was expected, not {_name(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _MisfitError("the text holds half a character") from None
    return value


def _to_date(value: Any) -> date:
    try:
        if _DATE.fullmatch(_to_text(value)):
            return date.fromisoformat(value)
    except ValueError as error:
        raise _MisfitError(f"{value[:40]!r} is no date YYYY-MM-DD" if isinstance(value, str) else str(error)) from None
    raise _MisfitError(f"{value[:40]!r} is no date YYYY-MM-DD")


def _to_number(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise _MisfitError(f"a number was expected, not {_name(value)}")
    return Decimal(value)


def _to_integer(value: Any) -> int:
    number = _to_number(value)
    if not isinstance(value, int) or not -_INT64 <= value < _INT64:
        raise _MisfitError(
            f"{number:.40} is no integer of 64 bits" if abs(number) < Decimal(10) ** 40 else "an integer too big"
        )
    return value


def _to_decimal(precision: int, scale: int, rounds: bool) -> Callable[[Any], Decimal]:
    step, limit = Decimal(1).scaleb(-scale), Decimal(10) ** (precision - scale)

    def convert(value: Any) -> Decimal:
        number = _to_number(value)
        if abs(number) >= limit:
            raise _MisfitError(f"more than {precision - scale} digits before the point")
        try:
            fitted = number.quantize(step, ROUND_HALF_EVEN)
        except InvalidOperation:
            raise _MisfitError("a number too long to read exactly") from None
        if fitted != number and not rounds:
            raise _MisfitError(f"{_plain(number)[:40]} has more than {scale} decimals")
        if abs(fitted) >= limit:
            raise _MisfitError(f"more than {precision - scale} digits before the point")
        return fitted

    return convert


def _to_float(value: Any) -> float:
    number = float(_to_number(value))
    if isinf(number):
        raise _MisfitError("a number too big")
    return number


def _to_codes(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise _MisfitError(f"an array of texts was expected, not {_name(value)}")
    return [_to_text(code) for code in value]


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "text": _to_text,
    "date": _to_date,
    "integer": _to_integer,
    "money": _to_decimal(18, 2, rounds=False),
    "ratio": _to_decimal(12, 4, rounds=True),
    "fraction": _to_decimal(9, 6, rounds=True),
    "score": _to_float,
    "codes": _to_codes,
}
