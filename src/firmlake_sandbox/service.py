"""The service as a function that answers requests: who may come in, how often, and where to."""

import traceback
from collections.abc import Callable
from functools import partial
from math import ceil
from urllib.parse import parse_qsl

import msgspec

from firmlake_sandbox.answers import answer
from firmlake_sandbox.contract import ENDPOINTS, describe_service, match_path, name_endpoint
from firmlake_sandbox.options import change_options
from firmlake_sandbox.state import State, spell_charges
from firmlake_sandbox.twists import AnyFault, Applied, Exchange, FaultBook, send_twisted, work_twisted
from firmlake_sandbox.wire import Answer, Call, Line, RefusedError, error_answer, json_answer

_CONTROL_PREFIX = "/_sandbox/"
_FORBIDDEN_SUFFIX = "-forbidden"


class _ClockBody(msgspec.Struct, forbid_unknown_fields=True):
    """Seconds to move each clock on; the rate limit's follows the calendar where it is not named."""

    seconds: float
    rate_seconds: float | None = None


def _show_ledger(state: State, call: Call) -> object:
    """Return what was asked and charged; `?summary=1` leaves out the long parts."""
    charges = state.account.charges
    summary = state.ledger.summarise(charges, state.account.balance) | {"faults": state.faults.applied}
    if dict(parse_qsl(call.query.decode("latin-1"))).get("summary") == "1":
        return {"summary": summary}
    return {"summary": summary, "charges": spell_charges(charges), "times": state.ledger.times}


def _show_options(state: State, _call: Call) -> object:
    return state.chosen


def _set_options(state: State, call: Call) -> object:
    state.apply(change_options(state.chosen, msgspec.json.decode(call.body)))
    return state.chosen


def _set_faults(state: State, call: Call) -> object:
    """Put faults in place of those there are; n-th requests are counted from here."""
    state.faults = FaultBook(msgspec.json.decode(call.body, type=tuple[AnyFault, ...]))
    return {"rules": len(state.faults.rules)}


def _move_clock(state: State, call: Call) -> object:
    body = msgspec.json.decode(call.body, type=_ClockBody)
    state.clock.advance(body.seconds, body.seconds if body.rate_seconds is None else body.rate_seconds)
    return {"now": state.clock.now(), "ticks": state.clock.ticks()}


def _reset(state: State, _call: Call) -> object:
    state.reset()
    return {}


CONTROLS: tuple[tuple[str, str, Callable[[State, Call], object]], ...] = (
    ("GET", "/_sandbox/ledger", _show_ledger),
    ("GET", "/_sandbox/options", _show_options),
    ("POST", "/_sandbox/options", _set_options),
    ("POST", "/_sandbox/world", _set_options),
    ("POST", "/_sandbox/faults", _set_faults),
    ("POST", "/_sandbox/clock", _move_clock),
    ("POST", "/_sandbox/reset", _reset),
)


def _control(control: Callable[[State, Call], object], state: State, call: Call) -> Answer:
    try:
        return json_answer(control(state, call))
    except (msgspec.DecodeError, ValueError) as error:
        raise RefusedError(400, str(error)) from None


_DESCRIPTION_PATH = "/openapi.json"
_ROUTES: tuple[tuple[str, str, Callable[[State, Call], Answer]], ...] = (
    *((method, path, partial(_control, control)) for method, path, control in CONTROLS),
    *((endpoint.method, endpoint.path, partial(answer, endpoint)) for endpoint in ENDPOINTS),
    ("GET", _DESCRIPTION_PATH, lambda state, _: json_answer(msgspec.Raw(describe_service(state.options)))),
)


async def answer_call(state: State, call: Call, line: Line) -> None:
    """Answer a request; only those to the service itself are counted, limited and twisted."""
    scheme, _, token = call.headers.get("authorization", "").partition(" ")
    token = token.strip() if scheme.lower() == "bearer" else ""
    if call.path == _DESCRIPTION_PATH:
        await line.send(_work(state, call))
    elif call.path.startswith(_CONTROL_PREFIX):
        refusal = None if token == state.tokens[0] else error_answer(401, "Control takes the token of the start")
        await line.send(refusal or _work(state, call))
    else:
        state.ledger.times.append(state.clock.ticks())
        try:
            await _answer(Exchange(state, token, call, line))
        finally:
            state.ledger.answers[name_endpoint(call.method, call.path), str(line.status or "no answer")] += 1


async def _answer(exchange: Exchange) -> None:
    """Answer a request to the service itself: properly, with twists, or by refusing it."""
    state, token, headers = exchange.state, exchange.token, dict[str, str]()
    endpoint = name_endpoint(exchange.call.method, exchange.call.path)
    applied: Applied = [(twist, 0) for twist in state.twists if twist.is_for(endpoint)]
    try:
        _check_token(state, token)
        _check_rate(state, token, headers)
        if token not in state.tokens:
            raise RefusedError(403, "This access token may not use the service")
        applied = state.faults.find(exchange.call) + applied
        answered = await work_twisted(exchange, applied, partial(_work, state))
    except RefusedError as error:
        answered = error_answer(error.status, error.message)
    await send_twisted(exchange.line, applied, answered._replace(headers=answered.headers | headers))


def _check_token(state: State, token: str) -> None:
    if not token:
        raise RefusedError(401, "Authorization: Bearer <ACCESS_TOKEN> is missing")
    if token in state.expired:
        raise RefusedError(401, "Access token has expired")
    if token not in state.tokens and token.removesuffix(_FORBIDDEN_SUFFIX) not in state.tokens:
        raise RefusedError(401, "Access token is not valid")


def _check_rate(state: State, token: str, headers: dict[str, str]) -> None:
    """Count the request, refuse it where it is one too many, and add the headers that say how many are left."""
    limit = state.rate_limit_of(token)
    if limit is None:
        return
    verdict, kind = limit.admit(state.clock.ticks()), state.options.rate_limit_headers
    wait = str(ceil(verdict.reset))
    if kind in ("ratelimit", "all"):
        headers["ratelimit-limit"] = str(state.options.requests_per_minute)
        headers["ratelimit-remaining"] = str(verdict.remaining)
        headers["ratelimit-reset"] = wait
    if not verdict.is_allowed:
        if kind in ("retry-after", "all"):
            headers["retry-after"] = wait
        raise RefusedError(429, "Too many requests")


def _work(state: State, call: Call) -> Answer:
    """Answer a request that was let in."""
    matches = {method: handle for method, path, handle in _ROUTES if match_path(path, call.path) is not None}
    if not matches:
        return error_answer(404, "Not Found")
    if call.method not in matches:
        return error_answer(405, "Method Not Allowed", {"allow": ", ".join(matches)})
    try:
        return matches[call.method](state, call)
    except RefusedError as error:
        return error_answer(error.status, error.message, error.headers)
    except Exception:
        traceback.print_exc()
        return error_answer(500, "Internal server error")
