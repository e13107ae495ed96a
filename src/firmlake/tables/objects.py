"""The shape of a group's records: their nested objects and the keys of each object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw

from firmlake.api.contract import DATASETS, Group
from firmlake.core.settings import ContractSettings
from firmlake.tables.leaves import AS_IT_IS, leaves_of
from firmlake.tables.reading import Leaf

__all__ = ["NULL", "Layout", "Object", "Place", "Shape", "learn_layout", "portions", "read_object", "shape_of"]

NULL = Raw(b"null")
Layout = tuple[tuple[str, tuple[str, ...]], ...]
"""The objects of a record, the record itself first: the path of each, empty for the record, and keys in it."""

Place = tuple[str, str]
"""An object's path, empty for the record itself, and a key in it."""

_CACHED = 100_000
"""Bytes of text."""
_LEARNT_FROM = 20
"""Number of records sampled for unknown keys."""

read_object = msgspec.json.Decoder(dict[str, Raw]).decode
_read_any = msgspec.json.Decoder(dict[str, Raw] | None).decode


class Object(NamedTuple):
    """An object of a record.

    Attributes:
        path: Its path; empty for the record itself.
        empty: All its keys, with null for each.
        keys: Those of its leaves.
        leaves: Its fields; those of objects inside it are theirs.
    """

    path: str
    empty: dict[str, Raw]
    keys: tuple[str, ...]
    leaves: tuple[Leaf, ...]


class Shape(NamedTuple):
    """The shape of a group; the record itself is the first of its objects."""

    group: Group
    leaves: tuple[Leaf, ...]
    objects: tuple[Object, ...]

    @property
    def cells(self) -> tuple[Leaf, ...]:
        """The fields, object by object: the order in which records are taken apart."""
        return tuple(leaf for each in self.objects for leaf in each.leaves)


def portions(raws: Sequence[Raw]) -> Iterator[Sequence[Raw]]:
    """Split records, whose length is about the same, into portions that fit into the processor's cache."""
    count = 1 + _CACHED // len(bytes(raws[0]))
    return (raws[start : start + count] for start in range(0, len(raws), count))


def shape_of(dataset: str, group: str, contract: ContractSettings = AS_IT_IS) -> Shape:
    """Make the shape of a group, whose objects are at most one deep."""
    leaves = leaves_of(dataset, group, contract)
    objects = []
    for prefix in dict.fromkeys(["", *(leaf.path.rpartition(".")[0] for leaf in leaves)]):
        own = tuple(leaf for leaf in leaves if leaf.path.rpartition(".")[0] == prefix)
        keys = tuple(leaf.path.rpartition(".")[2] for leaf in own)
        every = keys if prefix else dict.fromkeys(leaf.path.partition(".")[0] for leaf in leaves)
        objects.append(Object(prefix, dict.fromkeys(every, NULL), keys, own))
    return Shape(DATASETS[dataset].groups[group], tuple(leaves), tuple(objects))


def learn_layout(shape: Shape, raws: Sequence[Raw]) -> Layout:
    """Return the layout of a group with the unknown keys of a sample, each after the key that it follows there."""
    found = {each.path: list(each.empty) for each in shape.objects}
    for raw in raws[:: len(raws) // _LEARNT_FROM + 1]:
        content = read_object(raw)
        for path, keys in found.items():
            place = 0
            for key in (_read_any(content.get(path, NULL)) or {}) if path else content:
                if key not in keys:
                    keys.insert(place, key)
                place = keys.index(key) + 1
    return tuple((path, tuple(keys)) for path, keys in found.items())
