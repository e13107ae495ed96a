"""Read records in the fastest way: if they differ only in their digits, their values are read as a CSV.

It takes two passes over the bytes. The first removes the digits; the rest of a record is its skeleton. Thousands of
records share a few skeletons, and one record of each skeleton is compared with the contract: no key twice, dates and
texts quoted, texts of letters and digits only. A key may be absent or unknown. A blank may follow commas or colons.

The second pass removes quotes, braces and blanks, and letters unless they are part of a value. A colon becomes a comma,
so that a column precedes each value and shows keys that contain a digit. Arrow's CSV reader converts the result to
columns, exactly or not at all. Records with other keys are another CSV. Records that do not fit exactly are left to
`records.py`.
"""

from __future__ import annotations

import io
import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.csv
from msgspec import Raw

from firmlake.api.answers import UNREADABLE
from firmlake.tables.cells import DECIMALS, FRACTION_MAX
from firmlake.tables.leaves import Leaf, Object, Shape, read_object
from firmlake.tables.notes import Notes, Records
from firmlake.tables.schemas import KIND_TYPES

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
_MARKS = b'" {}'
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
    """Read records; return None if anything is irregular.

    Args:
        shape: The shape of their group, which `may_be_regular`.
        raws: Records, each valid JSON.
        start: Index of the first.
    """
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


# ---------------------------------------------------------------------------------------------------------------------
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
    content = read_object(raw)
    if not _is_plain(content, bytes(raw)):
        raise ValueError
    inner = {other.path: other for other in shape.objects if other.path} if not each.path else {}
    for key, value in content.items():
        part, text = each.leaves.get(key) or inner.get(key), bytes(value).translate(None, _DIGITS)
        yield f"{each.path}.{key}" if each.path else key, part, text
        if isinstance(part, Object) and text not in _EMPTY:
            yield from _keys_in(shape, part, value)


def _is_plain(content: Mapping[str, Raw], raw: bytes) -> bool:
    """Tell whether an object has no key twice and none with escapes, and blanks after all commas or colons or none."""
    return any(
        raw == b"{%b}" % comma.join(b'"%b"%b%b' % (key.encode(), colon, value) for key, value in content.items())
        for comma in (b",", b", ")
        for colon in (b":", b": ")
    )


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
    raw = pl.DataFrame(pl.from_arrow(table.select([leaf.name for leaf in shape.leaves])))
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
    """Read lines of values.

    Args:
        csv: The lines.
        columns: The column of each value in a line.
        types: The columns to be read; one that the lines do not have is null.
        nulls: What is null. Texts are null where the empty text is, and only unquoted.
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
