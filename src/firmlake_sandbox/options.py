"""Every option of the service and its default: the command line and the control endpoint read them here."""

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

if TYPE_CHECKING:
    from firmlake_sandbox.dialects import Dialect
    from firmlake_sandbox.twists import Twist

_Count = Annotated[int, Meta(ge=0)]
_Positive = Annotated[int, Meta(ge=1)]


class Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be chosen about the service, at the start or while it runs; `options.toml` explains each option."""

    seed: _Count = 0
    week: Annotated[int, Meta(ge=0, le=1000)] = 0
    leading_zero: bool = False
    number_spelling: Literal["either", "full"] = "either"
    oldest_first: bool = False
    language: Literal["NL", "FR", "EN"] = "EN"
    lists: _Count = 520

    page_limit_default: _Positive = 4
    page_limit_max: _Positive = 500
    companies_per_request: _Positive = 100
    records_per_request: _Count = 500
    contacts_per_company: _Positive = 50

    credits: _Count = 1_000_000
    credit_window_days: _Count = 30
    credits_for_unknown: bool = False

    requests_per_minute: _Count = 200
    rate_limit_kind: Literal["fixed-window", "sliding-window", "token-bucket"] = "fixed-window"
    rate_limit_headers: Literal["none", "retry-after", "ratelimit", "all"] = "none"

    dialect: tuple[str, ...] = ()


def change_options(options: Options, changes: object) -> Options:
    """Return the options with some of them changed, from a mapping of names to values, as from JSON.

    Raises a ValidationError that says which name is unknown or which value out of range, also of a dialect.
    """
    named = msgspec.convert(changes, dict[str, object])
    changed = msgspec.convert({**msgspec.structs.asdict(options), **named}, Options)
    try:
        _dialects_of(changed)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from None
    return changed


def apply_dialects(options: Options) -> "tuple[Options, tuple[Twist, ...]]":
    """Return the options as the dialects named in them set them, and the twists of the dialects."""
    dialects = _dialects_of(options)
    set_by_dialects = {name: value for dialect in dialects for name, value in dialect.options.items()}
    twists = tuple(twist for dialect in dialects for twist in dialect.twists)
    return msgspec.structs.replace(options, **set_by_dialects), twists


def _dialects_of(options: Options) -> "tuple[Dialect, ...]":
    if not options.dialect:
        return ()
    from firmlake_sandbox.dialects import resolve_dialects  # here, because reading all of them takes a while

    return resolve_dialects(options.dialect)
