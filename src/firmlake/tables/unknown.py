"""Unknown fields: found in a sample of the records, taken from all of them, and written as `extra_json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import starmap

import msgspec
from msgspec import UNSET, Raw, UnsetType

from firmlake.api.contract import Group
from firmlake.tables.notes import Notes, read_text
from firmlake.tables.objects import ABSENT, Layout, Place, Shape, decode_columns, make_form, make_struct, portions

__all__ = ["names_company", "note_unknown", "take_unknown", "unknown_keys"]

_LINES = msgspec.json.Encoder().encode_lines


def unknown_keys(shape: Shape, layout: Layout) -> Layout:
    """Return the keys of each object in a layout that the contract does not have, as `extra_json` orders them."""
    pairs = zip(shape.objects, layout, strict=True)
    return tuple((path, tuple(sorted({*keys} - each.empty.keys()))) for each, (path, keys) in pairs)


def names_company(group: Group, unknown: Layout) -> bool:
    """Tell whether unknown keys are among those by which services name the related company."""
    names = {name for way in group.elsewhere for path in way for name in (path, path.partition(".")[0])}
    return any(_join(path, key) in names for path, keys in unknown for key in keys)


def take_unknown(unknown: Layout, raws: Sequence[Raw], notes: Notes) -> None:
    """Note the unknown fields of all records, and pass over everything else.

    Raises:
        ValueError: As in `note_unknown`.
    """
    form = make_form(tuple((path, keys) for path, keys in unknown if keys or not path))
    for portion in portions(raws) if any(keys for _, keys in unknown) else ():
        note_unknown(decode_columns(form, b"[%b]" % b",".join(portion))[0], notes)


def note_unknown(values: Mapping[Place, Sequence[Raw]], notes: Notes) -> bytes:
    """Note the unknown fields of records that follow those noted so far, and return them as lines of JSON.

    Args:
        values: By object and key the value in each record.
        notes: Receives them.

    Raises:
        ValueError: A value holds a line feed, or an escape that a database may refuse; or a key a colon.
    """
    paths, write = _writer(tuple(values))
    columns: list[Sequence[Raw | UnsetType]] = [*values.values()]
    text = _LINES([*starmap(write, zip(*columns, strict=True))])  # a list: msgspec 0.22 leaks iterators
    if is_sparse := b"\t" in text:  # as in ABSENT
        columns = [[UNSET if value is ABSENT else value for value in column] for column in columns]
        text = _LINES([*starmap(write, zip(*columns, strict=True))])
    lines = read_text(text).split("\n")[:-1]
    if len(lines) != len(columns[0]):
        raise ValueError
    for path, column in zip(paths, columns, strict=True):
        if count := len(column) - (column.count(UNSET) if is_sparse else 0):
            place, example = next((place, value) for place, value in enumerate(column) if value is not UNSET)
            notes.observe("new_field", path, example, len(notes.unknown) + place, count)
    notes.unknown += [None if line == "{}" else line for line in lines]
    return text


# ---------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _writer(unknown: tuple[Place, ...]) -> tuple[list[str], type[msgspec.Struct]]:
    """Return the paths of unknown keys, and the struct that writes their values by path."""
    if any(":" in key for _, key in unknown):
        raise ValueError
    paths = [_join(*place) for place in unknown]
    return paths, make_struct((path, Raw | UnsetType, UNSET) for path in paths)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
