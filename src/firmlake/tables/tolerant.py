"""The way to read records of any shape: a value that does not fit costs neither its record nor the others.

Each record is taken apart into JSON values by place, an absent key being null. Values of one field are then read
together. What the contract does not know, and every value that does not fit, goes into `extra_json` as received.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import polars as pl
from msgspec import Raw

from firmlake.api.contract import Group
from firmlake.tables.cells import ROUNDED, MisfitError, moved, plain, read_cell, read_column, read_columns
from firmlake.tables.reading import Leaf, Observation, Records, Reject, record_schema
from firmlake.tables.schemas import KIND_TYPES

__all__ = ["EFFECTS", "WHOLE", "Tolerant", "read_tolerantly", "tolerant_shape"]

WHOLE = "value"
"""Key in `extra_json` of a record that is no object."""

_NULL = Raw(b"null")
_OBJECT = msgspec.json.Decoder(dict[str, Raw]).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_LATE_COLON = re.compile(rb'"\s+:')
_SHOWN_MAX = 200
_NOT_THERE = "missing or null, but a record without it says nothing"
_ENCODE = msgspec.json.Encoder().encode

EFFECTS = {"discard_value": "value", "discard_record": "record", "stop": "stop"}
"""What each mode does to a value that does not fit, the mildest first."""


class _Object(NamedTuple):
    """An object of a record: its prefix, its keys with null for each, and how to take the values of its leaves."""

    path: str
    empty: dict[str, Raw]
    take: Callable[[dict[str, Raw]], tuple[Raw, ...]]
    leaves: tuple[Leaf, ...]


class Tolerant(NamedTuple):
    """What is to be known of a group, worked out once; the record itself is the first of the objects."""

    group: Group
    objects: tuple[_Object, ...]
    schema: pl.Schema


def tolerant_shape(group: Group, leaves: Sequence[Leaf]) -> Tolerant:
    """Make the shape of a group, whose objects are at most one deep."""
    prefixes = dict.fromkeys(leaf.path.rpartition(".")[0] for leaf in leaves)
    objects = []
    for prefix in ["", *filter(None, prefixes)]:
        own = tuple(leaf for leaf in leaves if leaf.path.rpartition(".")[0] == prefix)
        keys = [leaf.path.rpartition(".")[2] for leaf in own]
        inner = [name for name in prefixes if name] if not prefix else []
        objects.append(_Object(prefix, dict.fromkeys([*keys, *inner], _NULL), _taker(keys), own))
    return Tolerant(group, tuple(objects), record_schema({leaf.name: KIND_TYPES[leaf.kind] for leaf in leaves}))


def read_tolerantly(shape: Tolerant, raws: Sequence[Raw], start: int) -> Records:
    """Read records, each valid JSON.

    Args:
        shape: Of their group.
        raws: The records.
        start: Index of the first.
    """
    reader = _Reader(shape, start)
    for raw in raws:
        reader.add(raw)
    text = b",".join(raws)
    # A quotation mark before a colon ends a key, so that a repeated key shows in their number.
    if text.count(b'":') != reader.key_count or _LATE_COLON.search(text):
        reader = _Reader(shape, start)
        for raw in raws:
            reader.add(_join_repeated(raw))
    return reader.read()


# ---------------------------------------------------------------------------------------------------------------------


def _taker(keys: Sequence[str]) -> Callable[[dict[str, Raw]], tuple[Raw, ...]]:
    if len(keys) < 2:
        return lambda content: tuple(content[key] for key in keys)
    return itemgetter(*keys)


class _Reader:
    """Records on their way into columns."""

    def __init__(self, shape: Tolerant, start: int) -> None:
        self.key_count = 0
        self._shape = shape
        self._start = start
        self._rows: list[list[tuple[Raw, ...]]] = [[] for _ in shape.objects]
        self._extra: dict[int, dict[str, Raw]] = {}
        self._rejects: list[Reject] = []
        self._seen: dict[tuple[str, str], tuple[int, Raw | None]] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, raw: Raw) -> None:
        """Take a record apart."""
        top, *inner = self._shape.objects
        number = len(self._rows[0])
        try:
            content = _OBJECT(raw)
        except _UNREADABLE as error:
            content = {}
            self._refuse(number, raw, error)
        merged, unknown = top.empty | content, {}
        self.key_count += len(content)
        if len(merged) > len(top.empty):
            unknown = {key: value for key, value in content.items() if key not in top.empty}
        rows = [top.take(merged)]
        rows += [each.take(self._open(number, each, merged[each.path], unknown)) for each in inner]
        if unknown:
            self.key_count += sum(bytes(value).count(b'":') for value in unknown.values())
            rows = self._add_unknown(number, content, rows, unknown)
        for column, row in zip(self._rows, rows, strict=True):
            column.append(row)

    def read(self) -> Records:
        """Read the values, all fields at once where they are plain, else field by field."""
        count = len(self._rows[0])
        columns = [pl.int_range(self._start, self._start + count, dtype=pl.UInt32, eager=True).alias("record")]
        cells = dict(self._cells())
        numbers = [leaf for leaf in cells if leaf.kind not in ("text", "codes")]
        plain = numbers and read_columns(numbers, list(zip(*(cells[leaf] for leaf in numbers), strict=True)))
        read = {column.name: column for column in plain or ()}
        columns += [read[leaf.name] if leaf.name in read else self._read_leaf(leaf, cells[leaf]) for leaf in cells]
        for leaf, column in zip(cells, columns[1:], strict=True):
            if leaf.required and column.null_count():
                self._refuse_lacking(leaf, column)
        extra = [_as_json(self._extra[number]) if number in self._extra else None for number in range(count)]
        columns.append(pl.Series("extra_json", extra, pl.String))
        frame = pl.DataFrame(columns).select(*self._shape.schema)
        lost = {reject.record: reject for reject in reversed(self._rejects) if reject.effect == "record"}
        if lost:
            frame = frame.filter(~pl.col("record").is_in(list(lost)))
        rejects = [reject for reject in self._rejects if reject.record not in lost]
        return Records(
            frame,
            sorted([*rejects, *lost.values()], key=lambda reject: reject.record),
            [
                Observation(*key, None if example is None else _shown(example), self._start + number, self._counts[key])
                for key, (number, example) in self._seen.items()
            ],
        )

    def _open(self, number: int, each: _Object, value: Raw, unknown: dict[str, Raw]) -> dict[str, Raw]:
        """Open an object inside a record; null is one without anything in it."""
        if value is _NULL:
            return each.empty
        try:
            content = _OBJECT(value)
        except _UNREADABLE:
            if bytes(value) != b"null":
                self._discard(number, each.path, value, "an object was expected", _strictest(each.leaves))
            return each.empty
        merged = each.empty | content
        self.key_count += len(content)
        if len(merged) > len(each.empty):
            unknown |= {f"{each.path}.{key}": value for key, value in content.items() if key not in each.empty}
        return merged

    def _add_unknown(
        self, number: int, content: dict[str, Raw], rows: list[tuple[Raw, ...]], unknown: dict[str, Raw]
    ) -> list[tuple[Raw, ...]]:
        """Keep what the contract does not know, except for a company that only stands in another place."""
        group, objects = self._shape.group, self._shape.objects
        if group.elsewhere:
            cells = {
                leaf.path: cell
                for each, row in zip(objects, rows, strict=True)
                for leaf, cell in zip(each.leaves, row, strict=True)
            }
            if found := _find_elsewhere(group, cells, unknown):
                self._observe("other_place", found, None, number)
                rows = [tuple(cells[leaf.path] for leaf in each.leaves) for each in objects]
            elif group.is_open and not content.keys() & objects[0].empty.keys():
                self._rejects.append(Reject(self._start + number, "", None, "none of its fields is known", "value"))
        if unknown:
            self._extra.setdefault(number, {}).update(unknown)
        for path, value in unknown.items():
            self._observe("new_field", path, value, number)
        return rows

    def _cells(self) -> Iterator[tuple[Leaf, Sequence[Raw]]]:
        for each, rows in zip(self._shape.objects, self._rows, strict=True):
            yield from zip(each.leaves, zip(*rows, strict=True), strict=True)

    def _read_leaf(self, leaf: Leaf, cells: Sequence[Raw]) -> pl.Series:
        column = read_column(leaf, cells)
        if column is not None:
            return column
        values = [self._read_cell(number, leaf, cell) for number, cell in enumerate(cells)]
        return pl.Series(leaf.name, values, KIND_TYPES[leaf.kind])

    def _refuse_lacking(self, leaf: Leaf, column: pl.Series) -> None:
        """Reject the records that lack a required value, where nothing was said about them yet."""
        known = {reject.record for reject in self._rejects if reject.effect == "record"}
        for number in column.is_null().arg_true():
            if self._start + number not in known:
                self._rejects.append(Reject(self._start + number, leaf.path, None, _NOT_THERE, "record"))

    def _read_cell(self, number: int, leaf: Leaf, cell: Raw) -> Any:
        try:
            value = read_cell(leaf, cell)
        except MisfitError as misfit:
            self._discard(number, leaf.path, cell, str(misfit), leaf.mode)
            return None
        if value is not None and leaf.kind in ROUNDED and value != (exact := moved(bytes(cell), leaf.shift)):
            self._observe("rounded_value", leaf.path, Raw(plain(exact).encode()), number)
        return value

    def _refuse(self, number: int, raw: Raw, error: Exception) -> None:
        """Reject a record that is no object, or keep it as it is where the shape of records is not known."""
        is_json = isinstance(error, msgspec.ValidationError)
        reason = "an object was expected" if is_json else f"not readable as JSON: {error}"
        self._discard(number, "", raw, reason, "discard_value" if self._shape.group.is_open else "discard_record")

    def _discard(self, number: int, path: str, value: Raw, reason: str, mode: str) -> None:
        self._rejects.append(Reject(self._start + number, path, _shown(value), reason, EFFECTS[mode]))
        self._extra.setdefault(number, {})[path or WHOLE] = value

    def _observe(self, kind: str, path: str, example: Raw | None, number: int) -> None:
        self._seen.setdefault((kind, path), (number, example))
        self._counts[kind, path] += 1


def _strictest(leaves: Sequence[Leaf]) -> str:
    """Give the strictest mode of the values in an object."""
    modes = {leaf.mode for leaf in leaves}
    return max(modes, key=list(EFFECTS).index)


def _find_elsewhere(group: Group, cells: dict[str, Raw], unknown: dict[str, Raw]) -> str:
    """Move what identifies a company from another place to where it belongs, and name that place; empty for none."""
    for prefix in {path.partition(".")[0] for way in group.elsewhere for path in way if "." in path} & unknown.keys():
        try:
            inner = _OBJECT(unknown[prefix])
        except _UNREADABLE:
            continue
        del unknown[prefix]
        unknown |= {f"{prefix}.{key}": value for key, value in inner.items()}
    for way in group.elsewhere:
        if all(_is_there(cells[path]) for path in way.values()):
            return ""
        if all(_is_there(unknown.get(path, cells.get(path, _NULL))) for path in way):
            cells |= {usual: unknown.pop(path, cells.get(path, _NULL)) for path, usual in way.items()}
            return ", ".join(way)
    return ""


def _is_there(value: Raw) -> bool:
    return value is not _NULL and bytes(value) != b"null"


def _join_repeated(raw: Raw) -> Raw:
    """Give a record with keys that stand there twice the values of each as an array of arrays, which never fits."""
    found = []

    def join(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            found.append(content)
            values: dict[str, list[Any]] = {}
            for key, value in pairs:
                values.setdefault(key, []).append(value)
            content = {key: each[0] if len(each) == 1 else [each] for key, each in values.items()}
        return content

    def verbatim(number: str) -> Raw:
        return Raw(number.encode())

    try:
        content = json.loads(bytes(raw), parse_float=verbatim, parse_int=verbatim, object_pairs_hook=join)
        return Raw(msgspec.json.encode(content)) if found else raw
    except (ValueError, RecursionError):
        return raw


def _as_json(extra: dict[str, Raw]) -> str:
    """Write what is kept of a record, as received; what a database would refuse as JSON becomes a text."""
    text = b"{" + b",".join(_key(path) + b":" + value for path, value in extra.items()) + b"}"
    if b"\\u" in text or not text.isascii():
        try:
            msgspec.json.decode(text)
        except _UNREADABLE:
            return _ENCODE({path: bytes(value).decode("utf-8", "replace") for path, value in extra.items()}).decode()
    return text.decode()


@lru_cache(maxsize=4096)
def _key(path: str) -> bytes:
    return _ENCODE(path)


def _shown(value: Raw) -> str:
    return bytes(value).decode("utf-8", "replace")[:_SHOWN_MAX]
