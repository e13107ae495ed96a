"""The shape of a group's records: their nested objects, and the fields in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Raw

from firmlake.api.contract import Group
from firmlake.tables.reading import Leaf

__all__ = ["NULL", "Object", "Row", "Shape", "read_object", "shape_of", "taker"]

NULL = Raw(b"null")
Row = tuple[Raw, ...]
read_object = msgspec.json.Decoder(dict[str, Raw]).decode


class Object(NamedTuple):
    """An object of a record: its path, its keys with null for each, the function that takes values, and its leaves."""

    path: str
    empty: dict[str, Raw]
    take: Callable[[dict[str, Raw]], Row]
    leaves: tuple[Leaf, ...]


class Shape(NamedTuple):
    """The shape of a group, worked out once; the record itself is the first of its objects."""

    group: Group
    objects: tuple[Object, ...]

    @property
    def leaves(self) -> Iterator[Leaf]:
        """The fields, in the order of the columns of `take_apart`."""
        return (leaf for each in self.objects for leaf in each.leaves)


def shape_of(group: Group, leaves: Sequence[Leaf]) -> Shape:
    """Make the shape of a group, whose objects are at most one deep."""
    prefixes = dict.fromkeys(leaf.path.rpartition(".")[0] for leaf in leaves)
    objects = []
    for prefix in ["", *filter(None, prefixes)]:
        own = tuple(leaf for leaf in leaves if leaf.path.rpartition(".")[0] == prefix)
        keys = [leaf.path.rpartition(".")[2] for leaf in own]
        inner = [name for name in prefixes if name] if not prefix else []
        objects.append(Object(prefix, dict.fromkeys([*keys, *inner], NULL), taker(itemgetter, keys), own))
    return Shape(group, tuple(objects))


def taker(of: Any, names: Sequence[str]) -> Callable[[Any], Row]:
    """Make a function that takes the values of these names, always as a tuple."""
    if len(names) > 1:
        return cast("Callable[[Any], Row]", of(*names))
    takes = [of(name) for name in names]
    return lambda holder: tuple(take(holder) for take in takes)
