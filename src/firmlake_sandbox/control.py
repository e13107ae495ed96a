"""The control endpoints: clocks, world, options and ledger of a running sandbox. The real service has none of them."""

from collections.abc import Awaitable, Callable

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from firmlake_sandbox.answers import json_response
from firmlake_sandbox.faults import FaultBook
from firmlake_sandbox.ledger import spell_charges
from firmlake_sandbox.options import change_options
from firmlake_sandbox.rules import AnyRule
from firmlake_sandbox.state import State


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
