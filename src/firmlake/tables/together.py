"""Take many records apart at once; if anything in them cannot be accounted for, `singly.py` takes each apart."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from firmlake.tables.notes import Notes
from firmlake.tables.objects import Shape, learn_layout
from firmlake.tables.structs import ABSENT, NO_STRUCTS, make_form, take_apart
from firmlake.tables.unknown import names_company, unknown_places, write_unknown

__all__ = ["take_together"]


def take_together(shape: Shape, raws: Sequence[Raw], notes: Notes) -> list[list[Raw]] | None:
    """Return the values of each field, one per record; None, without notes, if a record is irregular.

    Args:
        shape: The shape of the records.
        raws: Records, each valid JSON.
        notes: Receives unknown fields.
    """
    array = b"[%b]" % b",".join(raws)
    try:
        places = unknown_places(shape, learn_layout(shape, raws))
        more = {each.path: tuple(key for path, key in places if path == each.path) for each in shape.objects}
        form = make_form(tuple((each.path, each.keys + more[each.path]) for each in shape.objects))
        values, objects = take_apart(form, array)
        unknown = write_unknown({place: values.pop(place) for place in places})
    except NO_STRUCTS:
        return None
    if places and shape.group.elsewhere and names_company(shape.group, places):
        return None
    if places and shape.group.is_open and form.absent in zip(*objects, strict=True):
        return None  # a record may have another shape
    known = [*values.values()]
    absent_count = sum(column.count(ABSENT) for column in known)
    absent_count += sum(column.count(each) for column, each in zip(objects, form.absent, strict=True))
    key_count = len(raws) * (len(known) + len(objects)) - absent_count
    # Each key has one colon. More of them are in values, or belong to keys that stand twice.
    left = array.count(b":") - key_count - "".join(filter(None, unknown.extra)).count(":")
    if left and left != sum(msgspec.json.encode(column).count(b":") for column in known):
        return None
    notes.add_unknown(unknown)
    return known
