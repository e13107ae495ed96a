"""The exact way to read records, one by one: splits good records from rejects, and says why."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from math import isinf
from typing import Any, NamedTuple

import msgspec
import polars as pl
from msgspec import Raw

from firmlake.api.contract import Field, Group
from firmlake.tables.reading import DATE, ROUNDED, Observation, Records, Reject, field_tree, plain
from firmlake.tables.schemas import KIND_TYPES

__all__ = ["Exact", "exact_shape", "read_exactly"]

_ENCODE = msgspec.json.Encoder(decimal_format="number").encode
_INT64 = 2**63


class Exact(NamedTuple):
    """What is to be known of a group, worked out once."""

    fields: dict[str, Field]
    tree: dict[str, Any]
    optional: frozenset[str]
    """Objects that may be null: some of what they hold may be absent anyway."""
    schema: pl.Schema


def exact_shape(group: Group) -> Exact:
    """Make the shape of a group."""
    kinds = {name: KIND_TYPES[field.kind] for name, field in group.fields.items()}
    return Exact(
        group.fields,
        field_tree(group),
        frozenset(field.path.rpartition(".")[0] for field in group.fields.values() if field.may_miss),
        pl.Schema({"record": pl.UInt32(), **kinds, "extra_json": pl.String()}),
    )


class _MisfitError(ValueError):
    """A value does not fit; the text says why."""


def read_exactly(shape: Exact, raws: Sequence[Raw], start: int) -> Records:
    """Read records, each by itself; their arguments as for `read_strictly`."""
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
    if field.kind in ROUNDED and converted != value:
        seen.append(Observation("rounded_value", field.path, plain(value), record))
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
        if DATE.fullmatch(_to_text(value)):
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
            raise _MisfitError(f"{plain(number)[:40]} has more than {scale} decimals")
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
