"""Answers that are wrong within: elements, totals, pages and fields that are not as they should be."""

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

from firmlake_sandbox.bodies import Answer, inflate_body, replace_body
from firmlake_sandbox.faults import parse_company
from firmlake_sandbox.rewrites import write_gzip
from firmlake_sandbox.rules import AnyRule, Drift, Elements, GzipBomb, SmallPages, Totals, WrongBody

_Element = dict[str, Any]
_Chosen = list[int]  # places in the answer

_FOREIGN = {"country": "NL", "companyNumber": "99999999", "name": "Elders B.V.", "place": "Elders"}
_LITERAL = "\ue000literal\ue000"  # stands for a JSON text until all is written
_WRITTEN_LITERAL = f'"{_LITERAL}"'.encode()


def change_answer(rule: AnyRule, answer: Answer, bits: int) -> Answer:
    """Return the answer as the rule spoils it; error answers and rules of other kinds leave it as it is.

    Args:
        rule: The fault.
        answer: The right answer.
        bits: What decides which elements it concerns.
    """
    change = _CHANGES.get(type(rule))
    if not change or answer.status != 200:
        return answer
    if answer.headers.get("content-encoding") != "gzip":
        return change(rule, answer, bits)
    headers = {name: text for name, text in answer.headers.items() if name != "content-encoding"}
    changed = change(rule, Answer(answer.status, headers, gzip.decompress(answer.body)), bits)
    if "content-encoding" in changed.headers:
        return changed
    body, encoding = write_gzip(changed.body)
    return changed._replace(headers={**changed.headers, "content-encoding": encoding}, body=body)


def _change_elements(rule: Elements, answer: Answer, bits: int) -> Answer:
    """Apply an anomaly to some elements."""
    return _rewrite(answer, lambda items: _ANOMALIES[rule.anomaly](items, _choose(rule, rule.count, items, bits)))


def _change_totals(rule: Totals, answer: Answer, _bits: int) -> Answer:
    """Announce other totals after the first page."""

    def change(items: list[_Element]) -> list[_Element]:
        for page in _pages(items):
            page["pagination"]["total"] += rule.by if page["pagination"]["offset"] else 0
        return items

    return _rewrite(answer, change)


def _change_pages(rule: SmallPages, answer: Answer, _bits: int) -> Answer:
    """Cut pages short."""

    def change(items: list[_Element]) -> list[_Element]:
        for page in _pages(items):
            page["data"] = page["data"][: rule.limit]
            if not rule.is_silent:
                page["pagination"]["limit"] = min(rule.limit, page["pagination"]["limit"])
        return items

    return _rewrite(answer, change)


def _change_fields(rule: Drift, answer: Answer, bits: int) -> Answer:
    """Change a field wherever it is."""

    def change(items: list[_Element]) -> list[_Element]:
        for place in _choose(rule, rule.count, items, bits):
            for holder in list(_holders(items[place], rule.field)):
                _FIELD_CHANGES[rule.change](holder, rule.field)
        return items

    spoilt = _rewrite(answer, change)
    return spoilt._replace(body=spoilt.body.replace(_WRITTEN_LITERAL, rule.literal.encode()))


_CHANGES: dict[type[AnyRule], Callable[[Any, Answer, int], Answer]] = {
    Elements: _change_elements,
    Totals: _change_totals,
    SmallPages: _change_pages,
    Drift: _change_fields,
    WrongBody: replace_body,
    GzipBomb: inflate_body,
}


def _omit(items: list[_Element], chosen: _Chosen) -> list[_Element]:
    """Leave elements out."""
    return [item for place, item in enumerate(items) if place not in chosen]


def _double(items: list[_Element], chosen: _Chosen) -> list[_Element]:
    """Say elements twice."""
    return [*items, *(items[place] for place in chosen)]


def _contradict(items: list[_Element], chosen: _Chosen) -> list[_Element]:
    """Say of companies found that they are not."""
    return [*items, *({**items[place], "data": None, "message": "Company not found"} for place in chosen)]


def _add_foreign(items: list[_Element], chosen: _Chosen) -> list[_Element]:
    """Add a company nobody asked for."""
    return [*items, *({**items[place], "identifier": _FOREIGN} for place in chosen)]


def _swap(items: list[_Element], chosen: _Chosen) -> list[_Element]:
    """Exchange identifiers between elements and their next."""
    for place in chosen:
        other = items[(place + 1) % len(items)]
        items[place]["identifier"], other["identifier"] = other["identifier"], items[place]["identifier"]
    return items


def _reverse(items: list[_Element], _chosen: _Chosen) -> list[_Element]:
    """Answer in reverse."""
    return items[::-1]


def _add_message(items: list[_Element], chosen: _Chosen) -> list[_Element]:
    """Add a message to elements that have data."""
    for place in chosen:
        items[place]["message"] = "Answered in part"
    return items


_ANOMALIES: dict[str, Callable[[list[_Element], _Chosen], list[_Element]]] = {
    "missing": _omit,
    "doubled": _double,
    "contradictory": _contradict,
    "foreign": _add_foreign,
    "swapped": _swap,
    "reordered": _reverse,
    "message": _add_message,
}


def _rename(holder: _Element, field: str) -> None:
    """Give the field another name."""
    holder[f"{field}V2"] = holder.pop(field)


_FIELD_CHANGES: dict[str, Callable[[_Element, str], object]] = {
    "vanished": lambda holder, field: holder.pop(field),
    "renamed": _rename,
    "unknown": lambda holder, _field: holder.update(unheardOf={"since": "2026-11", "values": [1, None]}),
    "text": lambda holder, field: holder.update({field: str(holder[field])}),
    "literal": lambda holder, field: holder.update({field: _LITERAL}),
}


def _rewrite(answer: Answer, change: Callable[[list[_Element]], list[_Element]]) -> Answer:
    """Return the answer with its elements changed; the answer of a single endpoint is its only element."""
    content = json.loads(answer.body)
    items = change(content if isinstance(content, list) else [content])
    written = items if isinstance(content, list) else (items[-1] if items else None)
    return answer._replace(body=json.dumps(written, separators=(",", ":"), ensure_ascii=False).encode())


def _choose(rule: AnyRule, count: int, items: list[_Element], bits: int) -> _Chosen:
    """Return the places of the elements that a rule concerns: its companies', or so many drawn ones that have any."""
    if rule.companies:
        wanted = {parse_company(company) for company in rule.companies}
        return [place for place, item in enumerate(items) if _node_of(item) in wanted]
    filled = [place for place, item in enumerate(items) if item.get("data", True)]  # contacts answers have no data
    start = bits % (len(filled) or 1)
    return (filled[start:] + filled[:start])[: count or None]


def _node_of(item: _Element) -> int | None:
    """Return the company an element is about, None where it is about none."""
    identifier = item.get("identifier") or {}
    try:
        return parse_company(identifier["country"] + identifier["companyNumber"])
    except (KeyError, ValueError):
        return None


def _pages(items: list[_Element]) -> Iterator[_Element]:
    """Yield the elements that are pages."""
    return (item for item in items if item.get("pagination"))


def _holders(value: object, field: str) -> Iterator[_Element]:
    """Yield every object within a value that has the field."""
    if isinstance(value, dict):
        if field in value:
            yield value
        for inner in value.values():
            yield from _holders(inner, field)
    elif isinstance(value, list):
        for inner in value:
            yield from _holders(inner, field)
