"""Convert raw records to a frame by the contract: fast if they differ only in their digits, otherwise value by value.

Both ways give the same frame, rejects and differences. Value by value takes about eight times as long; a value that
does not fit affects neither its record nor the others there.
"""

from __future__ import annotations

import io
import json
import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import cache, partial
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.csv
from msgspec import Raw

from firmlake.api.answers import UNREADABLE, company_of
from firmlake.api.contract import Group
from firmlake.core.company import Company
from firmlake.core.errors import make_reason
from firmlake.core.settings import ContractSettings
from firmlake.tables.cells import DECIMALS, FRACTION_MAX, read_cell
from firmlake.tables.leaves import AS_IT_IS, Leaf, Object, Shape, read_object, renamed_keys, shape_of, without_renames
from firmlake.tables.notes import Notes, Records
from firmlake.tables.schemas import KIND_TYPES

_BATCH, _PART = 8192, 1024
"""Records read at once, for the least cost. If one is irregular, only its part of the batch is read value by value."""
_NULL = Raw(b"null")
_READ_TEXTS = msgspec.json.Decoder(list[str | None]).decode


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
            return pl.Series(leaf.name, _READ_TEXTS(b"[%b]" % b",".join(received)), pl.String)
    plain, rest = _read_plain(leaf, received), list(range(len(received)))
    if plain is not None:
        rest = [place for place in plain.is_null().arg_true() if bytes(received[place]) != b"null"]
    read = cache(partial(read_cell, leaf))
    cells = [read(bytes(received[place])) for place in rest]
    for place, cell in zip(rest, cells, strict=True):
        if cell.kind:
            notes.observe(cell.kind, leaf.path, received[place], place)
        if cell.misfit:
            notes.discard(place, leaf.path, received[place], cell.misfit, leaf.mode)
        elif cell.rounded:
            notes.observe("rounded_value", leaf.path, cell.rounded, place)
    values = pl.Series(leaf.name, [cell.value for cell in cells], KIND_TYPES[leaf.kind])
    values = values if plain is None else plain.scatter(rest, values)
    for place in values.is_null().arg_true() if leaf.required else ():
        notes.reject(place, leaf.path, None, make_reason("missing"), "record")
    return values


def _read_plain(leaf: Leaf, received: Sequence[Raw]) -> pl.Series | None:
    """Read the decimals that fit their column as they are, at the speed of a column; all other values are null."""
    lines = b"\n".join(received)
    if leaf.kind not in _PLAIN or leaf.shift or lines.count(b"\n") >= len(received):
        return None
    texts = pl.Series(leaf.name, lines.decode(errors="replace").split("\n"))
    nothing = pl.Series([None], dtype=pl.String)
    return texts.zip_with(texts.str.contains(_PLAIN[leaf.kind]), nothing).cast(KIND_TYPES[leaf.kind])


_PLAIN = {
    kind: rf"^-?(?:0|[1-9][0-9]{{0,{precision - scale - 1}}})(?:\.[0-9]{{1,{scale}}})?$"
    for kind, (precision, scale) in DECIMALS.items()
} | {"fraction": rf"^-?[01](?:\.[0-9]{{1,{DECIMALS['fraction'][1]}}})?$"}


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
        if each.path and not content.keys() >= set(each.identifier.values()):
            return _named_otherwise(each, content, number, notes)
        return content
    except UNREADABLE as error:
        if each.path and (parts := _split_identifier(text)) and parts.keys() == set(each.identifier):
            notes.observe("other_place", each.path, None, number)
            return {each.identifier[usual]: part for usual, part in parts.items()}
        is_readable = each.path or isinstance(error, msgspec.ValidationError)
        reason = make_reason("not_an_object") if is_readable else make_reason("not_json", problem=error)
        notes.discard(number, each.path, value, reason, mode)
        return {}


def _named_otherwise(each: Object, content: dict[str, Raw], number: int, notes: Notes) -> dict[str, Raw]:
    """Read the company of an object that has it under keys of its own, if its values name one company only."""
    own = each.keys - set(each.identifier.values())  # such as its name
    values = {key: value for key, value in content.items() if key not in own}
    found = company_of(values)
    if found is None:
        return content
    moved = [key for key in values if company_of({**values, key: _NULL}) != found]
    notes.observe("other_place", ", ".join(f"{each.path}.{key}" for key in moved if key not in each.keys), None, number)
    parts = {each.identifier[usual]: part for usual, part in _as_identifier(found).items()}
    return {key: value for key, value in content.items() if key not in moved} | parts


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
    company = company_of({"": Raw(value)})
    return _as_identifier(company) if company else {}


def _as_identifier(company: Company) -> dict[str, Raw]:
    parts = zip(("country", "companyNumber"), company, strict=True)
    return {key: Raw(msgspec.json.encode(part)) for key, part in parts}


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


# --- records that differ in their digits alone -----------------------------------------------------------------------
# It takes two passes over the bytes. The first removes the digits; the rest of a record is its skeleton. Thousands of
# records share a few skeletons, and one record of each skeleton is compared with the contract: dates and texts
# quoted, texts of letters and digits only. A key may be absent or unknown.
#
# The second pass removes quotes, braces and blanks, and letters unless they are part of a value. A colon becomes a
# comma, so that a column precedes each value and shows keys that contain a digit or an escape. Arrow's CSV reader
# converts the result to columns, exactly or not at all: a key given twice makes one too many. Records with other keys
# are another CSV.

_SKELETON = {
    "date": re.compile(rb'""|null'),
    "codes": re.compile(rb'\[(?:""(?:, ?"")*)?\]|null'),
    "text": re.compile(rb'"[A-Za-z]*"'),
}
_NUMBER = re.compile(rb"(?:null)?")
_EMPTY = (b"null", b"{}")
_ARRAY = re.compile(rb"\[[^\[\]\\]*\]")
_TEXT = rb'"[^"\[\]\\]*"'
_INNER = rb'\{(?:[^"\[\]{}\\]|%b|%b)*\}' % (_TEXT, _ARRAY.pattern)
_OBJECT = rb'\{(?:[^"\[\]{}\\]|%b|%b|%b)*\}' % (_TEXT, _ARRAY.pattern, _INNER)
_UNKNOWN = re.compile(rb"%b|%b|%b|[A-Za-z+]*" % (_TEXT, _ARRAY.pattern, _OBJECT))
"""An unknown value: a text without brackets and escapes, an array without others in it, an object two deep, a word."""
_KEY = re.compile(r'[^",:\[\]{}\\]*')

_DIGITS = b"0123456789.-"
_MARKS = b'" {}\t\r'
_AS_CSV = bytes.maketrans(b":[]", b',""')
_NO_CODES = pl.Series([[]], dtype=pl.List(pl.String))
_WORTH = 200
"""Records that pay for a CSV of their own, on average."""
_CACHED = 100_000
"""Bytes of records that fit into the processor's cache."""
_FIRST_DAY = date(1, 1, 1)
_ARROW = {
    "date": pa.date32(),
    "integer": pa.decimal128(38, 0),
    "score": pa.float64(),
    "codes": pa.string(),
    "text": pa.string(),
}
_read_any = msgspec.json.Decoder(dict[str, Raw] | None).decode


class _Lines(NamedTuple):
    """The records of a skeleton: their columns in the CSV, and counts over all of them."""

    columns: tuple[str, ...]
    record_count: int
    null_count: int
    code_count: int
    unknown_count: int


def may_be_regular(shape: Shape) -> bool:
    """Tell whether records of a group can be read in this way."""
    kinds = {leaf.kind for leaf in shape.leaves}
    return not (shape.group.is_open or {"text", "codes"} <= kinds or any(leaf.shift for leaf in shape.leaves))


def read_regular(shape: Shape, raws: Sequence[Raw], start: int) -> Records | None:
    """Read records, each valid JSON and of a shape that `may_be_regular`; return None if anything is irregular."""
    has_text = any(leaf.kind == "text" for leaf in shape.leaves)
    notes = Notes(start)
    try:
        _fit(shape, raws[0], 1)  # most dialects show in their first record
        examples, counts, csv = _split(raws, _MARKS if has_text else _MARKS + string.ascii_letters.encode())
        lines = {skeleton: _fit(shape, examples[skeleton], count) for skeleton, count in counts.items()}
        if unknown_count := sum(each.unknown_count for each in lines.values()):
            _keep_unknown(shape, raws, notes)
        if notes.count("new_field") != unknown_count:
            raise ValueError  # an unknown key differs in its digits
        columns = _read_kinds(shape, raws, csv, lines).get_columns()
    except (*UNREADABLE, ValueError):
        return None
    return notes.records(columns, len(raws))


# What follows raises a ValueError if a record is irregular.


def _keep_unknown(shape: Shape, raws: Sequence[Raw], notes: Notes) -> None:
    top, *inner = shape.objects
    for number, raw in enumerate(raws):
        content = read_object(raw)
        unknown = top.unknown_in(content)
        for each in inner:
            unknown |= each.unknown_in((_read_any(content[each.path]) or {}) if each.path in content else {})
        notes.keep_unknown(number, unknown)


def _split(raws: Sequence[Raw], marks: bytes) -> tuple[dict[bytes, Raw], Counter[bytes], bytes]:
    """Split records into skeletons, each with an example and the number of its records, and their values as a CSV."""
    examples: dict[bytes, Raw] = {}
    counts: Counter[bytes] = Counter()
    csv: list[bytes] = []
    size = 1 + _CACHED // len(bytes(raws[0]))  # about as long as the others
    for portion in (raws[start : start + size] for start in range(0, len(raws), size)):
        text = b"\n".join(portion)
        skeletons = text.translate(None, _DIGITS).split(b"\n")
        counts.update(skeletons)
        if len(skeletons) != len(portion) or len(counts) > counts.total() // 8 + 16:
            raise ValueError
        examples |= {new: portion[skeletons.index(new)] for new in counts.keys() - examples.keys()}
        csv.append(text.translate(_AS_CSV, marks))
    return examples, counts, b"\n".join(csv)


def _fit(shape: Shape, example: Raw, count: int) -> _Lines:
    """Work out the CSV of the records of a skeleton from one of them."""
    columns: list[str] = []
    values = codes = unknown = 0
    for path, part, text in _keys_in(shape, shape.objects[0], example):
        if isinstance(part, Leaf):
            if not _SKELETON.get(part.kind, _NUMBER).fullmatch(text):
                raise ValueError
            columns += [f"key:{path}", part.name]
            values += text != b"null"
            codes += text.count(b'""') if part.kind == "codes" else 0
        elif part:
            columns += [f"key:{path}", f"blank:{path}"] if text in _EMPTY else [f"key:{path}"]
        else:
            if not (_KEY.fullmatch(path) and _UNKNOWN.fullmatch(text)):
                raise ValueError
            plain = _ARRAY.sub(b"", text)
            columns += [f"blank:{path}:{number}" for number in range(2 + plain.count(b",") + plain.count(b":"))]
            unknown += 1
    nulls = len(shape.leaves) - values
    return _Lines(tuple(columns), count, count * nulls, count * codes, count * unknown)


def _keys_in(shape: Shape, each: Object, raw: Raw) -> Iterator[tuple[str, Leaf | Object | None, bytes]]:
    """Yield the path of each key, its field or object, or None if it is unknown, and the skeleton of its value."""
    inner = {other.path: other for other in shape.objects if other.path} if not each.path else {}
    for key, value in read_object(raw).items():
        part, text = each.leaves.get(key) or inner.get(key), bytes(value).translate(None, _DIGITS)
        yield f"{each.path}.{key}" if each.path else key, part, text
        if isinstance(part, Object) and text not in _EMPTY:
            yield from _keys_in(shape, part, value)


def _read_kinds(shape: Shape, raws: Sequence[Raw], csv: bytes, lines: Mapping[bytes, _Lines]) -> pl.DataFrame:
    """Read records, those of the same columns together."""
    kinds: dict[tuple[str, ...], list[int]] = {each.columns: [] for each in lines.values()}
    if len(kinds) == 1:
        return _read_lines(shape, csv, [*lines.values()])
    if len(kinds) > len(raws) // _WORTH + 4:
        raise ValueError
    places_of = {skeleton: kinds[each.columns] for skeleton, each in lines.items()}
    for place, raw in enumerate(raws):
        places_of[bytes(raw).translate(None, _DIGITS)].append(place)
    rows, frames = csv.split(b"\n"), []
    for columns, places in kinds.items():
        own = [each for each in lines.values() if each.columns == columns]
        frame = _read_lines(shape, b"\n".join([rows[place] for place in places]), own)
        frames.append(frame.with_columns(pl.Series("place", places)))
    return pl.concat(frames).sort("place").drop("place")


def _read_lines(shape: Shape, csv: bytes, lines: Sequence[_Lines]) -> pl.DataFrame:
    """Read records of the same columns, which must hold as much as their skeletons say."""
    columns = lines[0].columns
    # Arrow accepts digits beyond the precision of a wide decimal, and Polars makes null of too big a value.
    types = {leaf.name: _ARROW.get(leaf.kind) or pa.decimal128(38, DECIMALS[leaf.kind][1]) for leaf in shape.leaves}
    types |= {column: pa.null() for column in columns if column.startswith("key:")}
    # Where texts keep their letters, so do keys and nulls; no text is null, or the skeleton would show it.
    has_text = any(leaf.kind == "text" for leaf in shape.leaves)
    nulls = ["null", *{key for each in shape.objects for key in each.keys}] if has_text else [""]
    table = _read_csv(csv, columns, types, nulls)
    raw = pl.DataFrame(table.select([leaf.name for leaf in shape.leaves]).to_reader())
    frame = pl.DataFrame(
        [_read_codes(raw[leaf.name]) if leaf.kind == "codes" else _cast(leaf, raw[leaf.name]) for leaf in shape.leaves]
    )
    absent = frame.null_count().row(0, named=True)
    codes = sum(frame[leaf.name].list.len().sum() for leaf in shape.leaves if leaf.kind == "codes")
    expected = tuple(map(sum, zip(*(each[1:4] for each in lines), strict=True)))
    is_lacking = any(absent[leaf.name] for leaf in shape.leaves if leaf.required)
    if is_lacking or (len(frame), sum(absent.values()), codes) != expected:
        raise ValueError
    return frame


def _read_codes(column: pl.Series) -> pl.Series:
    return column.str.split(",").zip_with((column != "").fill_null(True), _NO_CODES)


def _read_csv(csv: bytes, columns: Sequence[str], types: Mapping[str, pa.DataType], nulls: list[str]) -> pa.Table:
    """Read lines of values, each of one of `columns`. A column of `types` that the lines do not have is null.

    Texts are null where the empty text is, and only unquoted.
    """
    try:
        return pyarrow.csv.read_csv(
            io.BytesIO(csv),
            read_options=pyarrow.csv.ReadOptions(use_threads=False, column_names=columns, block_size=len(csv) + 1),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types,
                include_columns=types,
                include_missing_columns=True,
                null_values=nulls,
                strings_can_be_null="" in nulls,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowException:
        raise ValueError from None


def _cast(leaf: Leaf, raw: pl.Series) -> pl.Series:
    """Cast a column to the type of its field; a value that does not fit becomes null."""
    column = raw.cast(KIND_TYPES[leaf.kind], strict=False)
    if leaf.kind == "date":
        fits = column >= _FIRST_DAY
    elif leaf.kind == "fraction":
        fits = column <= FRACTION_MAX
    elif leaf.kind == "score":
        fits = column.is_finite()
    else:
        return column
    return column if fits.all() else column.zip_with(fits, pl.Series([None], dtype=column.dtype))
