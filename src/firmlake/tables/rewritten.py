"""Rewrite irregular records in the shape of the contract, so that `regular.py` can read them.

Irregular records leave out nulls or whole objects, order the keys in another way, or have fields that the contract does
not know. Each record is decoded into a struct of JSON values: values stay as received, absent keys become null, and
unknown keys go into `extra_json`. Keys are counted before and after, which finds repeated keys and keys missing from
the struct. `tolerant.py` decodes records with such keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import starmap
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from firmlake.tables.notes import UNREADABLE, shown
from firmlake.tables.objects import Shape, taker
from firmlake.tables.reading import Observation
from firmlake.tables.regular import Regular
from firmlake.tables.structs import Place, learn_unknown, names_company

__all__ = ["Known", "Rewritten", "known_keys", "rewrite"]

_ABSENT = b"\tnull"
"""Null after a character that begins no other value, so that absent keys can be counted."""
_KEY = b'":'
_AT_ONCE = 200
"""Records written at once. Their text fits into the processor's cache, which halves the time."""
_BLANKS = (b" ", b"\n", b"\r")
_LATE_COLON = re.compile(rb'"\s+:')
_LINES = msgspec.json.Encoder().encode_lines


class Rewritten(NamedTuple):
    """Records in the shape of the contract, one per line.

    Attributes:
        extra: The unknown fields of each record as JSON, or None if it has none; empty if no record has any.
        observations: The fields that the contract does not know.
    """

    lines: list[bytes]
    extra: list[str | None]
    observations: list[Observation]


class Known(NamedTuple):
    """What the decoding of a group needs, computed once per group.

    Attributes:
        decode: Decodes an array of records into structs with the keys of the contract, in its order.
        objects: The replacement of an absent object, by attribute of the struct.
        empty: The text of a null object and of an object without values, by attribute.
        key_count: The number of keys of a record, including those of its objects.
    """

    decode: Callable[[bytes], list[Any]]
    objects: dict[str, Any]
    empty: dict[str, tuple[bytes, bytes]]
    key_count: int


def known_keys(regular: Regular) -> Known:
    """Compute what the decoding of a group of this shape needs."""
    fields: list[tuple[str, Any, Any]] = []
    names: dict[str, str] = {}
    objects: dict[str, Any] = {}
    empty: dict[str, tuple[bytes, bytes]] = {}
    for number, (key, inner) in enumerate(regular.tree.items()):
        name = f"value_{number}"
        names[name] = key
        if isinstance(inner, dict):
            made = _struct({f"value_{place}": each for place, each in enumerate(inner)}, Raw, Raw(_ABSENT))
            objects[name] = made()
            empty[name] = b'"%b":null' % key.encode(), b'"%b":%b' % (key.encode(), msgspec.json.encode(made()))
        fields.append((name, made | None, objects[name]) if name in objects else (name, Raw, Raw(_ABSENT)))
    inner_count = sum(len(inner) for inner in regular.tree.values() if isinstance(inner, dict))
    record = msgspec.defstruct("Record", fields, rename=names, gc=False, frozen=True, eq=False)
    return Known(msgspec.json.Decoder(list[record]).decode, objects, empty, len(regular.tree) + inner_count)  # type: ignore[valid-type]


def rewrite(known: Known, shape: Shape, raws: Sequence[Raw], start: int) -> Rewritten | None:
    """Rewrite records; None if one of them cannot be rewritten, or if nothing would change.

    Args:
        known: What the decoding of their group needs.
        shape: The shape of their group, for unknown fields.
        raws: Records, each valid JSON.
        start: Index of the first record.
    """
    lines: list[bytes] = []
    extra: list[str | None] = []
    notes: dict[str, Observation] = {}
    is_same = True
    try:
        order = [each.path for each in shape.objects]
        unknown = tuple(sorted(learn_unknown(shape, raws), key=lambda place: order.index(place[0])))
        if shape.group.elsewhere and names_company(shape.group, unknown):
            return None
        for first in range(0, len(raws), _AT_ONCE):
            text = b",".join(raws[first : first + _AT_ONCE])
            if b"\t" in text:  # a tab marks an absent key
                return None
            written, key_count = _write(known, text)
            if unknown:
                more, count = _take_unknown(_unknown_keys(unknown), b"[%b]" % text, start + first, notes)
                extra += more
                key_count += count
            if text.count(_KEY) != key_count or (any(blank in text for blank in _BLANKS) and _LATE_COLON.search(text)):
                return None
            is_same = is_same and not unknown and b",".join(written) == text
            lines += written
    except (*UNREADABLE, ValueError, TypeError, AttributeError):  # the last three for keys and objects no struct takes
        return None
    return None if is_same or len(lines) != len(raws) else Rewritten(lines, extra, list(notes.values()))


# ---------------------------------------------------------------------------------------------------------------------


def _write(known: Known, text: bytes) -> tuple[list[bytes], int]:
    """Write records in the shape of the contract, and count their known keys."""
    records = known.decode(b"[%b]" % text)
    lines = _LINES(records)
    absent = 0
    for name, each in known.objects.items():
        values = list(map(attrgetter(name), records))
        absent += values.count(each)
        if None in values:
            lines = lines.replace(*known.empty[name])
    written = lines.replace(_ABSENT, b"null")
    absent += len(lines) - len(written)
    return written.split(b"\n")[:-1], len(records) * known.key_count - absent


class _Unknown(NamedTuple):
    """The unknown fields of a group: how to decode them, take them from a record, and write them by path."""

    decode: Callable[[bytes], list[Any]]
    take: Callable[[Any], tuple[Any, ...]]
    paths: list[str]
    flat: Any


@lru_cache(maxsize=64)
def _unknown_keys(unknown: tuple[Place, ...]) -> _Unknown:
    fields: list[tuple[str, Any, Any]] = []
    names: dict[str, str] = {}
    paths: dict[str, str] = {}
    for number, of in enumerate(dict.fromkeys(of for of, _ in unknown)):
        keys = {f"value_{place}": key for place, (each, key) in enumerate(unknown) if each == of}
        if of:
            made = _struct(keys, Raw | UnsetType, UNSET)
            names[f"object_{number}"] = of
            fields.append((f"object_{number}", made, made()))
            paths |= {f"object_{number}.{name}": f"{of}.{key}" for name, key in keys.items()}
        else:
            names |= keys
            fields += [(name, Raw | UnsetType, UNSET) for name in keys]
            paths |= keys
    record = msgspec.defstruct("Unknown", fields, rename=names, gc=False, frozen=True, eq=False)
    flat = _struct({f"value_{place}": path for place, path in enumerate(paths.values())}, Raw | UnsetType, UNSET)
    decode = msgspec.json.Decoder(list[record]).decode  # type: ignore[valid-type]
    return _Unknown(decode, taker(attrgetter, list(paths)), list(paths.values()), flat)


def _take_unknown(
    form: _Unknown, array: bytes, start: int, notes: dict[str, Observation]
) -> tuple[list[str | None], int]:
    """Write the unknown fields of each record, note them by path, and count their keys.

    Raises:
        ValueError: A value holds a line feed, or an escape that a database may refuse.
    """
    rows = list(map(form.take, form.decode(array)))
    text = _LINES(starmap(form.flat, rows))
    lines = text.decode().split("\n")[:-1]
    if b"\\u" in text or len(lines) != len(rows):
        raise ValueError
    for path, column in zip(form.paths, zip(*rows, strict=True), strict=True):
        if count := len(column) - column.count(UNSET):
            place = next(place for place, value in enumerate(column) if value is not UNSET)
            known = notes.setdefault(path, Observation("new_field", path, shown(column[place]), start + place, 0))
            notes[path] = known._replace(records=known.records + count)
    return [None if line == "{}" else line for line in lines], text.count(_KEY)


def _struct(keys: dict[str, str], kind: Any, default: Any) -> type[msgspec.Struct]:
    fields = [(name, kind, default) for name in keys]
    return msgspec.defstruct("Object", fields, rename=keys, gc=False, frozen=True, eq=False)
