"""Take records of any shape apart, one by one; an absent key is null."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from firmlake.api.contract import Group
from firmlake.tables.notes import EFFECTS, UNREADABLE, Notes
from firmlake.tables.objects import NULL, Object, Shape, read_object
from firmlake.tables.reading import Leaf

__all__ = ["take_each"]

NO_IDENTITY = "it has fields that are not documented, and does not say in a documented way which company it is"
"""Why the shape of a related party is unknown. With the documented fields alone it is a person, or anonymous."""


def take_each(shape: Shape, raws: Sequence[Raw], notes: Notes) -> list[tuple[Raw, ...]]:
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
        reason = "an object was expected" if isinstance(error, msgspec.ValidationError) else _unreadable(error)
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


def _unreadable(error: Exception) -> str:
    return f"not readable as JSON: {error}"


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
