"""Reasons why a company failed or a value was rejected: a code for programs, and a sentence that is made here alone.

Tables have both, as `reason_code` and `reason`. No code reads a sentence.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from firmlake.core.errors import FirmlakeError

COMPANY_REASONS: Final = {
    "left_out": "the answer says nothing about it",
    "empty_answer": "the answer is an empty array",
    "nothing_said": "neither data nor message",
    "other_message": "the service says: {message}",
    "contradiction": "the answer contradicts itself about it",
    "unreadable_element": "element not understood: {problem}",
    "unreadable_data": "data not understood: {problem}",
    "no_company_number": "{given} is no company number of the specification",
    "no_company_named": "no element names a company: {problem}",
    "no_pagination": "data without pagination, so the number of records is unknown",
    "wrong_page": "wrong page: records from {offset} on, where those from {wanted} on were asked for",
    "beyond_total": "{count} records, but a total of {total}",
    "empty_page": "an empty page, but a total of {total}",
    "total_changed": "the number of records changed between pages",
    "page_repeated": "a page repeats records of an earlier one",
    "no_longer_found": "it was found, and then not found",
    "bad_status": "status {status}",
    "no_answer": "{problem}",
    "company_forbidden": "The token may not ask about this company ({said})",
    "country_forbidden": "The token may not ask about companies in {country} ({said})",
    "still_forbidden": "The token may not ask about these companies in {country} ({said})",
    "country_refused": "Not requested, because {count} companies in {country} were refused one by one and none was "
    "answered: {message}",
}
"""Why there is no usable answer about a company, by code."""

ERROR_REASONS: Final = {
    "failed": "another error, which the text names",
    "forbidden": "the token may not use the endpoint",
    "out_of_credits": "the service's credits are used up",
    "paused": "the service asks for a long pause",
    "request_failed": "the request failed after all retries",
    "request_refused": "the service refuses the request",
    "unavailable": "the endpoint answers no request usably",
    "unusable_answer": "the answer cannot be used",
}
"""What `FirmlakeError.code` means, where the reason is an error. The sentence is the message of the error."""

RECORD_REASONS: Final = {
    "missing": "missing or null, but a record without it says nothing",
    "not_json": "not readable as JSON: {problem}",
    "not_an_object": "an object was expected",
    "no_identity": "it has fields that are not documented, and does not say in a documented way which company it is",
    "not_a_number": "a number was expected, not {kind}",
    "ambiguous_number": "it may be decimals or thousands",
    "exponent_too_big": "an exponent too big to read",
    "number_too_big": "a number too big",
    "beyond_one": "{number} is more than 2, where a share of a whole was expected",
    "unknown_scale": "a share of a whole was expected, and too many values of the field are beyond 1 to tell its scale",
    "too_many_decimals": "{number} has more than {count} decimals",
    "too_many_digits": "more than {count} digits before the point",
    "too_many_bits": "an integer of more than 64 bits",
    "not_whole": "{number} is no whole number",
    "not_a_date": "{value} is no date YYYY-MM-DD",
    "not_a_time": "{value} is no time such as 2026-01-31T12:00:00Z",
    "not_a_boolean": "true or false was expected, not {kind}",
    "not_a_text": "a text was expected, not {kind}",
    "not_texts": "an array of texts was expected, not {kind}",
    "broken_text": "the text holds bytes that are none, or half a character",
}
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
