"""Carrying out the faults of a request: before the work, to the answer, and in sending it."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Awaitable, Callable, Iterator
from email.utils import formatdate
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from firmlake_sandbox.faults import (
    AnyRule,
    ChangeLists,
    Delay,
    Drift,
    Elements,
    ExhaustCredits,
    ExpireToken,
    GzipBomb,
    Hang,
    Lose,
    Redirect,
    Reset,
    ResetBody,
    SmallPages,
    Status,
    Totals,
    Trickle,
    Truncate,
    WrongBody,
    describe_request,
    parse_company,
)
from firmlake_sandbox.rewrites import write_gzip
from firmlake_sandbox.state import State
from firmlake_sandbox.wire import Answer, GoneError, Line, capture_answer, read_body


def replace_body(rule: WrongBody, answer: Answer, _bits: int) -> Answer:
    """Put something else in place of the body."""
    if rule.body == "html":
        html = b"<!DOCTYPE html><html><body><h1>We'll be right back</h1></body></html>"
        return Answer(200, {**answer.headers, "content-type": "text/html; charset=utf-8"}, html)
    bodies = {
        "cut": answer.body[: len(answer.body) // 2],
        "empty": b"",
        "null": b"null",
        "error": b'{"status":500,"message":"Internal server error"}',
        "empty_object": b"{}",
        "empty_list": b"[]",
        "nested": b"[" * rule.depth + b"]" * rule.depth,
    }
    return answer._replace(body=bodies[rule.body])


def inflate_body(rule: GzipBomb, answer: Answer, _bits: int) -> Answer:
    """Put a gzip bomb in place of the body."""
    return answer._replace(headers={**answer.headers, "content-encoding": "gzip"}, body=_bomb(rule.megabytes))


@lru_cache(maxsize=2)
def _bomb(megabytes: int) -> bytes:
    """Return `[`, so many megabytes of blanks and `]`, as gzip.

    Flushed in full, each megabyte compresses to the same bytes, so one stands for all; only the checksum needs them.
    """
    blanks = b" " * 1_000_000
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    opening = packer.compress(b"[") + packer.flush(zlib.Z_FULL_FLUSH)
    middle = packer.compress(blanks) + packer.flush(zlib.Z_FULL_FLUSH)
    closing = packer.compress(b"]") + packer.flush()
    checksum = zlib.crc32(b"[")
    for _ in range(megabytes):
        checksum = zlib.crc32(blanks, checksum)
    checksum = zlib.crc32(b"]", checksum)
    size = megabytes * 1_000_000 + 2
    trailer = checksum.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + opening + middle * megabytes + closing + trailer


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


class _Call(NamedTuple):
    """What a fault may act on."""

    state: State
    token: str
    line: Line


async def answer_faultily(state: State, app: ASGIApp, token: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request as the fault rules have it.

    Args:
        state: The service, whose rules these are.
        app: What answers properly.
        token: The request's.
        scope: As in ASGI.
        receive: As in ASGI.
        send: As in ASGI.
    """
    body = await read_body(receive)
    found = state.faults.find(describe_request(scope["method"], scope["path"], scope["query_string"], body))
    line = Line(scope, receive, send)
    call = _Call(state, token, line)
    try:
        for rule, _ in found:
            if early := await _BEFORE.get(type(rule), _pass)(rule, call):
                await _deliver(early, line)
                return
        answer = await capture_answer(app, scope, body)
        for rule, bits in found:
            answer = change_answer(rule, answer, bits)
        for rule, _ in found:
            if type(rule) in _DELIVERIES:
                await _DELIVERIES[type(rule)](rule, answer, line)
                return
        await _deliver(answer, line)
    except GoneError:
        return


async def _pass(_rule: AnyRule, _call: _Call) -> Answer | None:
    """Do nothing before the work."""
    return None


async def _answer_status(rule: Status, call: _Call) -> Answer:
    """Return an error."""
    headers = {"content-type": "application/json", **{name.lower(): text for name, text in rule.headers.items()}}
    if rule.retry_after_date is not None:
        headers["retry-after"] = formatdate(call.state.clock.now() + rule.retry_after_date, usegmt=True)
    return Answer(rule.status, headers, msgspec.json.encode({"status": rule.status, "message": rule.message}))


async def _redirect(rule: Redirect, _call: _Call) -> Answer:
    """Return a redirect."""
    return Answer(rule.status, {"location": rule.location}, b"")


async def _hang(_rule: Hang, call: _Call) -> None:
    """Wait for the client to give up."""
    await call.line.wait_for_end()


async def _reset(_rule: Reset, call: _Call) -> None:
    """Reset the connection."""
    await call.line.reset()


async def _expire_token(_rule: ExpireToken, call: _Call) -> Answer:
    """Refuse the token now and from now on."""
    call.state.expired.add(call.token)
    return await _answer_status(Status(status=401, message="Access token has expired"), call)


async def _exhaust_credits(rule: ExhaustCredits, call: _Call) -> None:
    """Set the balance."""
    call.state.account.balance = rule.balance


async def _change_lists(rule: ChangeLists, call: _Call) -> None:
    """Let a list appear, vanish or move."""
    call.state.lists.change(rule.change, rule.list)


async def _delay(rule: Delay, _call: _Call) -> None:
    """Wait."""
    await asyncio.sleep(rule.seconds)


_BEFORE: dict[type[AnyRule], Callable[[Any, _Call], Awaitable[Answer | None]]] = {
    Status: _answer_status,
    Redirect: _redirect,
    Hang: _hang,
    Reset: _reset,
    ExpireToken: _expire_token,
    ExhaustCredits: _exhaust_credits,
    ChangeLists: _change_lists,
    Delay: _delay,
}


async def _deliver(answer: Answer, line: Line) -> None:
    """Send the answer as it should be."""
    await line.begin(answer)
    await line.end(answer.body)


async def _lose(_rule: Lose, _answer: Answer, line: Line) -> None:
    """Send nothing."""
    await line.reset()


async def _reset_body(rule: ResetBody, answer: Answer, line: Line) -> None:
    """Send a part, then reset."""
    await _send_part(rule.bytes, answer, line)
    await line.reset()


async def _truncate(rule: Truncate, answer: Answer, line: Line) -> None:
    """Send a part, then close."""
    await _send_part(rule.bytes, answer, line)
    await line.close()


async def _send_part(count: int | None, answer: Answer, line: Line) -> None:
    """Send the beginning of the body, its first half or so many bytes."""
    await line.begin(answer)
    part = answer.body[: len(answer.body) // 2 if count is None else count]
    await line.send_part(part)


async def _trickle(rule: Trickle, answer: Answer, line: Line) -> None:
    """Send the body piece by piece; a client that has gone ends it."""
    await line.begin(answer)
    gone = asyncio.ensure_future(line.wait_for_end())
    for start in range(0, len(answer.body), rule.bytes):
        if (await asyncio.wait({gone}, timeout=rule.seconds))[0]:
            gone.exception()
            break
        part = answer.body[start : start + rule.bytes]
        await line.send_part(part)
    else:
        await line.end()
    gone.cancel()


_DELIVERIES: dict[type[AnyRule], Callable[[Any, Answer, Line], Awaitable[None]]] = {
    Lose: _lose,
    ResetBody: _reset_body,
    Truncate: _truncate,
    Trickle: _trickle,
}
