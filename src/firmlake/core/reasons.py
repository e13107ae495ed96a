"""Reasons why a company failed or a value was rejected: a code for programs, and a sentence that is made here alone.

Tables have both, as `reason_code` and `reason`. No code reads a sentence.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Final, NamedTuple

from firmlake.core.errors import FirmlakeError

_REASONS = tomllib.loads(files("firmlake.core").joinpath("reasons.toml").read_text("utf-8"))
COMPANY_REASONS: Final[dict[str, str]] = _REASONS["company"]
"""Why there is no usable answer about a company, by code."""
ERROR_REASONS: Final[dict[str, str]] = _REASONS["error"]
"""What `FirmlakeError.code` means, where the reason is an error. The sentence is the message of the error."""
RECORD_REASONS: Final[dict[str, str]] = _REASONS["record"]
"""Why a value or a record of an answer was rejected, by code."""
_SENTENCES = {**COMPANY_REASONS, **RECORD_REASONS}


class Reason(NamedTuple):
    """A code of this module, and the sentence for people."""

    code: str
    text: str

    def __str__(self) -> str:
        return self.text


def make_reason(code: str, **facts: object) -> Reason:
    """Make a reason from its code and the facts that its sentence names.

    Example:
        >>> make_reason("empty_page", total=40)
        Reason(code='empty_page', text='an empty page, but a total of 40')
    """
    return Reason(code, _SENTENCES[code].format(**facts))


def reason_of(error: FirmlakeError) -> Reason:
    """Return the reason that an error gives."""
    return Reason(error.code, error.message)
