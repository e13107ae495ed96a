"""Carrying out the faults of a request: before the work, to the answer, and in sending it."""

import asyncio
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any, NamedTuple

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from firmlake_sandbox.anomalies import change_answer
from firmlake_sandbox.bodies import Answer
from firmlake_sandbox.faults import describe_request
from firmlake_sandbox.rules import (
    AnyRule,
    ChangeLists,
    Delay,
    ExhaustCredits,
    ExpireToken,
    Hang,
    Lose,
    Redirect,
    Reset,
    ResetBody,
    Status,
    Trickle,
    Truncate,
)
from firmlake_sandbox.state import State
from firmlake_sandbox.wire import GoneError, Line, capture_answer, read_body


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
