"""Unknown fields: found in a sample of the records, taken from all of them, and written as `extra_json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import starmap

import msgspec
from msgspec import UNSET, Raw, UnsetType

from firmlake.api.contract import Group
from firmlake.tables.notes import read_text
from firmlake.tables.objects import Layout, Place, Shape, portions
from firmlake.tables.reading import Unknown
from firmlake.tables.structs import ABSENT, make_form, make_struct, take_apart

__all__ = ["names_company", "take_unknown", "unknown_places", "write_unknown"]

_LINES = msgspec.json.Encoder().encode_lines


def unknown_places(shape: Shape, layout: Layout) -> list[Place]:
    """List the keys of a layout that the contract does not have, as `extra_json` orders them."""
    pairs = zip(shape.objects, layout, strict=True)
    return [(path, key) for each, (path, keys) in pairs for key in sorted({*keys} - each.empty.keys())]


def names_company(group: Group, unknown: Sequence[Place]) -> bool:
    """Tell whether unknown keys are among those by which services name the related company."""
    paths = {path for way in group.elsewhere for path in way}
    return any(
        f"{of}.{key}" in paths if of else key in {path.partition(".")[0] for path in paths} for of, key in unknown
    )


def take_unknown(unknown: Sequence[Place], raws: Sequence[Raw]) -> Unknown:
    """Take the unknown fields of all records, and pass over everything else.

    Raises:
        ValueError: As in `write_unknown`.
    """
    keys: dict[str, list[str]] = {"": []}
    for path, key in unknown:
        keys.setdefault(path, []).append(key)
    form = make_form(tuple((path, tuple(own)) for path, own in keys.items()))
    extra: list[str | None] = []
    seen: dict[str, tuple[int, Raw, int]] = {}
    for portion in portions(raws) if unknown else ():
        part = write_unknown(take_apart(form, b"[%b]" % b",".join(portion))[0])
        for path, (place, example, count) in part.seen.items():
            first, shown, before = seen.get(path, (len(extra) + place, example, 0))
            seen[path] = (first, shown, before + count)
        extra += part.extra
    return Unknown(extra, seen)


def write_unknown(values: Mapping[Place, Sequence[Raw]]) -> Unknown:
    """Write the unknown fields of records.

    Args:
        values: By object and key the value in each record.

    Raises:
        ValueError: A value holds a line feed, or an escape that a database may refuse; or a key a colon.
    """
    if not values:
        return Unknown([], {})
    paths, write = _writer(tuple(values))
    columns = [*values.values()]
    text = _LINES([*starmap(write, zip(*columns, strict=True))])  # a list: msgspec 0.22 leaks iterators
    seen = {path: (0, column[0], len(column)) for path, column in zip(paths, columns, strict=True)}
    if b"\t" in text:  # as in ABSENT
        marked = [[UNSET if value is ABSENT else value for value in column] for column in columns]
        text = _LINES([*starmap(write, zip(*marked, strict=True))])
        seen = {}
        for path, column in zip(paths, columns, strict=True):
            if count := len(column) - column.count(ABSENT):
                place = next(place for place, value in enumerate(column) if value is not ABSENT)
                seen[path] = (place, column[place], count)
    lines = read_text(text).split("\n")[:-1]
    if len(lines) != len(columns[0]):
        raise ValueError
    return Unknown([None if line == "{}" else line for line in lines], seen)


# ---------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _writer(unknown: tuple[Place, ...]) -> tuple[list[str], type[msgspec.Struct]]:
    """Return the paths of unknown keys, and the struct that writes their values by path."""
    if any(":" in key for _, key in unknown):
        raise ValueError
    paths = [f"{path}.{key}" if path else key for path, key in unknown]
    return paths, make_struct((path, Raw | UnsetType, UNSET) for path in paths)
