"""Records as no honest service would send them: valid JSON, but odd in every way we could think of."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

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
