"""Answers about service lists: a page of the overview, and what adding contacts came to."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Raw

from firmlake.api.contract import Addition, FailedEntry, ListEntry, ListPage
from firmlake.errors import UnusableAnswerError

__all__ = ["Added", "Listed", "read_addition", "read_list_page"]


class Listed(NamedTuple):
    """A list of the overview.

    Attributes:
        unknown: Its fields that the contract does not know, as one JSON object; None where there are none.
    """

    entry: ListEntry
    unknown: str | None


class Added(NamedTuple):
    """What adding contacts came to.

    Attributes:
        failed: Its failures that can be read.
        unread_count: Those that cannot.
    """

    success: bool
    message: str
    failed: list[FailedEntry]
    unread_count: int


def read_list_page(body: bytes) -> tuple[list[Listed], int]:
    """Read a page of the overview of service lists.

    Returns:
        The lists in the order of the answer, and how many there are in all.

    Raises:
        UnusableAnswerError: It is no such page, or one of its lists is none: what it leaves out would seem to be gone.
    """
    try:
        page = _PAGE.decode(body)
        return [Listed(_ENTRY.decode(raw), _unknown(raw)) for raw in page.data], page.pagination.total
    except _UNREADABLE as error:
        raise UnusableAnswerError(f"it is no overview of lists: {error}") from None


def read_addition(body: bytes) -> Added:
    """Read what adding contacts came to; a failure that cannot be read does not harm the others.

    Raises:
        UnusableAnswerError: It says neither what was added nor what was not.
    """
    try:
        answer = _ADDITION.decode(body)
    except _UNREADABLE as error:
        raise UnusableAnswerError(f"it does not say what was added: {error}") from None
    failed = []
    for raw in answer.failed:
        try:
            failed.append(_FAILED.decode(raw))
        except _UNREADABLE:
            continue
    return Added(answer.success, answer.message or "", failed, len(answer.failed) - len(failed))


# ---------------------------------------------------------------------------------------------------------------------

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_PAGE = msgspec.json.Decoder(ListPage)
_ENTRY = msgspec.json.Decoder(ListEntry)
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_ADDITION = msgspec.json.Decoder(Addition)
_FAILED = msgspec.json.Decoder(FailedEntry)
_KNOWN = {field.encode_name for field in msgspec.structs.fields(ListEntry)}


def _unknown(raw: Raw) -> str | None:
    fields = {name: value for name, value in _FIELDS.decode(raw).items() if name not in _KNOWN}
    return msgspec.json.encode(fields).decode() if fields else None
