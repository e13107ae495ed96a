"""Unknown fields: taken from all records, noted, and written as `extra_json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import starmap

import msgspec
from msgspec import UNSET, Raw, UnsetType

from firmlake.tables.notes import Notes, read_text
from firmlake.tables.objects import ABSENT, Layout, decode_columns, make_form, make_struct, portions

__all__ = ["note_unknown", "take_unknown"]

_LINES = msgspec.json.Encoder().encode_lines


def take_unknown(unknown: Layout, raws: Sequence[Raw], notes: Notes) -> None:
    """Note the unknown fields of all records, and pass over everything else.

    Raises:
        ValueError: As in `note_unknown`.
    """
    form = make_form(tuple((path, keys) for path, keys in unknown if keys or not path))
    for portion in portions(raws) if form.paths else ():
        note_unknown(decode_columns(form, b"[%b]" % b",".join(portion))[0], notes)


def note_unknown(values: Mapping[str, Sequence[Raw]], notes: Notes) -> bytes:
    """Note the unknown fields of records that follow those noted so far, and return them as lines of JSON.

    Args:
        values: By path the value in each record, at least one.
        notes: Receives them.

    Raises:
        ValueError: A value holds a line feed, or an escape that a database may refuse; or a key a colon.
    """
    write = _writer(tuple(values))
    columns: list[Sequence[Raw | UnsetType]] = [*values.values()]
    text = _LINES([*starmap(write, zip(*columns, strict=True))])  # a list: msgspec 0.22 leaks iterators
    if is_sparse := b"\t" in text:  # as in ABSENT
        columns = [[UNSET if value is ABSENT else value for value in column] for column in columns]
        text = _LINES([*starmap(write, zip(*columns, strict=True))])
    lines = read_text(text).split("\n")[:-1]
    if len(lines) != len(columns[0]):
        raise ValueError
    for path, column in zip(values, columns, strict=True):
        if count := len(column) - (column.count(UNSET) if is_sparse else 0):
            place, example = next((place, value) for place, value in enumerate(column) if value is not UNSET)
            notes.observe("new_field", path, example, len(notes.unknown) + place, count)
    notes.unknown += [None if line == "{}" else line for line in lines]
    return text


# ---------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _writer(paths: tuple[str, ...]) -> type[msgspec.Struct]:
    """Return the struct that writes values by path."""
    if any(":" in path for path in paths):
        raise ValueError
    return make_struct((path, Raw | UnsetType, UNSET) for path in paths)
