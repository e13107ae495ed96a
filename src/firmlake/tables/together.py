"""Take many records apart at once; if anything in them cannot be accounted for, `singly.py` takes each apart."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from firmlake.tables.notes import Notes
from firmlake.tables.objects import Shape, learn_layout
from firmlake.tables.structs import ABSENT, NO_STRUCTS, make_form, take_apart
from firmlake.tables.unknown import names_company, note_unknown, unknown_keys

__all__ = ["take_together"]


def take_together(shape: Shape, raws: Sequence[Raw], notes: Notes) -> list[list[Raw]] | None:
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
        values, objects = take_apart(form, array)
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
