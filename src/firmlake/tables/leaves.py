"""The fields of the contract with the settings of a run, and the objects of records in which they stand."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import Raw

from firmlake.api.contract import DATASETS, RECORDS, Field, FieldKind, Group
from firmlake.core.errors import SettingsError
from firmlake.core.settings import ContractSettings

T = TypeVar("T")

MARKS = ".,"
"""The marks that separate decimals in texts."""

AS_IT_IS = ContractSettings()
"""Settings that change nothing about the contract."""

MODES = ("discard_value", "discard_record", "stop")
"""What may happen to a value that does not fit, the mildest first."""

_APPLIES_TO: dict[str, tuple[FieldKind, ...]] = {
    "values": get_args(FieldKind),
    "types": ("integer",),
    "scales": ("fraction", "ratio", "score"),
}
"""The kinds of fields to which each setting with patterns applies."""

_OF_COMPANY = ("country", "companyNumber")
"""The keys by which the specification names a company."""


class Leaf(NamedTuple):
    """One value of a record and how to read it: a field of the contract under the settings of a run.

    A value that does not fit is treated by `mode`, one of `MODES`. A required value always takes its record along.
    """

    name: str  # our name of the field, and of its column
    path: str  # dotted place in the service's JSON record
    kind: FieldKind
    required: bool
    shift: int = 0  # decimal places by which the point moves to the left: 2 reads 45 as 0.45
    mode: str = "discard_value"
    is_company_number: bool = False  # a text that services may also write as a JSON integer
    marks: str = MARKS  # may separate decimals where a number comes as a text
    date_order: str = ""  # what comes first in dates that do not begin with the year: day, month; empty if not known


class Object(NamedTuple):
    """An object of a record."""

    path: str  # empty for the record itself
    keys: frozenset[str]  # all its keys, including those of objects inside it
    leaves: dict[str, Leaf]  # its fields by key; those of objects inside it are theirs
    mode: str  # the strictest of their modes
    identifier: dict[str, str]  # if it names a company: the keys of country and number, by those of the specification

    def unknown_in(self, content: Mapping[str, Raw]) -> dict[str, Raw]:
        """Return what the contract does not have, by path, as `extra_json` orders it."""
        if self.keys.issuperset(content):
            return {}
        prefix = f"{self.path}." if self.path else ""
        return {prefix + key: content[key] for key in sorted(content.keys() - self.keys)}


class Shape(NamedTuple):
    """The shape of a group; the record itself is the first of its objects, and the others are at most one deep."""

    group: Group
    leaves: tuple[Leaf, ...]
    objects: tuple[Object, ...]


read_object = msgspec.json.Decoder(dict[str, Raw]).decode


def shape_of(dataset: str, group: str, contract: ContractSettings = AS_IT_IS) -> Shape:
    """Make the shape of a group."""
    leaves = leaves_of(dataset, contract)
    objects, fields = [], RECORDS[dataset].fields
    for prefix in dict.fromkeys(["", *(leaf.path.rpartition(".")[0] for leaf in leaves)]):
        own = {leaf.path.rpartition(".")[2]: leaf for leaf in leaves if leaf.path.rpartition(".")[0] == prefix}
        keys = own if prefix else dict.fromkeys(leaf.path.partition(".")[0] for leaf in leaves)
        mode = max((leaf.mode for leaf in own.values()), key=MODES.index, default=MODES[0])
        usual = {leaf.name: fields[leaf.name].path.rpartition(".")[2] for leaf in own.values()}
        identifier = {usual[leaf.name]: key for key, leaf in own.items() if usual[leaf.name] in _OF_COMPANY}
        objects.append(Object(prefix, frozenset(keys), own, mode, identifier))
    of_group = RECORDS[dataset].groups[group]
    ways = [
        {place: _their_path(dataset, usual, contract) for place, usual in way.items()} for way in of_group.elsewhere
    ]
    return Shape(of_group._replace(elsewhere=tuple(ways)), tuple(leaves), tuple(objects))


def leaves_of(dataset: str, contract: ContractSettings) -> list[Leaf]:
    """List the fields of a dataset with the settings by which to read them."""
    return [_leaf(dataset, name, field, contract) for name, field in RECORDS[dataset].fields.items()]


def setting_of(patterns: Mapping[str, T], dataset: str, *names: str) -> T | None:
    """Return the setting of the last pattern that matches a field, by its column or its path, whichever it has."""
    found = None
    for pattern, value in patterns.items():
        if any(fnmatchcase(f"{dataset}.{name}", pattern) for name in names):
            found = value
    return found


def renames_of(dataset: str, contract: ContractSettings) -> dict[str, str]:
    """Return where the service has fields of a dataset, and our paths; a record's path needs no name of its array."""
    return {
        _inside(dataset, theirs.removeprefix(f"{dataset}.")): _inside(dataset, ours)
        for theirs, ours in contract.rename.items()
        if theirs.startswith(f"{dataset}.")
    }


def without_renames(dataset: str, contract: ContractSettings) -> ContractSettings:
    """Return the settings for records of a dataset from before the service renamed fields."""
    kept = {theirs: ours for theirs, ours in contract.rename.items() if not theirs.startswith(f"{dataset}.")}
    return msgspec.structs.replace(contract, rename=kept)


def renamed_keys(dataset: str, contract: ContractSettings) -> tuple[bytes, ...]:
    """Return how the keys that the service uses instead of ours stand in records of a dataset."""
    return tuple(msgspec.json.encode(path.rpartition(".")[2]) for path in renames_of(dataset, contract))


def check_contract(contract: ContractSettings) -> None:
    """Raise SettingsError if a pattern names no field to which it can apply, and would have no effect."""
    for name, kinds in _APPLIES_TO.items():
        for pattern in getattr(contract, name):
            if not any(
                setting_of({pattern: True}, dataset, column, field.path)
                for dataset, of_dataset in DATASETS.items()
                for column, field in of_dataset.fields.items()
                if field.kind in kinds
            ):
                raise SettingsError(
                    f"contract.{name}: {pattern!r} names no field to which this setting can apply",
                    "Name it as dataset.column, such as financials.employee_count; docs/data_dictionary.md lists them",
                )
    for theirs, ours in contract.rename.items():
        _check_rename(theirs, ours)


def can_rename(theirs: str, ours: str) -> bool:
    """Return whether `contract.rename` accepts these names."""
    try:
        _check_rename(theirs, ours)
    except SettingsError:
        return False
    return True


def _check_rename(theirs: str, ours: str) -> None:
    """Check that a rename leads from a place that records may have to a field or object of ours."""
    dataset, _, given = theirs.partition(".")
    fields = [field.path for field in DATASETS[dataset].fields.values()] if dataset in DATASETS else []
    objects = {path.rpartition(".")[0] for path in fields} - {""}
    path, meant = (_inside(dataset, given), _inside(dataset, ours)) if fields else ("", "")
    if not path or meant not in {*fields, *objects}:
        near = get_close_matches(meant, [*fields, *objects], 1)
        raise SettingsError(
            f"contract.rename: {theirs!r} = {ours!r} names no field of a record",
            (f"Did you mean {near[0]!r}? " if near else "")
            + 'Name the dataset and the service\'s path, and then ours: {"financials.profitability.netResult" = '
            '"profitability.netProfit"}',
        )
    # Records are read one object deep; an array of theirs, or its name, is no place in a record.
    arrays = {group.key for group in DATASETS[dataset].groups.values()}
    keys = [key for key in path.replace("[]", "").split(".") if key]
    near_keys = [key for key in keys if key not in arrays][-1 if meant in objects else -2 :]
    if near_keys != path.split("."):
        nearest = f"{dataset}.{'.'.join(near_keys)}" if near_keys else f"{dataset}.KEY"
        raise SettingsError(
            f"contract.rename: {theirs!r} is no place that a record can have, so nothing would be renamed",
            f'The nearest is contract.rename = {{"{nearest}" = "{meant}"}}',
        )


def _inside(dataset: str, path: str) -> str:
    """Return a path inside a record, as the tables `drift` and `rejects` name it with the array in front or not."""
    for group in RECORDS[dataset].groups.values():
        path = path.removeprefix(f"{group.key or ''}[].")
    return path


def _leaf(dataset: str, name: str, field: Field, contract: ContractSettings) -> Leaf:
    """Apply to a field the settings for its kind."""

    def setting(section: str) -> Any:
        patterns = getattr(contract, section) if field.kind in _APPLIES_TO[section] else {}
        return setting_of(patterns, dataset, name, field.path)

    kind: FieldKind = setting("types") or field.kind
    scale = setting("scales")
    mode = "discard_record" if field.required else setting("values") or "discard_value"
    shift = len(str(scale)) - 1 if scale else 0
    marks = contract.decimal_mark or MARKS
    return Leaf(
        name,
        _their_path(dataset, field.path, contract),
        kind,
        field.required,
        shift,
        mode,
        field.is_company_number,
        marks,
        contract.date_order,
    )


def _their_path(dataset: str, path: str, contract: ContractSettings) -> str:
    """Return where the service has a field, by the longest name of `contract.rename` that leads to it."""
    for theirs, ours in sorted(renames_of(dataset, contract).items(), key=lambda pair: -len(pair[1])):
        if path == ours or path.startswith(f"{ours}."):
            return theirs + path.removeprefix(ours)
    return path
