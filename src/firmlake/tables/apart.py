"""Take records apart into the values of their fields: all at once or, if anything is irregular, one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from firmlake.api.contract import Group
from firmlake.tables.leaves import Leaf
from firmlake.tables.notes import EFFECTS, Notes
from firmlake.tables.objects import (
    ABSENT,
    NO_STRUCTS,
    NULL,
    UNREADABLE,
    Object,
    Shape,
    decode_columns,
    learn_layout,
    make_form,
    read_object,
)
from firmlake.tables.unknown import names_company, note_unknown, unknown_keys

__all__ = ["take_apart"]

NO_IDENTITY = "it has fields that are not documented, and does not say in a documented way which company it is"
"""Why the shape of a related party is unknown. With the documented fields alone it is a person, or anonymous."""


def take_apart(shape: Shape, raws: Sequence[Raw], start: int) -> tuple[dict[Leaf, Sequence[Raw]], Notes]:
    """Return the values of each field, one per record, and notes about everything else in the records.

    Args:
        shape: Of the records.
        raws: Records, each valid JSON, at least one.
        start: Index of the first.
    """
    notes = Notes(start)
    taken: Sequence[Sequence[Raw]] | None = _take_together(shape, raws, notes)
    if taken is None:
        notes = Notes(start)
        taken = _take_each(shape, raws, notes)
    return dict(zip(shape.cells, taken, strict=True)), notes


# ---------------------------------------------------------------------------------------------------------------------


def _take_together(shape: Shape, raws: Sequence[Raw], notes: Notes) -> list[list[Raw]] | None:
    """Return the values of each field, one per record; None if a record is irregular.

    Args:
        shape: The shape of the records.
        raws: Records, each valid JSON.
        notes: Receives unknown fields. They are worthless if the result is None.
    """
    array = b"[%b]" % b",".join(raws)
    try:
        unknown = unknown_keys(shape, learn_layout(shape, raws))
        if names_company(shape.group, unknown):
            return None
        layout = [(each.path, each.keys + keys) for each, (_, keys) in zip(shape.objects, unknown, strict=True)]
        form = make_form(tuple(layout))
        values, objects = decode_columns(form, array)
        others = {(path, key): values.pop((path, key)) for path, keys in unknown for key in keys}
        text = note_unknown(others, notes) if others else b""
    except NO_STRUCTS:
        return None
    if others and shape.group.is_open and form.absent in zip(*objects, strict=True):
        return None  # a record may have another shape
    known = [*values.values()]
    absent_count = sum(column.count(ABSENT) for column in known)
    absent_count += sum(column.count(each) for column, each in zip(objects, form.absent, strict=True))
    key_count = len(raws) * (len(known) + len(objects)) - absent_count
    # Each key has one colon. More of them are in values, or belong to keys that stand twice.
    left = array.count(b":") - key_count - text.count(b":")
    if left and left != sum(msgspec.json.encode(column).count(b":") for column in known):
        return None
    return known


def _take_each(shape: Shape, raws: Sequence[Raw], notes: Notes) -> list[tuple[Raw, ...]]:
    """Return the values of each field, one per record. The values of a repeated key become one value that never fits.

    Args:
        shape: Of the records.
        raws: Records, each valid JSON.
        notes: Receives unknown keys, and records that are not objects.
    """
    rows = [_take(shape, _join_repeated(raw), place, notes) for place, raw in enumerate(raws)]
    return list(zip(*rows, strict=True))


def _take(shape: Shape, raw: Raw, number: int, notes: Notes) -> list[Raw]:
    """Return the values of a record's fields, and note everything else it holds."""
    top, *inner = shape.objects
    try:
        content = read_object(raw)
    except UNREADABLE as error:
        content = {}
        is_other = isinstance(error, msgspec.ValidationError)
        reason = "an object was expected" if is_other else f"not readable as JSON: {error}"
        notes.discard(number, "", raw, reason, "discard_value" if shape.group.is_open else "discard_record")
    merged = top.empty | content
    unknown = {key: content[key] for key in sorted(content.keys() - top.empty.keys())}
    values = [merged[key] for key in top.keys]
    for each in inner:
        opened = _open(each, merged[each.path], unknown, number, notes)
        values += [opened[key] for key in each.keys]
    if not unknown:
        return values
    if shape.group.elsewhere:
        cells = {leaf.path: value for leaf, value in zip(shape.cells, values, strict=True)}
        if found := _find_elsewhere(shape.group, cells, unknown):
            notes.observe("other_place", found, None, number)
            values = list(cells.values())
        elif shape.group.is_open and not content.keys() & {each.path for each in inner}:
            notes.reject(number, "", None, NO_IDENTITY, "value")
    if unknown:
        notes.keep(number, unknown)
    for path, value in unknown.items():
        notes.observe("new_field", path, value, number)
    return values


def _open(each: Object, value: Raw, unknown: dict[str, Raw], number: int, notes: Notes) -> dict[str, Raw]:
    """Open an object inside a record; null counts as an empty object, and so does [], as PHP writes one."""
    if bytes(value) in (b"null", b"[]"):
        return each.empty
    try:
        content = read_object(value)
    except UNREADABLE:
        notes.discard(number, each.path, value, "an object was expected", _strictest(each.leaves))
        return each.empty
    unknown |= {f"{each.path}.{key}": content[key] for key in sorted(content.keys() - each.empty.keys())}
    return each.empty | content


def _strictest(leaves: Sequence[Leaf]) -> str:
    """Return the strictest mode of the values in an object."""
    return max({leaf.mode for leaf in leaves}, key=list(EFFECTS).index)


def _find_elsewhere(group: Group, cells: dict[str, Raw], unknown: dict[str, Raw]) -> str:
    """Move a company's identification to its place from wherever it was found; return where, or an empty text."""
    for prefix in {path.partition(".")[0] for way in group.elsewhere for path in way if "." in path} & unknown.keys():
        try:
            inner = read_object(unknown[prefix])
        except UNREADABLE:
            continue
        del unknown[prefix]
        unknown |= {f"{prefix}.{key}": value for key, value in inner.items()}
    for way in group.elsewhere:
        if all(_is_there(cells[path]) for path in way.values()):
            return ""
        if all(_is_there(unknown.get(path, cells.get(path, NULL))) for path in way):
            cells |= {usual: unknown.pop(path, cells.get(path, NULL)) for path, usual in way.items()}
            return ", ".join(way)
    return ""


def _is_there(value: Raw) -> bool:
    return bytes(value) != b"null"


def _join_repeated(raw: Raw) -> Raw:
    """Replace the values of a repeated key by an array of arrays, which never fits."""
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
