"""Take records apart into the values of their fields: all at once or, if anything is irregular, one by one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from firmlake.api.contract import Group
from firmlake.api.element import UNREADABLE
from firmlake.core.reasons import make_reason
from firmlake.tables.leaves import Leaf
from firmlake.tables.notes import EFFECTS, Notes
from firmlake.tables.objects import (
    ABSENT,
    IRREGULAR,
    NULL,
    Object,
    Shape,
    decode_columns,
    join_path,
    make_form,
    paths_of,
    read_object,
    unknown_keys,
)
from firmlake.tables.unknown import note_unknown

__all__ = ["take_apart"]

_LEARNT_FROM = 20
"""Number of records sampled for unknown keys."""


def take_apart(shape: Shape, raws: Sequence[Raw], start: int) -> tuple[dict[Leaf, list[Raw]], Notes]:
    """Return the values of each field, one per record, and notes about everything else in the records.

    Args:
        shape: Of the records.
        raws: Records, each valid JSON, at least one.
        start: Index of the first.
    """
    notes = Notes(start)
    try:
        return _take_together(shape, raws, notes), notes
    except IRREGULAR:
        notes = Notes(start)
    rows = [_take(shape, _join_repeated(raw), number, notes) for number, raw in enumerate(raws)]
    return {leaf: [row[leaf.path] for row in rows] for leaf in shape.cells}, notes


# ---------------------------------------------------------------------------------------------------------------------


def _take_together(shape: Shape, raws: Sequence[Raw], notes: Notes) -> dict[Leaf, list[Raw]]:
    """Return the values of each field; raise a ValueError or another of `IRREGULAR` if a record is irregular."""
    array = b"[%b]" % b",".join(raws)
    unknown = unknown_keys(shape, raws[:: len(raws) // _LEARNT_FROM + 1])
    if _names_company(shape.group, paths_of(unknown)):
        raise ValueError
    layout = [(each.path, (*each.leaves, *keys)) for each, (_, keys) in zip(shape.objects, unknown, strict=True)]
    form = make_form(tuple(layout))
    values, objects = decode_columns(form, array)
    others = {path: values[path] for path in paths_of(unknown)}
    text = note_unknown(others, notes) if others else b""
    if others and shape.group.is_open and form.absent in zip(*objects, strict=True):
        raise ValueError  # a record may have another shape
    known = {leaf: values[leaf.path] for leaf in shape.cells}
    absent_count = sum(column.count(ABSENT) for column in known.values())
    absent_count += sum(column.count(each) for column, each in zip(objects, form.absent, strict=True))
    key_count = len(raws) * (len(known) + len(objects)) - absent_count
    # Each key has one colon. More of them are in values, or belong to keys that stand twice.
    left = array.count(b":") - key_count - text.count(b":")
    if left and left != sum(msgspec.json.encode(column).count(b":") for column in known.values()):
        raise ValueError
    return known


def _take(shape: Shape, raw: Raw, number: int, notes: Notes) -> dict[str, Raw]:
    """Return the values of a record's fields by path, and note everything else it holds."""
    top, *inner = shape.objects
    content = _open(top, raw, number, notes, "discard_value" if shape.group.is_open else "discard_record")
    objects = [content]
    for each in inner:
        mode = _strictest(each.leaves.values())
        objects.append(_open(each, content.get(each.path, NULL), number, notes, mode))
    values: dict[str, Raw] = {}
    unknown: dict[str, Raw] = {}
    for each, opened in zip(shape.objects, objects, strict=True):
        values |= {leaf.path: opened.get(key, NULL) for key, leaf in each.leaves.items()}
        unknown |= {join_path(each.path, key): opened[key] for key in sorted(opened.keys() - {*each.keys})}
    if not unknown:
        return values
    if shape.group.elsewhere:
        if found := _find_elsewhere(shape.group, values, unknown):
            notes.observe("other_place", found, None, number)
        elif (
            shape.group.is_open
            and not content.keys() & {each.path for each in inner}
            and any(map(_is_there, unknown.values()))
        ):
            # With the documented fields alone it is a person, or anonymous.
            notes.reject(number, "", None, make_reason("no_identity"), "value")
    if unknown:
        notes.keep(number, unknown)
    for path, value in unknown.items():
        notes.observe("new_field", path, value, number)
    return values


def _open(each: Object, value: Raw, number: int, notes: Notes, mode: str) -> dict[str, Raw]:
    """Open a record or an object inside it, in which null counts as an empty object, and so does [], as PHP writes one.

    Anything else is discarded, in this mode.
    """
    if each.path and bytes(value) in (b"null", b"[]"):
        return {}
    try:
        return read_object(value)
    except UNREADABLE as error:
        is_readable = each.path or isinstance(error, msgspec.ValidationError)
        reason = make_reason("not_an_object") if is_readable else make_reason("not_json", problem=error)
        notes.discard(number, each.path, value, reason, mode)
        return {}


def _strictest(leaves: Iterable[Leaf]) -> str:
    """Return the strictest mode of the values in an object."""
    return max({leaf.mode for leaf in leaves}, key=list(EFFECTS).index)


def _find_elsewhere(group: Group, values: dict[str, Raw], unknown: dict[str, Raw]) -> str:
    """Move a company's identification to its place from wherever it was found; return where, or an empty text."""
    for prefix in {path.partition(".")[0] for way in group.elsewhere for path in way if "." in path} & unknown.keys():
        try:
            inner = read_object(unknown[prefix])
        except UNREADABLE:
            continue
        del unknown[prefix]
        unknown |= {f"{prefix}.{key}": value for key, value in inner.items()}
    for way in group.elsewhere:
        if all(_is_there(values[path]) for path in way.values()):
            return ""
        if all(_is_there(unknown.get(path, values.get(path, NULL))) for path in way):
            values |= {usual: unknown.pop(path, values.get(path, NULL)) for path, usual in way.items()}
            return ", ".join(way)
    return ""


def _names_company(group: Group, unknown: Iterable[str]) -> bool:
    """Tell whether unknown keys are among those by which services name the related company."""
    names = {name for way in group.elsewhere for path in way for name in (path, path.partition(".")[0])}
    return not names.isdisjoint(unknown)


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
