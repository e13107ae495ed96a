"""The service as an ASGI application: who may come in, how often, and where to."""

from collections.abc import Awaitable, Callable
from functools import partial
from math import ceil

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firmlake_sandbox.companies import (
    add_contacts,
    answer_bulk,
    answer_lists,
    answer_single,
    error_response,
    json_response,
)
from firmlake_sandbox.contract import DATASETS, ENDPOINTS, name_endpoint
from firmlake_sandbox.edge import rename_headers, speak
from firmlake_sandbox.faults import AnyRule, FaultBook
from firmlake_sandbox.options import change_options
from firmlake_sandbox.outcomes import answer_faultily
from firmlake_sandbox.state import State, spell_charges


class _ClockBody(msgspec.Struct, forbid_unknown_fields=True):
    """Seconds to move each clock on; the rate limit's follows the calendar where it is not named."""

    seconds: float
    rate_seconds: float | None = None


async def _show_ledger(state: State, request: Request) -> Response:
    """Return what was asked and charged; `?summary=1` leaves out the long parts."""
    charges = state.account.charges
    summary = state.ledger.summarise(charges, state.account.balance) | {"faults": state.faults.applied}
    content: dict[str, object] = {"summary": summary}
    if request.query_params.get("summary") != "1":
        content |= {"charges": spell_charges(charges), "times": state.ledger.list_times()}
    return json_response(content)


async def _show_options(state: State, _request: Request) -> Response:
    """Return the options as they are."""
    return json_response(state.chosen)


async def _set_options(state: State, request: Request) -> Response:
    """Change the options named and return them all."""
    try:
        state.apply(change_options(state.chosen, msgspec.json.decode(await request.body())))
    except msgspec.DecodeError as error:
        raise HTTPException(400, str(error)) from None
    return json_response(state.chosen)


async def _show_faults(state: State, _request: Request) -> Response:
    """Return the fault rules in force, and how often each kind applied."""
    return json_response({"rules": state.faults.rules, "applied": state.faults.applied})


async def _set_faults(state: State, request: Request) -> Response:
    """Put fault rules in place of those there are; n-th requests are counted from here."""
    try:
        state.faults = FaultBook(msgspec.json.decode(await request.body(), type=tuple[AnyRule, ...]))
    except (msgspec.DecodeError, ValueError) as error:
        raise HTTPException(400, str(error)) from None
    return json_response({"rules": len(state.faults.rules)})


async def _move_clock(state: State, request: Request) -> Response:
    """Move the clocks on."""
    try:
        body = msgspec.json.decode(await request.body(), type=_ClockBody)
    except msgspec.DecodeError as error:
        raise HTTPException(400, str(error)) from None
    state.clock.advance(body.seconds, body.seconds if body.rate_seconds is None else body.rate_seconds)
    return json_response({"now": state.clock.now(), "ticks": state.clock.ticks()})


async def _reset(state: State, _request: Request) -> Response:
    """Forget all that was asked, paid, added and scripted; options and clocks stay."""
    state.reset()
    return json_response({})


CONTROLS: tuple[tuple[str, str, Callable[[State, Request], Awaitable[Response]]], ...] = (
    ("/_sandbox/ledger", "GET", _show_ledger),
    ("/_sandbox/options", "GET", _show_options),
    ("/_sandbox/options", "POST", _set_options),
    ("/_sandbox/world", "POST", _set_options),
    ("/_sandbox/faults", "GET", _show_faults),
    ("/_sandbox/faults", "POST", _set_faults),
    ("/_sandbox/clock", "POST", _move_clock),
    ("/_sandbox/reset", "POST", _reset),
)


CONTROL_PREFIX = "/_sandbox/"
DESCRIPTION_PATH = "/openapi.json"
FORBIDDEN_SUFFIX = "-forbidden"

_Answer = Callable[[State, Request], Awaitable[Response]]
_Headers = list[tuple[bytes, bytes]]

_ANSWERS: dict[str, _Answer] = {
    **{f"{dataset}.bulk": partial(answer_bulk, dataset=dataset) for dataset in DATASETS},
    **{f"{dataset}.single": partial(answer_single, dataset=dataset) for dataset in DATASETS},
    "lists.overview": answer_lists,
    "lists.contacts": add_contacts,
}


def build_app(state: State) -> ASGIApp:
    """Return the whole service around a state."""
    routes = [
        *(_route(state, path, method, answer) for path, method, answer in CONTROLS),
        *(_route(state, end.path, end.method, _ANSWERS[end.name]) for end in ENDPOINTS),
        _route(state, DESCRIPTION_PATH, "GET", _show_description),
    ]
    handlers = {HTTPException: _answer_error, Exception: _answer_error}
    router = Starlette(routes=routes, exception_handlers=handlers)
    router.router.redirect_slashes = False
    return partial(_guard, state, router)


async def _guard(state: State, router: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let a request through to its endpoint, and note in the ledger what became of it."""
    token, path = _read_token(scope), scope["path"]
    if path == DESCRIPTION_PATH:
        await router(scope, receive, send)
    elif path.startswith(CONTROL_PREFIX):
        refusal = None if token == state.tokens[0] else error_response(401, "Control takes the token of the start")
        await (refusal or router)(scope, receive, send)
    else:
        state.ledger.count_arrival(state.clock.ticks())
        await _answer_counted(state, router, token, scope, receive, send)


async def _answer_counted(
    state: State, router: ASGIApp, token: str, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answer a request to the service itself: properly, faultily, or by refusing it."""
    ledger, outcome = state.ledger, "no answer"
    refusal = _refuse_token(state, token)
    limited, headers = (None, []) if refusal else _refuse_rate(state, token)

    async def note(message: Message) -> None:
        nonlocal outcome
        if message["type"] == "http.response.start":
            outcome = str(message["status"])
            message["headers"] = rename_headers(state.dialects, [*message["headers"], *headers])
        await send(message)

    try:
        if app := refusal or limited or _refuse_permission(state, token):
            await speak(state.dialects, app)(scope, receive, note)
        elif state.faults.rules:
            await answer_faultily(state, speak(state.dialects, router), token, scope, receive, note)
        else:
            await speak(state.dialects, router)(scope, receive, note)
    finally:
        ledger.count_answer(name_endpoint(scope["method"], scope["path"]), outcome)


def _refuse_token(state: State, token: str) -> Response | None:
    """Return a 401 where the token is missing, unknown or expired."""
    if not token:
        return error_response(401, "Authorization: Bearer <ACCESS_TOKEN> is missing")
    if token in state.expired:
        return error_response(401, "Access token has expired")
    if token not in state.tokens and token.removesuffix(FORBIDDEN_SUFFIX) not in state.tokens:
        return error_response(401, "Access token is not valid")
    return None


def _refuse_rate(state: State, token: str) -> tuple[Response | None, _Headers]:
    """Count the request; return a 429 where it is one too many, and the headers that say how many are left."""
    limit = state.rate_limit_of(token)
    if limit is None:
        return None, []
    verdict = limit.admit(state.clock.ticks())
    kind, wait = state.options.rate_limit_headers, b"%d" % ceil(verdict.reset)
    headers: _Headers = []
    if kind in ("ratelimit", "all"):
        headers.append((b"ratelimit-limit", b"%d" % state.options.requests_per_minute))
        headers.append((b"ratelimit-remaining", b"%d" % verdict.remaining))
        headers.append((b"ratelimit-reset", wait))
    if verdict.is_allowed:
        return None, headers
    if kind in ("retry-after", "all"):
        headers.append((b"retry-after", wait))
    return error_response(429, "Too many requests"), headers


def _refuse_permission(state: State, token: str) -> Response | None:
    """Return a 403 where the token is known but may do nothing."""
    return None if token in state.tokens else error_response(403, "This access token may not use the service")


def _read_token(scope: Scope) -> str:
    """Return the bearer token, empty where there is none."""
    kind, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _route(state: State, path: str, method: str, answer: _Answer) -> Route:
    """Return a route for one method alone: Starlette would add HEAD to every GET."""
    route = Route(path, partial(answer, state), methods=[method])
    route.methods = {method}
    return route


async def _show_description(state: State, _request: Request) -> Response:
    """Return the OpenAPI description."""
    from firmlake_sandbox.openapi import describe_service  # only here: few ever ask, and it takes time to make

    return Response(describe_service(state.options), media_type="application/json")


async def _answer_error(_request: Request, error: Exception) -> Response:
    """Answer whatever an endpoint raised."""
    if isinstance(error, HTTPException):
        return error_response(error.status_code, error.detail, dict(error.headers or {}))
    return error_response(500, "Internal server error")
