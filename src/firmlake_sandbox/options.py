"""Every option of the service, its default and what it does: the command line and the control endpoint read it here."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from firmlake_sandbox.dialects import resolve_dialects
from firmlake_sandbox.twists import Twist

_Count = Annotated[int, Meta(ge=0)]
_Positive = Annotated[int, Meta(ge=1)]


class Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be chosen about the service, at the start or while it runs."""

    seed: Annotated[_Count, Meta(description="Seed of the made-up companies; another seed makes other figures.")] = 0
    week: Annotated[
        int,
        Meta(ge=0, le=1000, description="Week to answer for; about 5 % of companies change from one week to the next."),
    ] = 0
    history: Annotated[
        bool,
        Meta(
            description="Make rarer changes from week to week too: corrected end dates, accounts filed again or in "
            "thousands, answers that become empty, companies that vanish, new names, places, committees and functions."
        ),
    ] = False
    leading_zero: Annotated[bool, Meta(description="Answer Belgian numbers in full: 0770493071, not 770493071.")] = (
        False
    )
    number_spelling: Annotated[
        Literal["either", "full"],
        Meta(description="Accept Belgian numbers with or without the leading zero (either), or only with it (full)."),
    ] = "either"
    oldest_first: Annotated[bool, Meta(description="List the oldest financial period first, not the newest.")] = False
    language: Annotated[
        Literal["NL", "FR", "EN"], Meta(description="Language if Accept-Language names none of NL, FR and EN.")
    ] = "EN"
    lists: Annotated[_Count, Meta(description="Number of lists.")] = 520

    page_limit_default: Annotated[_Positive, Meta(description="Page size if the request names none.")] = 4
    page_limit_max: Annotated[_Positive, Meta(description="Largest page size.")] = 500
    companies_per_request: Annotated[
        _Positive, Meta(description="Largest number of companies in a bulk or contacts request.")
    ] = 100
    records_per_request: Annotated[
        _Count, Meta(description="Largest companies x limit in a bulk request for financials; 0 sets no limit.")
    ] = 500
    contacts_per_company: Annotated[
        _Positive, Meta(description="Largest number of contacts of a company in a contacts request.")
    ] = 50

    credits: Annotated[_Count, Meta(description="Credits in the account.")] = 1_000_000
    credit_window_days: Annotated[
        _Count, Meta(description="Days for which requests for a company are free after its first one.")
    ] = 30
    credits_for_unknown: Annotated[bool, Meta(description="Charge also for companies that do not exist.")] = False

    requests_per_minute: Annotated[
        _Count, Meta(description="Requests that a token may send in 60 seconds; 0 sets no limit.")
    ] = 200
    rate_limit_kind: Annotated[
        Literal["fixed-window", "sliding-window", "token-bucket"], Meta(description="Algorithm of the rate limit.")
    ] = "fixed-window"
    rate_limit_headers: Annotated[
        Literal["none", "retry-after", "ratelimit", "all"],
        Meta(description="Retry-After with a 429, RateLimit-Limit/-Remaining/-Reset with every answer, both, or none."),
    ] = "none"

    dialect: Annotated[
        tuple[str, ...],
        Meta(description="Dialect of the service, such as body-short, or seed:7; `help` lists them. Repeatable."),
    ] = ()


def change_options(options: Options, changes: object) -> Options:
    """Return the options with some of them changed; the dialects named exist and go together.

    Args:
        options: The present ones.
        changes: A mapping of names to values, as from JSON.

    Raises:
        msgspec.ValidationError: A name is unknown or a value out of range; the message says which.
    """
    named = msgspec.convert(changes, dict[str, object])
    changed = msgspec.convert({**msgspec.structs.asdict(options), **named}, Options)
    try:
        resolve_dialects(changed.dialect)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from None
    return changed


def apply_dialects(options: Options) -> tuple[Options, tuple[Twist, ...]]:
    """Return the options as the dialects named in them set them, and the twists of the dialects."""
    dialects = resolve_dialects(options.dialect)
    set_by_dialects = {name: value for dialect in dialects for name, value in dialect.options.items()}
    twists = tuple(twist for dialect in dialects for twist in dialect.twists)
    return msgspec.structs.replace(options, **set_by_dialects), twists
