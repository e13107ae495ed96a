"""Dialects: services that keep to the specification and answer differently wherever it leaves something open.

A dialect is one entry of `dialects.toml`: options of the service that it sets, and twists without conditions: faults,
or the kinds below, which say the same thing in another way.
"""

import gzip
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import reduce
from importlib.resources import files
from operator import or_
from random import Random
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode

import msgspec

from firmlake_sandbox.contract import DATASETS
from firmlake_sandbox.twists import FAULTS, Object, Twist, objects, pages
from firmlake_sandbox.wire import Answer, Call, Line, RefusedError, read_json, write_json

_NOT_FOUND = "Company not found"


class Names(Twist, frozen=True):
    """Call fields of queries and bodies otherwise.

    `own` maps the usual name to this service's; `unknown` is what comes of a usual name: `named` in a 400 that also
    says which was expected, `refused` by a 400 without a reason, or `ignored`.
    """

    own: dict[str, str]
    unknown: Literal["named", "refused", "ignored"] = "named"

    def translate(self, call: Call) -> Call:
        query = parse_qsl(call.query.decode("latin-1"), keep_blank_values=True)
        query = [(name, text) for key, text in query for name in self._usual(key)]
        try:
            body = write_json(self._rename(read_json(call.body))) if call.body else b""
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the service itself refuses it
            body = call.body
        return call._replace(query=urlencode(query).encode(), body=body)

    def _rename(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._rename(inner) for key, inner in value.items() for name in self._usual(key)}
        return [self._rename(inner) for inner in value] if isinstance(value, list) else value

    def _usual(self, key: str) -> Iterator[str]:
        """Yield the usual name for one of this service, or nothing for one it ignores."""
        own = self.own.get(key)
        if own is None or own == key:
            yield next((usual for usual, name in self.own.items() if name == key), key)
        elif self.unknown == "named":
            raise RefusedError(400, f"unknown property '{key}', expected '{own}'")
        elif self.unknown == "refused":
            raise RefusedError(400, "Bad request")


class LanguageHeader(Twist, frozen=True):
    """Take the language from another header, or from none."""

    own: str = ""

    def translate(self, call: Call) -> Call:
        return call._replace(headers={**call.headers, "accept-language": call.headers.get(self.own, "")})


class Headers(Twist, frozen=True):
    """Call headers of answers otherwise: the usual name to this service's, "" leaves it out."""

    own: dict[str, str]
    rank = 5

    def finish(self, answer: Answer) -> Answer:
        named = {self.own.get(name, name): text for name, text in answer.headers.items()}
        return answer._replace(headers={name: text for name, text in named.items() if name})


class Records(Twist, frozen=True):
    """Change the elements of answers about companies."""

    change: str

    def is_for(self, endpoint: str) -> bool:
        return endpoint.startswith(DATASETS) and super().is_for(endpoint)

    def rewrite(self, elements: list[Object], bits: int) -> Any:
        changed = _RECORDS[self.change](elements)
        return elements if changed is None else changed


def _omit(elements: list[Object], *values: object) -> None:
    """Leave out keys with these values, the innermost first."""
    for holder in objects(elements):
        for key in [key for key, value in holder.items() if value in values]:
            del holder[key]


def _add_fields(elements: list[Object]) -> None:
    for holder in objects(elements):
        holder |= {"x-source": "registry", "confidence": Decimal("0.93"), "meta": {"version": 3, "tags": []}}


def _count_page(elements: list[Object]) -> None:
    for page in pages(elements):
        page["pagination"]["total"] = len(page["data"])


def _tell_more(elements: list[Object]) -> None:
    for page in pages(elements):
        told = page["pagination"]
        told["hasMore"] = told["offset"] + len(page["data"]) < told.pop("total")


def _refuse_unknown(elements: list[Object], are_enough: Callable[[Iterable[bool]], bool]) -> None:
    if are_enough(element.get("message") == _NOT_FOUND for element in elements):
        raise RefusedError(404, _NOT_FOUND)


_RECORDS: dict[str, Callable[[list[Object]], Any]] = {
    "add_fields": _add_fields,
    "count_page": _count_page,
    "omit_empties": lambda elements: _omit(elements, None, [], {}),
    "omit_nulls": lambda elements: _omit(elements, None),
    "omit_unknown": lambda elements: [element for element in elements if "name" in element["identifier"]],
    "refuse_all_unknown": lambda elements: _refuse_unknown(elements, all),
    "refuse_any_unknown": lambda elements: _refuse_unknown(elements, any),
    "repeat": lambda elements: [*elements, *elements],
    "tell_more": _tell_more,
    "wrap": lambda elements: {"items": elements},
}


class Values(Records, frozen=True):
    """Change the values of fields, wherever they are in answers about companies."""

    fields: tuple[str, ...]

    def rewrite(self, elements: list[Object], bits: int) -> list[Object]:
        for holder in objects(elements):
            for field in self.fields:
                if holder.get(field) is not None:
                    holder[field] = _VALUES[self.change](holder[field])
        return elements


def _name_children(children: list[Object], name: Callable[[Object], Object]) -> list[Object]:
    """Name each child by something else than `identifier`."""
    return [_rename_child(child, name) if child.get("identifier") else child for child in children]


def _rename_child(child: Object, name: Callable[[Object], Object]) -> Object:
    company = {key: child["identifier"][key] for key in ("country", "companyNumber")}
    return name(company) | {key: value for key, value in child.items() if key != "identifier"}


_VALUES: dict[str, Callable[[Any], Any]] = {
    "by_company_id": lambda children: _name_children(children, lambda company: {"companyId": company}),
    "by_entity": lambda children: _name_children(children, lambda one: {"entity": "-".join(map(str, one.values()))}),
    "flat": lambda children: _name_children(children, lambda company: company),
    "half_more": lambda count: count + Decimal("0.5"),
    "hundredfold": lambda value: value * 100 if isinstance(value, int) else value.scaleb(2),
    "integer": int,
    "other_function": lambda function: {"SHAREHOLDER": "DIRECTOR"}.get(function, "BENEFICIAL_OWNER"),
    "texts": lambda part: {key: value if value is None else str(value) for key, value in part.items()},
}


class Messages(Twist, frozen=True):
    """Use other words: the usual message, "" for none, to this service's."""

    own: dict[str, str]

    def rewrite(self, elements: list[Object], bits: int) -> list[Object]:
        for element in elements:
            if "message" in element:
                element["message"] = self.own.get(element["message"] or "", element["message"])
        return elements

    def finish(self, answer: Answer) -> Answer:
        if answer.status != 404:
            return answer
        return answer._replace(body=write_json(self.rewrite([read_json(answer.body)], 0)[0]))


class Errors(Twist, frozen=True):
    """Write errors in another form."""

    form: str
    rank = 1

    def finish(self, answer: Answer) -> Answer:
        if answer.status < 400:
            return answer
        made = _ERRORS[self.form](answer.status, read_json(answer.body)["message"])
        if not isinstance(made, str):
            return answer._replace(body=write_json(made))
        return Answer(answer.status, {**answer.headers, "content-type": "text/html; charset=utf-8"}, made.encode())


_ERRORS: dict[str, Callable[[int, str], object]] = {
    "html": lambda status, text: f"<html><head><title>{status}</title></head><body><p>{text}</p></body></html>",
    "listed": lambda status, text: {"statusCode": status, "message": [text], "error": "Bad Request"},
    "nested": lambda status, text: {"error": {"code": f"E{status}", "message": text}},
    "problem": lambda status, text: {
        "type": "about:blank", "title": "Request failed", "status": status, "detail": text,
    },
}  # fmt: skip


class Spelling(Twist, frozen=True):
    """Spell the same JSON otherwise."""

    spell: str
    rank = 2

    def finish(self, answer: Answer) -> Answer:
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer._replace(body=_SPELLINGS[self.spell](answer.body)) if is_json else answer


def _spell_pretty(body: bytes) -> bytes:
    return msgspec.json.format(write_json(_reverse_keys(read_json(body))), indent=2)


def _reverse_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reverse_keys(inner) for key, inner in reversed(value.items())}
    return [_reverse_keys(inner) for inner in value] if isinstance(value, list) else value


def _spell_escaped(body: bytes) -> bytes:
    """Escape slashes and everything outside ASCII."""
    escaped = re.sub(r"[^\x00-\x7f]", _escape, body.decode())
    return re.sub(r'"(?:[^"\\]|\\.)*"', lambda found: found[0].replace("/", r"\/"), escaped).encode()


def _escape(found: re.Match[str]) -> str:
    return re.sub("....", lambda unit: f"\\u{unit[0]}", found[0].encode("utf-16-be").hex().upper())


def _spell_exponents(body: bytes) -> bytes:
    """Write decimals as 1.25E3, or with a zero at their end."""
    return re.sub(r'("(?:[^"\\]|\\.)*")|-?\d+\.\d+', _spell_number, body.decode()).encode()


def _spell_number(found: re.Match[str]) -> str:
    if found[1]:
        return found[1]
    return found[0] + "0" if len(found[0]) % 2 else f"{Decimal(found[0]).scaleb(-3):f}E+3"


_SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "escaped": _spell_escaped,
    "exponents": _spell_exponents,
    "mark": lambda body: b"\xef\xbb\xbf" + body,
    "pretty": _spell_pretty,
}


class Gzip(Twist, frozen=True):
    """Compress answers, whatever the request accepts."""

    rank = 4

    def finish(self, answer: Answer) -> Answer:
        if "content-encoding" in answer.headers or not answer.body:
            return answer
        headers = {**answer.headers, "content-encoding": "gzip"}
        return answer._replace(headers=headers, body=gzip.compress(answer.body, 1, mtime=0))


class Chunked(Twist, frozen=True):
    """Do not announce the length of answers."""

    async def send(self, answer: Answer, line: Line) -> None:
        await line.begin(answer, is_chunked=True)
        half = len(answer.body) // 2
        await line.send_part(answer.body[:half])
        await line.end(answer.body[half:])


_KINDS = (*FAULTS, Names, LanguageHeader, Headers, Records, Values, Messages, Errors, Spelling, Gzip, Chunked)
_AnyTwist: Any = reduce(or_, _KINDS)


class Dialect(msgspec.Struct, frozen=True):
    """How a service differs; `dialects.toml` describes the fields."""

    gap: str
    says: str
    ending: str = ""
    options: dict[str, Any] = {}
    twists: tuple[_AnyTwist, ...] = ()


DIALECTS = msgspec.convert(
    tomllib.loads(files(__package__).joinpath("dialects.toml").read_text("utf-8")), dict[str, Dialect]
)
_COMBINED_SHARE = 0.5
"""Of the gaps, those at which a combination by seed differs from the specification."""


def resolve_dialects(names: Iterable[str]) -> tuple[Dialect, ...]:
    """Find dialects by name, in the order of the table; `seed:7` is a combination, always the same."""
    found: dict[str, str] = {}
    for given in names:
        kind, _, seed = given.partition(":")
        for name in combine(int(seed)) if kind == "seed" and seed.isdecimal() else [given]:
            if name not in DIALECTS:
                raise ValueError(f"{name!r} is no dialect; `--dialect help` lists them")
            other = found.setdefault(DIALECTS[name].gap, name)
            if other != name:
                raise ValueError(f"{other} and {name} exclude each other: both are about {DIALECTS[name].gap}")
    return tuple(dialect for name, dialect in DIALECTS.items() if name in found.values())


def combine(seed: int) -> list[str]:
    """Draw a combination of dialects that leave a run its ordinary end: at most one for each gap."""
    random = Random(seed)  # noqa: S311 - repeatable on purpose
    by_gap: dict[str, list[str]] = {}
    for name, dialect in DIALECTS.items():
        if not dialect.ending:
            by_gap.setdefault(dialect.gap, []).append(name)
    return [random.choice(names) for names in by_gap.values() if random.random() < _COMBINED_SHARE]


def describe_dialects() -> str:
    """List all dialects for a person."""
    lines: list[str] = []
    for gap in dict.fromkeys(dialect.gap for dialect in DIALECTS.values()):
        lines.append(gap)
        for name, dialect in DIALECTS.items():
            if dialect.gap == gap:
                lines.append(f"  {name:20} {dialect.says}" + (f" ({dialect.ending})" if dialect.ending else ""))
    end = "seed:N combines dialects that have no remark in parentheses; a seed always gives the same combination.\n"
    return "\n".join([*lines, "", end])
