"""Convert raw records to a frame by the contract: fast if they differ only in their digits, otherwise value by value.

Both ways give the same frame, rejects and differences. Value by value takes about five times as long, though what is
spelled as usual is read by the column; a value that does not fit affects neither its record nor the others there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import groupby
from typing import Any

import msgspec
import polars as pl
from msgspec import Raw

from firmlake.api.answers import UNREADABLE
from firmlake.api.contract import Group
from firmlake.core.company import company_in
from firmlake.core.errors import make_reason
from firmlake.core.settings import ContractSettings
from firmlake.tables.cells import DECIMALS, read_cell
from firmlake.tables.leaves import AS_IT_IS, Leaf, Object, Shape, read_object, renamed_keys, shape_of, without_renames
from firmlake.tables.notes import Notes, Records
from firmlake.tables.regular import may_be_regular, read_regular
from firmlake.tables.schemas import KIND_TYPES

_BATCH, _PART = 8192, 1024
"""Records read at once, for the least cost. If one is irregular, only its part of the batch is read value by value."""
_NULL = Raw(b"null")
_TEXT = msgspec.json.Decoder(str)
_TEXTS = msgspec.json.Decoder(list[str | None])


def read_records(dataset: str, group: str, raws: Sequence[Raw], contract: ContractSettings = AS_IT_IS) -> Records:
    """Read records of one group of a dataset: valid JSON, as extracted by `firmlake.api.answers`.

    A value is exact, or null if it does not fit. A record is rejected only if a field that identifies it does not fit.
    Fractions, ratios and decimals with more digits than their type are rounded half to even, which is recorded as an
    observation ("rounded_value").
    """
    if not raws:
        shape = shape_of(dataset, group, contract)
        return Notes(0).records([pl.Series(leaf.name, [], KIND_TYPES[leaf.kind]) for leaf in shape.leaves], 0)
    parts = list(_read_by_names(dataset, group, raws, contract))
    return Records(
        pl.concat([part.frame for part in parts]),
        [reject for part in parts for reject in part.rejects],
        [observation for part in parts for observation in part.observations],
    )


# ---------------------------------------------------------------------------------------------------------------------


def _read_by_names(dataset: str, group: str, raws: Sequence[Raw], contract: ContractSettings) -> Iterator[Records]:
    """Read records by the names that each has: those from before the service renamed a field have ours."""
    shape = shape_of(dataset, group, contract)
    keys = renamed_keys(dataset, contract)
    if not keys:
        yield from _read_batches(shape, raws, 0)
        return
    shapes = {True: shape, False: shape_of(dataset, group, without_renames(dataset, contract))}
    start = 0
    for is_renamed, same in groupby(raws, lambda raw: any(key in bytes(raw) for key in keys)):
        batch = list(same)
        yield from _read_batches(shapes[is_renamed], batch, start)
        start += len(batch)


def _read_batches(shape: Shape, raws: Sequence[Raw], start: int, size: int = _BATCH) -> Iterator[Records]:
    """Read batches as fast as possible."""
    is_open = not may_be_regular(shape)
    for place in range(0, len(raws), size):
        batch = raws[place : place + size]
        regular = None if is_open else read_regular(shape, batch, start + place)
        if regular or is_open or len(batch) <= _PART:
            yield regular or _read_exactly(shape, batch, start + place)
        else:
            yield from _read_batches(shape, batch, start + place, _PART)


def _read_exactly(shape: Shape, raws: Sequence[Raw], start: int) -> Records:
    """Read records, each valid JSON, value by value; the first of them is the one of this number."""
    notes = Notes(start)
    leaves = [leaf for each in shape.objects for leaf in each.leaves.values()]
    received = zip(*[_take(shape, raw, number, notes) for number, raw in enumerate(raws)], strict=True)
    columns = {leaf.name: _read_column(leaf, values, notes) for leaf, values in zip(leaves, received, strict=True)}
    return notes.records([columns[leaf.name] for leaf in shape.leaves], len(raws))


def _read_column(leaf: Leaf, received: Sequence[Raw], notes: Notes) -> pl.Series:
    """Read the values of a field, equal ones once, and note what is odd about them."""
    if leaf.kind == "text" and not leaf.required:  # most are nothing but texts, of which thousands are read at once
        with suppress(*UNREADABLE):
            return pl.Series(leaf.name, _TEXTS.decode(b"[%b]" % b",".join(received)), pl.String)
    kind = KIND_TYPES[leaf.kind]
    usual, in_texts = _read_usual(leaf, received) or (None, [])
    nulls = range(len(received)) if usual is None else usual.is_null().arg_true()
    rest = [place for place in nulls if bytes(received[place]) != b"null"]
    read = cache(partial(read_cell, leaf))
    cells = [read(bytes(received[place])) for place in rest]
    kinds = {"text_for_number": in_texts} if in_texts else {}
    for place, cell in zip(rest, cells, strict=True):
        if cell.kind:
            kinds.setdefault(cell.kind, []).append(place)
    for difference, places in kinds.items():
        notes.observe(difference, leaf.path, received[min(places)], min(places), len(places))
    for place, cell in zip(rest, cells, strict=True):
        if cell.misfit:
            notes.discard(place, leaf.path, received[place], cell.misfit, leaf.mode)
        elif cell.rounded:
            notes.observe("rounded_value", leaf.path, cell.rounded, place)
    if usual is None:
        by_place = dict(zip(rest, cells, strict=True))
        values = pl.Series([by_place[place].value if place in by_place else None for place in nulls], dtype=kind)
    else:
        values = usual.scatter(rest, pl.Series([cell.value for cell in cells], dtype=kind)) if rest else usual
    for place in values.is_null().arg_true() if leaf.required else ():
        notes.reject(place, leaf.path, None, make_reason("missing"), "record")
    return values.alias(leaf.name)


def _read_usual(leaf: Leaf, received: Sequence[Raw]) -> tuple[pl.Series, list[int]] | None:
    """Read dates and numbers that are spelled as usual, at the speed of a column; all others are null.

    Returns:
        The values, and the places of those that are numbers in texts; None if there is no usual spelling.
    """
    spelled = _SPELLED.get(leaf.kind)
    if spelled is None or leaf.shift or "." not in leaf.marks:
        return None
    lines = b"\n".join(received)
    if lines.count(b"\n") >= len(received):  # between the parts of a value that is an object or array
        lines = b"\n".join([bytes(each).replace(b"\n", b" ") for each in received])
    texts = pl.Series(lines.decode(errors="replace").split("\n"))
    is_usual = texts.str.contains(spelled)
    bare = texts.str.strip_chars('"').zip_with(is_usual, pl.Series([None], dtype=pl.String))
    values = bare.str.to_date("%Y-%m-%d", strict=False) if leaf.kind == "date" else bare.cast(KIND_TYPES[leaf.kind])
    is_in_text = texts.str.starts_with('"') & values.is_not_null() if leaf.kind != "date" else is_usual.clear()
    return values, is_in_text.arg_true().to_list()


def _number(before: str, decimals: int) -> str:
    """Return a pattern of numbers that fit a column; in a text not with three decimals, which may be thousands."""
    bare = rf"-?{before}(?:\.[0-9]{{1,{decimals}}})?"
    in_text = rf'"-?{before}(?:\.(?:[0-9]{{1,2}}|[0-9]{{4,{max(decimals, 4)}}}))?"'
    return f"^(?:{bare}|{in_text if decimals != 2 else in_text.replace('|[0-9]{4,4}', '')})$"


_SPELLED = {
    **{
        kind: _number(rf"(?:0|[1-9][0-9]{{0,{precision - scale - 1}}})", scale)
        for kind, (precision, scale) in DECIMALS.items()
    },
    "fraction": _number("[01]", DECIMALS["fraction"][1]),
    "score": _number("(?:0|[1-9][0-9]{0,14})", 30),
    "integer": r'^(?:-?(?:0|[1-9][0-9]{0,17})|"-?(?:0|[1-9][0-9]{0,17})")$',
    "date": '^"[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}"$',
}
"""How values are usually spelled that fit their columns without loss, by kind."""


# --- taking records apart --------------------------------------------------------------------------------------------


def _take(shape: Shape, raw: Raw, number: int, notes: Notes) -> list[Raw]:
    """Return the values of a record's fields, object by object, and note everything else it holds."""
    top, *inner = shape.objects
    content = _open(top, raw, number, notes, "discard_value" if shape.group.is_open else "discard_record")
    values = [content.get(key, _NULL) for key in top.leaves]
    unknown = top.unknown_in(content)
    for each in inner:
        opened = _open(each, content[each.path], number, notes, each.mode) if each.path in content else {}
        values += [opened.get(key, _NULL) for key in each.leaves]
        unknown |= each.unknown_in(opened)
    if not unknown:
        return values
    if shape.group.is_open:
        paths = [leaf.path for each in shape.objects for leaf in each.leaves.values()]
        by_path = dict(zip(paths, values, strict=True))
        if found := _find_elsewhere(shape.group, by_path, unknown):
            notes.observe("other_place", found, None, number)
            values = [by_path[path] for path in paths]
        elif not _is_identified(shape.group, by_path):
            # With the documented fields alone it is a person, or anonymous; so it is where the identifier is null.
            has_place = bool(content.keys() & {each.path for each in inner})
            if any(_is_there(value) and ("." in path or not has_place) for path, value in unknown.items()):
                notes.reject(number, "", None, make_reason("no_identity"), "value")
    notes.keep_unknown(number, unknown)
    return values


def _open(each: Object, value: Raw, number: int, notes: Notes, mode: str) -> dict[str, Raw]:
    """Open a record or an object inside it, in which null counts as an empty object, and so does [], as PHP writes one.

    Anything else is discarded, in this mode.
    """
    text = bytes(value)
    if each.path and text in (b"null", b"[]"):
        return {}
    try:
        content = read_object(value)
        # Each key has one colon. More of them are in values, or belong to keys that stand twice.
        if text.count(b":") > len(content) + b"".join(content.values()).count(b":"):
            content = _join_repeated(value, content)
        return content
    except UNREADABLE as error:
        if each.path and (parts := _split_identifier(text)) and parts.keys() == set(each.identifier):
            notes.observe("other_place", each.path, None, number)
            return {each.identifier[usual]: part for usual, part in parts.items()}
        is_readable = each.path or isinstance(error, msgspec.ValidationError)
        reason = make_reason("not_an_object") if is_readable else make_reason("not_json", problem=error)
        notes.discard(number, each.path, value, reason, mode)
        return {}


def _find_elsewhere(group: Group, values: dict[str, Raw], unknown: dict[str, Raw]) -> str:
    """Move a company's identification to its place from wherever it was found; return where, or an empty text."""
    for prefix in {path.partition(".")[0] for way in group.elsewhere for path in way if "." in path} & unknown.keys():
        try:
            inner = read_object(unknown[prefix])
        except UNREADABLE:
            if not (inner := _split_identifier(bytes(unknown[prefix]))):
                continue
        del unknown[prefix]
        unknown |= {f"{prefix}.{key}": value for key, value in inner.items()}
    if _is_identified(group, values):
        return ""
    for way in group.elsewhere:
        if all(_is_there(unknown.get(path, values.get(path, _NULL))) for path in way):
            values |= {usual: unknown.pop(path, values.get(path, _NULL)) for path, usual in way.items()}
            return ", ".join(way)
    return ""


def _is_identified(group: Group, values: Mapping[str, Raw]) -> bool:
    """Tell whether a country and a number are in the usual places, to which all ways lead."""
    return all(_is_there(values[path]) for way in group.elsewhere[:1] for path in way.values())


def _split_identifier(value: bytes) -> dict[str, Raw]:
    """Split an identifier that is one text, such as "NL26123581", into the usual keys; nothing if it is none."""
    with suppress(*UNREADABLE):
        if company := company_in(_TEXT.decode(value)):
            parts = zip(("country", "companyNumber"), company, strict=True)
            return {key: Raw(msgspec.json.encode(part)) for key, part in parts}
    return {}


def _is_there(value: Raw) -> bool:
    return bytes(value) != b"null"


def _join_repeated(raw: Raw, content: Mapping[str, Raw]) -> dict[str, Raw]:
    """Replace the values of a repeated key by an array of arrays, which never fits."""
    values: dict[str, list[Any]] = {}

    def join(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values.clear()  # the outermost object comes last
        for key, value in pairs:
            values.setdefault(key, []).append(value)
        return dict(pairs)

    def verbatim(number: str) -> Raw:
        return Raw(number.encode())

    try:
        json.loads(bytes(raw), parse_float=verbatim, parse_int=verbatim, object_pairs_hook=join)
    except (ValueError, RecursionError):
        return dict(content)
    repeated = {key: Raw(msgspec.json.encode([each])) for key, each in values.items() if len(each) > 1}
    return {**content, **repeated}
