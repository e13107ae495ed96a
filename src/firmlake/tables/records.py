"""Convert raw records to a frame by the contract: all at once if they are regular, otherwise column by column.

Records that differ only in their digits go through `regular.py`, whether or not they leave out nulls or have unknown
fields. All others go through `read_tolerantly`, which takes two to five times as long: a value that does not fit
affects neither its record nor the others there. Both return the same frame.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import polars as pl
from msgspec import Raw

from firmlake.api.answers import UNREADABLE
from firmlake.api.contract import Group
from firmlake.core.reasons import Reason, make_reason
from firmlake.core.settings import ContractSettings
from firmlake.tables.cells import DECIMALS, MisfitError, moved, plain, read_cell
from firmlake.tables.columns import RARE, TEXTS, ReadColumn, read_columns
from firmlake.tables.leaves import AS_IT_IS, Leaf, renamed_keys, without_renames
from firmlake.tables.notes import EFFECTS, Notes, Records
from firmlake.tables.number_texts import number_in
from firmlake.tables.objects import (
    ABSENT,
    IRREGULAR,
    NULL,
    Object,
    Shape,
    decode_columns,
    join_path,
    make_form,
    paths_of,
    read_object,
    shape_of,
    unknown_keys,
)
from firmlake.tables.regular import read_regular
from firmlake.tables.schemas import KIND_TYPES
from firmlake.tables.unknown import note_unknown

_LEARNT_FROM = 20
"""Number of records sampled for unknown keys."""


def take_apart(shape: Shape, raws: Sequence[Raw], start: int) -> tuple[dict[Leaf, list[Raw]], Notes]:
    """Return the values of each field, one per record, and notes about everything else in the records.

    Args:
        shape: Of the records.
        raws: Records, each valid JSON, at least one.
        start: Index of the first.
    """
    notes = Notes(start)
    try:
        return _take_together(shape, raws, notes), notes
    except IRREGULAR:
        notes = Notes(start)
    rows = [_take(shape, _join_repeated(raw), number, notes) for number, raw in enumerate(raws)]
    return {leaf: [row[leaf.path] for row in rows] for leaf in shape.cells}, notes


# ---------------------------------------------------------------------------------------------------------------------


def _take_together(shape: Shape, raws: Sequence[Raw], notes: Notes) -> dict[Leaf, list[Raw]]:
    """Return the values of each field; raise a ValueError or another of `IRREGULAR` if a record is irregular."""
    array = b"[%b]" % b",".join(raws)
    unknown = unknown_keys(shape, raws[:: len(raws) // _LEARNT_FROM + 1])
    if _names_company(shape.group, paths_of(unknown)):
        raise ValueError
    layout = [(each.path, (*each.leaves, *keys)) for each, (_, keys) in zip(shape.objects, unknown, strict=True)]
    form = make_form(tuple(layout))
    values, objects = decode_columns(form, array)
    others = {path: values[path] for path in paths_of(unknown)}
    text = note_unknown(others, notes) if others else b""
    if others and shape.group.is_open and form.absent in zip(*objects, strict=True):
        raise ValueError  # a record may have another shape
    known = {leaf: values[leaf.path] for leaf in shape.cells}
    absent_count = sum(column.count(ABSENT) for column in known.values())
    absent_count += sum(column.count(each) for column, each in zip(objects, form.absent, strict=True))
    key_count = len(raws) * (len(known) + len(objects)) - absent_count
    # Each key has one colon. More of them are in values, or belong to keys that stand twice.
    left = array.count(b":") - key_count - text.count(b":")
    if left and left != sum(msgspec.json.encode(column).count(b":") for column in known.values()):
        raise ValueError
    return known


def _take(shape: Shape, raw: Raw, number: int, notes: Notes) -> dict[str, Raw]:
    """Return the values of a record's fields by path, and note everything else it holds."""
    top, *inner = shape.objects
    content = _open(top, raw, number, notes, "discard_value" if shape.group.is_open else "discard_record")
    objects = [content]
    for each in inner:
        mode = _strictest(each.leaves.values())
        objects.append(_open(each, content.get(each.path, NULL), number, notes, mode))
    values: dict[str, Raw] = {}
    unknown: dict[str, Raw] = {}
    for each, opened in zip(shape.objects, objects, strict=True):
        values |= {leaf.path: opened.get(key, NULL) for key, leaf in each.leaves.items()}
        unknown |= {join_path(each.path, key): opened[key] for key in sorted(opened.keys() - {*each.keys})}
    if not unknown:
        return values
    if shape.group.elsewhere:
        if found := _find_elsewhere(shape.group, values, unknown):
            notes.observe("other_place", found, None, number)
        elif (
            shape.group.is_open
            and not content.keys() & {each.path for each in inner}
            and any(map(_is_there, unknown.values()))
        ):
            # With the documented fields alone it is a person, or anonymous.
            notes.reject(number, "", None, make_reason("no_identity"), "value")
    if unknown:
        notes.keep(number, unknown)
    for path, value in unknown.items():
        notes.observe("new_field", path, value, number)
    return values


def _open(each: Object, value: Raw, number: int, notes: Notes, mode: str) -> dict[str, Raw]:
    """Open a record or an object inside it, in which null counts as an empty object, and so does [], as PHP writes one.

    Anything else is discarded, in this mode.
    """
    if each.path and bytes(value) in (b"null", b"[]"):
        return {}
    try:
        return read_object(value)
    except UNREADABLE as error:
        is_readable = each.path or isinstance(error, msgspec.ValidationError)
        reason = make_reason("not_an_object") if is_readable else make_reason("not_json", problem=error)
        notes.discard(number, each.path, value, reason, mode)
        return {}


def _strictest(leaves: Iterable[Leaf]) -> str:
    """Return the strictest mode of the values in an object."""
    return max({leaf.mode for leaf in leaves}, key=list(EFFECTS).index)


def _find_elsewhere(group: Group, values: dict[str, Raw], unknown: dict[str, Raw]) -> str:
    """Move a company's identification to its place from wherever it was found; return where, or an empty text."""
    for prefix in {path.partition(".")[0] for way in group.elsewhere for path in way if "." in path} & unknown.keys():
        try:
            inner = read_object(unknown[prefix])
        except UNREADABLE:
            continue
        del unknown[prefix]
        unknown |= {f"{prefix}.{key}": value for key, value in inner.items()}
    for way in group.elsewhere:
        if all(_is_there(values[path]) for path in way.values()):
            return ""
        if all(_is_there(unknown.get(path, values.get(path, NULL))) for path in way):
            values |= {usual: unknown.pop(path, values.get(path, NULL)) for path, usual in way.items()}
            return ", ".join(way)
    return ""


def _names_company(group: Group, unknown: Iterable[str]) -> bool:
    """Tell whether unknown keys are among those by which services name the related company."""
    names = {name for way in group.elsewhere for path in way for name in (path, path.partition(".")[0])}
    return not names.isdisjoint(unknown)


def _is_there(value: Raw) -> bool:
    return bytes(value) != b"null"


def _join_repeated(raw: Raw) -> Raw:
    """Replace the values of a repeated key by an array of arrays, which never fits."""
    found = []

    def join(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            found.append(content)
            values: dict[str, list[Any]] = {}
            for key, value in pairs:
                values.setdefault(key, []).append(value)
            content = {key: each[0] if len(each) == 1 else [each] for key, each in values.items()}
        return content

    def verbatim(number: str) -> Raw:
        return Raw(number.encode())

    try:
        content = json.loads(bytes(raw), parse_float=verbatim, parse_int=verbatim, object_pairs_hook=join)
        return Raw(msgspec.json.encode(content)) if found else raw
    except (ValueError, RecursionError):
        return raw


_DIGITS = re.compile(rb"[0-9]+")


class _Cell(NamedTuple):
    """A value as read: the kind of the difference if it came as another type, and what it was before it was rounded."""

    value: Any = None
    kind: str = ""
    misfit: Reason | None = None
    rounded: bytes = b""


def read_tolerantly(shape: Shape, raws: Sequence[Raw], start: int) -> Records:
    """Read records, each valid JSON.

    Args:
        shape: The shape of their group.
        raws: The records, at least one.
        start: Index of the first.
    """
    cells, notes = take_apart(shape, raws, start)
    columns = read_columns(cells)
    read = {}
    for leaf, values in cells.items():
        read[leaf.name] = _complete(leaf, values, columns[leaf], notes)
        for number in read[leaf.name].is_null().arg_true() if leaf.required else ():
            notes.reject(number, leaf.path, None, make_reason("missing"), "record")
    return notes.records([read[leaf.name] for leaf in shape.leaves], len(raws))


# ---------------------------------------------------------------------------------------------------------------------


def _complete(leaf: Leaf, cells: Sequence[Raw], column: ReadColumn, notes: Notes) -> pl.Series:
    """Read the rest of a column by the exact rule, equal values once, and note what is odd about them."""
    if not column.in_texts and not column.rest:
        return column.values
    read = cache(partial(_read_cell, leaf))
    rest = [(place, read(bytes(cells[place]))) for place in column.rest]
    kinds = {"text_for_number": [*column.in_texts]} if column.in_texts else {}
    for place, cell in rest:
        if cell.kind:
            kinds.setdefault(cell.kind, []).append(place)
    for first, count, kind in sorted((min(places), len(places), kind) for kind, places in kinds.items()):
        notes.observe(kind, leaf.path, cells[first], first, count)
    for place, cell in rest:
        if cell.misfit:
            notes.discard(place, leaf.path, cells[place], cell.misfit, leaf.mode)
        elif cell.rounded:
            notes.observe("rounded_value", leaf.path, cell.rounded, place)
    values = pl.Series(leaf.name, [cell.value for _, cell in rest], KIND_TYPES[leaf.kind])
    if len(values) == len(cells):
        return values
    return column.values.scatter(column.rest, values) if len(values) else column.values


def _read_cell(leaf: Leaf, received: bytes) -> _Cell:
    if leaf.kind in ("fraction", "score") and received.endswith(b'%"'):  # whatever the scale of bare numbers is
        leaf, received = leaf._replace(shift=2), received[:-2].rstrip() + b'"'
    kind, json = _meaning(leaf, received) or ("", received)
    try:
        value = read_cell(leaf, Raw(json))
    except MisfitError as misfit:
        return _Cell(kind=kind, misfit=misfit.reason)
    if value is not None and leaf.kind in DECIMALS and value != (exact := moved(json, leaf.shift)):
        return _Cell(value, kind, rounded=plain(exact).encode())
    return _Cell(value, kind)


def _meaning(leaf: Leaf, cell: bytes) -> tuple[str, bytes] | None:
    """Return the JSON that was meant, with the kind of the difference, if a value is of another type but clear."""
    if leaf.is_company_number:
        return ("number_for_text", b'"%b"' % cell) if _DIGITS.fullmatch(cell) else None
    if leaf.kind in TEXTS:
        return None
    if cell == b'""':
        return "empty_text", b"null"
    is_number = leaf.kind not in ("date", *RARE) and cell[:1] == b'"'
    number = number_in(cell, leaf.kind, leaf.marks) if is_number else None
    return ("text_for_number", number) if number else None


__all__ = ["read_records"]

_BATCH, _PIECE = 8000, 1000
"""Records read at once, for the least cost; if a record is irregular, only its piece is read column by column."""


def read_records(dataset: str, group: str, raws: Sequence[Raw], contract: ContractSettings = AS_IT_IS) -> Records:
    """Read records of one group of a dataset: valid JSON, as extracted by `firmlake.api.answers`.

    A value is exact, or null if it does not fit. A record is rejected only if a field that identifies it does not fit.
    Fractions, ratios and decimals with more digits than their type are rounded half to even, which is recorded as an
    observation ("rounded_value").
    """
    parts = list(_read_parts(dataset, group, raws, contract)) or [_no_records(shape_of(dataset, group, contract))]
    return Records(
        pl.concat([part.frame for part in parts]),
        [reject for part in parts for reject in part.rejects],
        [observation for part in parts for observation in part.observations],
    )


# ---------------------------------------------------------------------------------------------------------------------


def _no_records(shape: Shape) -> Records:
    return Notes(0).records([pl.Series(leaf.name, [], KIND_TYPES[leaf.kind]) for leaf in shape.leaves], 0)


def _read_parts(dataset: str, group: str, raws: Sequence[Raw], contract: ContractSettings) -> Iterator[Records]:
    """Read records by the names that each has: those from before the service renamed a field have ours."""
    shape = shape_of(dataset, group, contract)
    keys = renamed_keys(dataset, contract)
    if not keys:
        yield from _read_batches(shape, raws, 0, len(raws))
        return
    shapes = {True: shape, False: shape_of(dataset, group, without_renames(dataset, contract))}
    start = 0
    for is_renamed, same in groupby(raws, lambda raw: any(key in bytes(raw) for key in keys)):
        end = start + sum(1 for _ in same)
        yield from _read_batches(shapes[is_renamed], raws, start, end)
        start = end


def _read_batches(shape: Shape, raws: Sequence[Raw], first: int, last: int) -> Iterator[Records]:
    """Read batches as fast as possible: only pieces with an irregular record are read column by column."""
    for start in range(first, last, _BATCH):
        batch = raws[start : min(start + _BATCH, last)]
        if whole := read_regular(shape, batch, start):
            yield whole
            continue
        for begin in range(start, start + len(batch), _PIECE):
            piece = batch[begin - start : begin - start + _PIECE]
            yield read_regular(shape, piece, begin) or read_tolerantly(shape, piece, begin)
