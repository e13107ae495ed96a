"""Decode many records at once, as structs of JSON values.

The fields of a struct are the known keys, and the unknown keys found in a sample of the records. If a record has any
other key, this module returns nothing, and `singly.py` decodes each record separately.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from firmlake.api.contract import Group
from firmlake.tables.notes import UNREADABLE, Notes
from firmlake.tables.objects import NULL, Row, Shape, read_object, taker
from firmlake.tables.reading import Leaf

__all__ = ["Place", "learn_unknown", "names_company", "take_together"]

_LEARNT_FROM = 20
"""Number of records sampled for unknown keys."""
_ABSENT = Raw(b"\tnull")
"""Null after a character that begins no other value, so that absent keys can be counted."""
_LATE_COLON = re.compile(rb'"\s+:')

Place = tuple[str, str]
"""An object's path, empty for the record itself, and a key in it."""


class _Part(NamedTuple):
    """An object of a struct: its attribute, the value for an absent object, and the function that takes its values."""

    attribute: str
    absent: Any
    take: Callable[[Any], Row]
    leaf_count: int
    unknown: tuple[str, ...]


class _Form(NamedTuple):
    """Structs for records with certain unknown keys: how to decode an array of them, and their objects."""

    decode: Callable[[bytes], list[Any]]
    parts: tuple[_Part, ...]


def take_together(shape: Shape, raws: Sequence[Raw], start: int, notes: Notes) -> list[Row] | None:
    """Return the values of each field, one per record; None, without notes, if a record is irregular.

    Args:
        shape: The shape of the records.
        raws: Records, each valid JSON.
        start: Number of the first record in the notes.
        notes: Receives unknown keys.
    """
    text = b",".join(raws)
    try:
        unknown = learn_unknown(shape, raws)
        form = _make_form(tuple((each.path, each.leaves) for each in shape.objects), unknown)
        records = form.decode(b"[" + text + b"]")
    except (*UNREADABLE, ValueError, TypeError):  # the latter two: a key that cannot be a field of a struct
        return None
    if shape.group.elsewhere and names_company(shape.group, unknown):
        return None
    columns: list[Row] = []
    extra: dict[str, Row] = {}
    at_top: list[Sequence[Any]] = []
    for part in form.parts:
        holders = records
        if part.attribute:
            at_top.append(list(map(attrgetter(part.attribute), records)))
            holders = [each or part.absent for each in at_top[-1]]
        taken = list(zip(*map(part.take, holders), strict=True))
        columns += taken[: part.leaf_count]
        extra |= dict(zip(part.unknown, taken[part.leaf_count :], strict=True))
    absent = [part.absent for part in form.parts if part.attribute]
    if extra and shape.group.is_open and any(map(tuple(absent).__eq__, zip(*at_top, strict=True))):
        return None  # a record may have another shape
    # A value may contain the text by which keys are counted. Counts then differ, and `singly.py` reads the records.
    values = [*columns, *extra.values()]
    key_count = len(raws) * (len(values) + len(at_top)) - sum(
        found.count(each) for found, each in zip(at_top, absent, strict=True)
    )
    key_count -= sum(b",".join(column).count(_ABSENT) for column in values)
    key_count += sum(b",".join(column).count(b'":') for column in extra.values())
    if text.count(b'":') != key_count or _has_late_colon(text):
        return None
    _keep_unknown(extra, start, notes)
    return columns


@lru_cache(maxsize=64)
def _make_form(objects: tuple[tuple[str, tuple[Leaf, ...]], ...], unknown: tuple[Place, ...]) -> _Form:
    """Make the structs of a group.

    Args:
        objects: Paths and leaves of its objects, the record itself first.
        unknown: The paths of objects whose records have other keys.
    """
    parts: list[_Part] = []
    inner: list[tuple[str, str]] = []
    for place, (path, leaves) in [*enumerate(objects)][::-1]:
        keys = [leaf.path.rpartition(".")[2] for leaf in leaves]
        more = [key for of, key in unknown if of == path]
        names = {f"value_{number}": key for number, key in enumerate([*keys, *more])}
        fields: list[tuple[str, Any, Any]] = [(name, Raw, _ABSENT) for name in names]
        if not path:
            fields += [(part.attribute, type(part.absent) | None, part.absent) for part in parts]
            names |= inner
        made = msgspec.defstruct("Record", fields, rename=names, gc=False, frozen=True, eq=False)
        attribute = f"object_{place}" if path else ""
        if path:
            inner.append((attribute, path))
        prefix = f"{path}." if path else ""
        take = taker(attrgetter, list(names)[: len(keys) + len(more)])
        parts.append(_Part(attribute, made(), take, len(keys), tuple(prefix + key for key in more)))
    return _Form(msgspec.json.Decoder(list[made]).decode, tuple(parts[::-1]))  # type: ignore[valid-type]


def learn_unknown(shape: Shape, raws: Sequence[Raw]) -> tuple[Place, ...]:
    """Find the unknown keys of some of the records."""
    found = set()
    for raw in raws[:: len(raws) // _LEARNT_FROM + 1]:
        content = read_object(raw)
        for each in shape.objects:
            inner = content.get(each.path, NULL) if each.path else raw
            if bytes(inner) != b"null":
                found |= {(each.path, key) for key in read_object(inner).keys() - each.empty.keys()}
    return tuple(sorted(found))


def _has_late_colon(text: bytes) -> bool:
    """Tell whether a blank stands between a key and its colon, which makes counting quote and colon wrong."""
    return _LATE_COLON.search(text) is not None


def names_company(group: Group, unknown: Iterable[Place]) -> bool:
    """Tell whether unknown keys are among those by which services name the related company."""
    paths = {path for way in group.elsewhere for path in way}
    return any(
        f"{of}.{key}" in paths if of else key in {path.partition(".")[0] for path in paths} for of, key in unknown
    )


def _keep_unknown(extra: dict[str, Row], start: int, notes: Notes) -> None:
    for path, column in extra.items():
        there = [place for place, value in enumerate(column) if value is not _ABSENT]
        if there:
            notes.observe("new_field", path, column[there[0]], start + there[0], len(there))
    for place, row in enumerate(zip(*extra.values(), strict=True)):
        if kept := {path: value for path, value in zip(extra, row, strict=True) if value is not _ABSENT}:
            notes.keep(start + place, kept)
