"""The objects of which records consist: the keys of each, and structs that decode many of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

from firmlake.api.answers import UNREADABLE
from firmlake.api.contract import RECORDS, Group
from firmlake.core.settings import ContractSettings
from firmlake.tables.leaves import AS_IT_IS, Leaf, leaves_of, renamed_keys

__all__ = [
    "ABSENT",
    "IRREGULAR",
    "NULL",
    "Layout",
    "Object",
    "Shape",
    "decode_columns",
    "join_path",
    "make_form",
    "make_struct",
    "paths_of",
    "portions",
    "read_object",
    "shape_of",
    "unknown_keys",
]

NULL = Raw(b"null")
Layout = tuple[tuple[str, tuple[str, ...]], ...]
"""The objects of a record, the record itself first: the path of each, empty for the record, and keys in it."""

ABSENT = Raw(b"\tnull")
"""Null after a character that begins no received value, so that absent keys can be counted."""
IRREGULAR = (*UNREADABLE, ValueError, TypeError)
"""What is raised where records cannot be read together. Structs raise a TypeError for some keys."""

_CACHED = 100_000
"""Bytes of text."""

read_object = msgspec.json.Decoder(dict[str, Raw]).decode
_read_any = msgspec.json.Decoder(dict[str, Raw] | None).decode


class Object(NamedTuple):
    """An object of a record.

    Attributes:
        path: Its path; empty for the record itself.
        keys: All its keys, including those of objects inside it.
        leaves: Its fields by key; those of objects inside it are theirs.
    """

    path: str
    keys: tuple[str, ...]
    leaves: dict[str, Leaf]


class Form(NamedTuple):
    """Structs for records.

    Attributes:
        decode: Decodes an array of records. Keys that the structs do not have are passed over.
        paths: Those of the keys, object by object.
        absent: What replaces an absent object, in the order of the objects.
    """

    decode: Callable[[bytes], list[Any]]
    paths: list[str]
    absent: tuple[Any, ...]


class Shape(NamedTuple):
    """The shape of a group; the record itself is the first of its objects."""

    group: Group
    leaves: tuple[Leaf, ...]
    objects: tuple[Object, ...]

    @property
    def cells(self) -> tuple[Leaf, ...]:
        """The fields, object by object: the order in which records are taken apart."""
        return tuple(leaf for each in self.objects for leaf in each.leaves.values())


def portions(raws: Sequence[Raw]) -> Iterator[Sequence[Raw]]:
    """Split records, whose length is about the same, into portions that fit into the processor's cache."""
    count = 1 + _CACHED // len(bytes(raws[0]))
    return (raws[start : start + count] for start in range(0, len(raws), count))


def shape_of(dataset: str, group: str, contract: ContractSettings = AS_IT_IS) -> Shape:
    """Make the shape of a group, whose objects are at most one deep."""
    leaves = leaves_of(dataset, contract)
    objects = []
    for prefix in dict.fromkeys(["", *(leaf.path.rpartition(".")[0] for leaf in leaves)]):
        own = {leaf.path.rpartition(".")[2]: leaf for leaf in leaves if leaf.path.rpartition(".")[0] == prefix}
        keys = own if prefix else dict.fromkeys(leaf.path.partition(".")[0] for leaf in leaves)
        objects.append(Object(prefix, tuple(keys), own))
    of_group = RECORDS[dataset].groups[group]
    if renamed_keys(dataset, contract):  # other places are named by our paths
        of_group = of_group._replace(elsewhere=())
    return Shape(of_group, tuple(leaves), tuple(objects))


def unknown_keys(shape: Shape, raws: Iterable[Raw]) -> Layout:
    """Return the keys of each object in some records that the contract does not have, as `extra_json` orders them."""
    found: dict[str, set[str]] = {each.path: set() for each in shape.objects}
    for raw in raws:
        content = read_object(raw)
        for each in shape.objects:
            keys = (_read_any(content.get(each.path, NULL)) or {}) if each.path else content
            found[each.path] |= keys.keys() - {*each.keys}
    return tuple((path, tuple(sorted(keys))) for path, keys in found.items())


@lru_cache(maxsize=64)
def make_form(layout: Layout) -> Form:
    """Make the structs of a layout, in which an absent key is ABSENT.

    Raises:
        ValueError, TypeError: A key cannot be a field of a struct.
    """
    (_, own), *inner = layout
    absent = tuple(make_struct((key, Raw, ABSENT) for key in keys)() for _, keys in inner)
    objects = [(path, type(each) | None, each) for (path, _), each in zip(inner, absent, strict=True)]
    record = make_struct([*((key, Raw, ABSENT) for key in own), *objects])
    paths = paths_of(layout)
    if len({*paths}) < len(paths):
        raise ValueError  # a key with a point is spelled as a key of an object
    return Form(msgspec.json.Decoder(list[record]).decode, paths, absent)  # type: ignore[valid-type]


def paths_of(layout: Layout) -> list[str]:
    """Return the paths of all keys, object by object."""
    return [join_path(path, key) for path, keys in layout for key in keys]


def join_path(path: str, key: str) -> str:
    """Return the path of a key in an object."""
    return f"{path}.{key}" if path else key


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


def decode_columns(form: Form, array: bytes) -> tuple[dict[str, list[Any]], list[list[Any]]]:
    """Decode an array of records.

    Returns:
        The values of each key, by path; and for each object inside the records its struct, or None.
    """
    own = _columns(form.decode(array))
    count = len(own) - len(form.absent)
    values, objects = own[:count], own[count:]
    for column, absent in zip(objects, form.absent, strict=True):
        values += _columns([each or absent for each in column])
    return dict(zip(form.paths, values, strict=True)), objects


# ---------------------------------------------------------------------------------------------------------------------


def _columns(structs: Sequence[msgspec.Struct]) -> list[list[Any]]:
    cells = list(chain.from_iterable(map(astuple, structs)))
    width = len(cells) // len(structs)
    return [cells[place::width] for place in range(width)]
