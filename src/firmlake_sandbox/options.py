"""Every option of the service, its default and what it does: the command line and the control endpoint read it here."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from firmlake_sandbox.dialect import Dialect
from firmlake_sandbox.dialects import resolve_dialects

_Count = Annotated[int, Meta(ge=0)]
_Positive = Annotated[int, Meta(ge=1)]
_HeaderName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]+\Z")]


class Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be chosen about the service, at the start or while it runs."""

    seed: Annotated[_Count, Meta(description="Another seed is another world.")] = 0
    week: Annotated[
        int, Meta(ge=0, le=1000, description="Week of the world: about 5 % of companies change from one to the next.")
    ] = 0
    history: Annotated[
        bool,
        Meta(
            description="Let more happen from week to week: corrected end dates, accounts filed again or in thousands, "
            "emptied answers, absences, other names, places, committees and functions."
        ),
    ] = False
    leading_zero: Annotated[bool, Meta(description="Answer Belgian numbers in full: 0770493071, not 770493071.")] = (
        False
    )
    number_spelling: Annotated[
        Literal["either", "full"],
        Meta(description="Spelling of Belgian numbers it knows: with or without their leading zero, or only with it."),
    ] = "either"
    oldest_first: Annotated[bool, Meta(description="List the oldest financial period first, not the newest.")] = False
    language: Annotated[
        Literal["NL", "FR", "EN"], Meta(description="Language where Accept-Language names none of NL, FR and EN.")
    ] = "EN"
    lists: Annotated[_Count, Meta(description="How many lists there are.")] = 520

    page_limit_default: Annotated[_Positive, Meta(description="Page size where the request names none.")] = 4
    page_limit_max: Annotated[_Positive, Meta(description="Largest page size.")] = 500
    companies_per_request: Annotated[_Positive, Meta(description="Most companies in a bulk or contacts request.")] = 100
    records_per_request: Annotated[
        _Count, Meta(description="Most companies x limit in a bulk request for financials; 0 lifts it.")
    ] = 500
    contacts_per_company: Annotated[
        _Positive, Meta(description="Most contacts of a company in a contacts request.")
    ] = 50

    credits: Annotated[_Count, Meta(description="Credits in the account.")] = 1_000_000
    credit_window_days: Annotated[_Count, Meta(description="Days a company stays free once paid.")] = 30
    credits_for_unknown: Annotated[bool, Meta(description="Charge for companies not found as well.")] = False
    credits_charged_header: Annotated[_HeaderName, Meta(description="Header for what a request cost.")] = (
        "X-Credits-Charged"
    )
    credits_remaining_header: Annotated[_HeaderName, Meta(description="Header for the balance.")] = (
        "X-Credits-Remaining"
    )

    requests_per_minute: Annotated[_Count, Meta(description="Allowance of a token; 0 lifts it.")] = 200
    rate_limit_kind: Annotated[
        Literal["fixed-window", "sliding-window", "token-bucket"], Meta(description="How the allowance is counted.")
    ] = "fixed-window"
    rate_limit_headers: Annotated[
        Literal["none", "retry-after", "ratelimit", "all"],
        Meta(description="Retry-After with 429, RateLimit-Limit/-Remaining/-Reset with every answer, both, or none."),
    ] = "none"

    dialect: Annotated[
        tuple[str, ...],
        Meta(description="A dialect to speak, such as body-short, or seed:7; `help` lists them. Repeatable."),
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


def apply_dialects(options: Options) -> tuple[Options, tuple[Dialect, ...]]:
    """Return the options as the dialects named in them set them, and the dialects."""
    dialects = resolve_dialects(options.dialect)
    set_by_dialects = {name: value for dialect in dialects for name, value in dialect.options.items()}
    return msgspec.structs.replace(options, **set_by_dialects), dialects
