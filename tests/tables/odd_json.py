"""Records as no honest service would send them: valid JSON, but odd in every way we could think of."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from firmlake.api.contract import DATASETS
from support import lookalike, party, period

GROUPS = {
    ("financials", "period"): period(),
    ("lookalikes", "lookalike"): lookalike(),
    ("relationships", "parent"): party(),
    ("relationships", "child"): {"identifier": None},
}

NUMBERS = (
    "0", "-0", "-0.0", "1", "5.0", "1e0", "1e5", "1E+2", "1e-2", "0.1e1", "-12.34", "12.3", "12.340", "12.345", "1.005",
    "0.5", "0.0000005", "0.0000015", "1.00005", "1.00015", "0.30000000000000004", "0.012345678901234567", "1e-7",
    "123456789012345678", "9999999999999999.99", "-9999999999999999.99", "10000000000000000", "1e16", "1e20", "1e-40",
    "9007199254740993.01", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "999.9999994",
    "999.9999995", "1000", "99999999.99995", "1e308", "1e400", "1e-400", "1e999999", "1e-999999",
    "1e99999999999999999999",
    "0.1" + "0" * 20 + "1", "0.50" + "0" * 30, "1.5e-9",
    "1" * 39, "1" * 400, "0." + "3" * 38, "0." + "0" * 60, "340282366920938463463374607431768211456.5",
)  # fmt: skip
TEXTS = (
    '""', '"a"', '"0012"', '"\\u0000"', '"\\ud83d\\ude00"', '"\U0001f600\u2028"', '"a\\"b\\\\"', '"\\\\"',
    '"12.5"', '"591.240"', '"1.2345"', '"007"', '"5."', '".5"', '"1.2.3"', '"-"', '"-0"', '"1e3"', '"12,50"', '"null"',
    '"2024-02-29"', '"2023-02-29"', '"2024-2-3"', '"0000-01-01"', '"0001-01-01"', '"9999-12-31"',
    '"2024-01-01T00:00:00Z"',
    '"2024-01-01\\n"', '"\uff12024-01-01"', '"2024\\u002d01-01"', '"\udcff"', '"\\":"',
    '"identifier"', '"\\"percentage\\":5"',
)  # fmt: skip
OTHERS = (
    "null", "true", "[]", "{}", "[null]", '["a",null]', '["1","2"]', "[[]]", '{"a":1}', "[1]", '{"a":1,"a":2}',
    "[" * 200 + "]" * 200, '["' + "x" * 3000 + '"]', json.dumps(["1"] * 500),
)  # fmt: skip
LITERALS = st.sampled_from([*NUMBERS, *TEXTS, *OTHERS]) | st.decimals(allow_nan=False, allow_infinity=False).map(str)


class _Literal(str):
    """JSON text to be put as it is."""


@st.composite
def records(draw: Any, kind: tuple[str, str], max_changes: int = 3) -> bytes:
    """A record of a group with some changes, as JSON text."""
    tree = json.loads(json.dumps(GROUPS[kind]), parse_float=_Literal, parse_int=_Literal)
    for _ in range(draw(st.integers(0, max_changes))):
        _change(draw, tree)
    return _render(draw, tree).encode(errors="surrogateescape")


@st.composite
def batches(draw: Any, max_size: int = 5) -> tuple[tuple[str, str], list[Raw]]:
    """A group and some records of it, as a bulk answer would hold them."""
    kind = draw(st.sampled_from(list(GROUPS)))
    texts = draw(st.lists(records(kind), min_size=1, max_size=max_size))
    return kind, raws(texts)


@st.composite
def dialects(draw: Any, max_size: int = 6) -> tuple[tuple[str, str], list[Raw]]:
    """A group and records of it that all have the same unknown keys, and mostly usual values."""
    kind = draw(st.sampled_from(list(GROUPS)))
    inner = [key for key, value in GROUPS[kind].items() if isinstance(value, dict)]
    keys = st.sampled_from(
        ["x-source", "line1", "line2", "meta", "revenue2", "1", "", "a b", "a.b", "k:v", "\u00e9", "z{"]
    )
    unknown = draw(
        st.lists(
            st.tuples(st.sampled_from(["", *inner]), keys, st.integers(0, 4)),
            max_size=4,
            unique_by=lambda place: place[:2],
        )
    )
    usual = st.sampled_from(
        [
            "null",
            "true",
            "1",
            "-2.50",
            "1e5",
            '"registry"',
            '"R2-D2: a, b"',
            "[]",
            '["a","b"]',
            '{"version":3,"tags":[]}',
            '{"a":{"b":[1,{"c":2}]},"d":"x,y"}',
            "{}",
        ]
    )
    # Of a key that stands twice within an unknown value only the slowest way makes an array; the others keep it.
    values = draw(st.sampled_from([usual, usual | LITERALS.filter(lambda text: '"a":2' not in text)]))
    omits_nulls, is_spaced = draw(st.booleans()), draw(st.booleans())
    texts = []
    for _ in range(draw(st.integers(1, max_size))):
        tree = json.loads(json.dumps(GROUPS[kind]), parse_float=_Literal, parse_int=_Literal)
        for holder in (tree, *(tree[key] for key in inner)):
            for key in [*holder]:
                if draw(st.integers(0, 9)) == 0 and not isinstance(holder[key], dict):
                    holder[key] = None
                if holder[key] is None and omits_nulls:
                    del holder[key]
        for of, key, place in unknown:
            holder = tree[of] if of else tree
            if draw(st.integers(0, 9)) and isinstance(holder, dict):
                items = [*holder.items()]
                items.insert(place, (key, _Literal(draw(values))))
                holder.clear()
                holder.update(items)
        text = _text(tree).replace('":', '": ').replace(',"', ', "') if is_spaced else _text(tree)
        texts.append(text.encode(errors="surrogateescape"))
    return kind, raws(texts)


@st.composite
def mixtures(draw: Any, max_size: int = 8) -> tuple[tuple[str, str], list[Raw]]:
    """A group and records of it whose values are spelled by a few dialects, and some in any way."""
    kind = draw(st.sampled_from(list(GROUPS)))
    random = draw(st.randoms(use_true_random=False))
    dialects = random.sample(_SPELLINGS, random.randint(1, 3))
    fields = DATASETS[kind[0]].fields.values()
    texts = []
    for _ in range(draw(st.integers(1, max_size))):
        tree: dict[str, Any] = {}
        for field in fields:
            *outer, key = field.path.split(".")
            value = _spelled(random, field.kind, random.choice(dialects))
            if value or random.random() < 0.5:
                holder = tree.setdefault(outer[0], {}) if outer else tree
                holder[key] = _Literal(value or "null")
        texts.append(_text(tree).encode(errors="surrogateescape"))
    return kind, raws(texts)


_SPELLINGS = ("{}", "{}.0", '"{}"', '"{}.0"', "comma", "thousands", "empty", "midnight", "exponent", "noise")


def _spelled(random: Any, kind: str, dialect: str) -> str:
    """A value of a kind as a dialect spells it; nothing if it has none."""
    if random.random() < 0.15:
        return random.choice(["", random.choice([*NUMBERS, *TEXTS, *OTHERS])])
    if kind in ("text", "codes"):
        text = random.choice(['"BE"', '"0403227515"', "403227515", '"Z\u00fcrich"'])
        return f"[{text}]" if kind == "codes" else text
    if kind == "date":
        time = random.choice(["", "T00:00:00Z", " 00:00", "T00:00:00.000+01:00", "T12:00:00Z"])
        return f'"20{random.randint(10, 26)}-0{random.randint(1, 9)}-28{time if dialect == "midnight" else ""}"'
    number = Decimal(random.randint(-(10 ** random.randint(0, 18)), 10 ** random.randint(0, 18)))
    number = number.scaleb(-random.choice([0, 0, 1, 2, 2, 3, 4, 5, 18]))
    match dialect:
        case "empty":
            return '""'
        case "comma":
            return f'"{number:f}"'.replace(".", ",")
        case "thousands":
            return f'"{number:,f}"'.translate(str.maketrans(",.", random.choice([".,", " ,", ",.", "\u202f."])))
        case "exponent":
            return f"{number:.3E}"
        case "noise":
            return repr(float(number)) if kind != "integer" else f"{number:f}"
    return dialect.format(f"{number:f}") if "{}" in dialect else f"{number:f}"


def raws(texts: list[bytes]) -> list[Raw]:
    """Take records out of an array as `firmlake.api.answers` does; what it would refuse is left out."""
    taken = []
    for text in texts:
        try:
            taken += msgspec.json.decode(b"[" + text + b"]", type=list[Raw])
        except (msgspec.DecodeError, RecursionError):
            continue
    return taken


def _change(draw: Any, tree: dict[str, Any]) -> None:
    holder = tree
    while branches := [key for key, value in holder.items() if isinstance(value, dict)]:
        if draw(st.booleans()):
            break
        holder = holder[draw(st.sampled_from(branches))]
    if not holder:
        return
    key = draw(st.sampled_from(list(holder)))
    match draw(
        st.sampled_from(
            ["value", "value", "value", "missing", "unknown", "repeated", "text", "order", "escape", "digit"]
        )
    ):
        case "value":
            holder[key] = _Literal(draw(LITERALS))
        case "missing":
            del holder[key]
        case "unknown":
            holder[draw(st.sampled_from(["unheardOf", "a.b", "\u00e9", "revenue", "name"]))] = _Literal(draw(LITERALS))
        case "repeated":
            holder[key] = _Literal(f'{_text(holder[key])},"{key}":{_text(holder[key])}')
        case "digit":
            place, digits = draw(st.integers(0, len(key))), draw(st.sampled_from(["1", "-", ".", "20", "0.5"]))
            items = [(name[:place] + digits + name[place:] if name == key else name, v) for name, v in holder.items()]
            holder.clear()
            holder.update(items)
        case "text":
            holder[key] = _Literal(json.dumps(_text(holder[key])))
        case "order":
            items = draw(st.permutations(list(holder.items())))
            holder.clear()
            holder.update(items)
        case "escape":
            items = [
                (f"\\u{ord(name[0]):04x}{name[1:]}" if name == key else name, value) for name, value in holder.items()
            ]
            holder.clear()
            holder.update(items)


def _text(value: Any) -> str:
    if isinstance(value, _Literal):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f'"{key}":{_text(inner)}' for key, inner in value.items()) + "}"
    return json.dumps(value, separators=(",", ":"))


def _render(draw: Any, tree: dict[str, Any]) -> str:
    text = _text(tree)
    match draw(st.sampled_from(["plain"] * 6 + ["spaced", "blank before colon", "pretty"])):
        case "spaced":
            return text.replace('":', '": ').replace(',"', ', "')
        case "blank before colon":
            return text.replace('":', '" :', 1)
        case "pretty":
            return text.replace(',"', ',\n\t"')
    return text
