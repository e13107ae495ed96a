"""Structs of JSON values, the fastest way to take many records with known keys apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

from firmlake.tables.notes import UNREADABLE
from firmlake.tables.objects import Layout, Place

__all__ = ["ABSENT", "NO_STRUCTS", "make_form", "make_struct", "take_apart"]

ABSENT = Raw(b"\tnull")
"""Null after a character that begins no received value, so that absent keys can be counted."""
NO_STRUCTS = (*UNREADABLE, ValueError, TypeError)
"""What is raised where structs cannot hold the records, or a key cannot be a field of a struct."""


class Form(NamedTuple):
    """Structs for records.

    Attributes:
        decode: Decodes an array of records. Keys that the structs do not have are passed over.
        places: The keys, object by object.
        absent: What replaces an absent object, in the order of the objects.
    """

    decode: Callable[[bytes], list[Any]]
    places: tuple[Place, ...]
    absent: tuple[Any, ...]


@lru_cache(maxsize=64)
def make_form(layout: Layout) -> Form:
    """Make the structs of a layout, in which an absent key is ABSENT."""
    (_, own), *inner = layout
    absent = tuple(make_struct((key, Raw, ABSENT) for key in keys)() for _, keys in inner)
    objects = [(path, type(each) | None, each) for (path, _), each in zip(inner, absent, strict=True)]
    record = make_struct([*((key, Raw, ABSENT) for key in own), *objects])
    places = tuple((path, key) for path, keys in layout for key in keys)
    return Form(msgspec.json.Decoder(list[record]).decode, places, absent)  # type: ignore[valid-type]


def make_struct(fields: Iterable[tuple[str, Any, Any]]) -> type[msgspec.Struct]:
    """Make a struct of these keys, each with its type and default."""
    named = {f"field_{number}": field for number, field in enumerate(fields)}
    return msgspec.defstruct(
        "Object",
        [(name, kind, default) for name, (_, kind, default) in named.items()],
        rename={name: key for name, (key, _, _) in named.items()},
        gc=False,
        frozen=True,
        eq=False,
    )


def take_apart(form: Form, array: bytes) -> tuple[dict[Place, list[Any]], list[list[Any]]]:
    """Decode an array of records.

    Returns:
        The values of each key; and for each object inside the records its struct, or None.
    """
    own = _columns(form.decode(array))
    count = len(own) - len(form.absent)
    values, objects = own[:count], own[count:]
    for column, absent in zip(objects, form.absent, strict=True):
        values += _columns([each or absent for each in column])
    return dict(zip(form.places, values, strict=True)), objects


# ---------------------------------------------------------------------------------------------------------------------


def _columns(structs: Sequence[msgspec.Struct]) -> list[list[Any]]:
    cells = list(chain.from_iterable(map(astuple, structs)))
    width = len(cells) // len(structs)
    return [cells[place::width] for place in range(width)]
