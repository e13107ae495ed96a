"""Decode the service's answers about lists: a page of the overview, and the result of adding contacts."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct

from firmlake.api.answers import UNREADABLE
from firmlake.api.contract import Count
from firmlake.core.errors import UnusableAnswerError

CREATED_BY = "createdBy"
"""The field of a service list that holds a person's e-mail address."""
LIST_NAME = "name"


class Notifications(Struct, frozen=True):
    """Whether the owner of a service list is notified of changes."""

    enabled: bool | None = None


BigInt = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer that a BIGINT holds."""


class ListEntry(Struct, frozen=True):
    """One service list of the overview; only id and type are required."""

    id: BigInt
    type: str
    name: str | None = msgspec.field(name=LIST_NAME, default=None)
    columns: tuple[str, ...] = ()
    shared: bool | None = None
    notifications: Notifications | None = None
    company_count: BigInt | None = msgspec.field(name="amountOfCompanies", default=None)
    new_result_count: BigInt | None = msgspec.field(name="newResults", default=None)
    updated_at: datetime | None = msgspec.field(name="updatedAt", default=None)
    created_at: datetime | None = msgspec.field(name="createdAt", default=None)
    created_by: str | None = msgspec.field(name=CREATED_BY, default=None)


class ListPagination(Struct, frozen=True):
    """The slice of the lists that a page holds, as far as the service tells it."""

    limit: Count | None = None
    total: Count | None = None


class ListPage(Struct, frozen=True):
    """One page of the overview, with its lists undecoded."""

    data: list[Raw] | None
    pagination: ListPagination | None = None


class ContactIdentifier(Struct, frozen=True):
    """The id of a contact."""

    contact_id: str | int = msgspec.field(name="contactId")


class FailedContact(Struct, frozen=True):
    """A contact that was not added, with the reason."""

    identifier: ContactIdentifier = msgspec.field(name="contactIdentifier")
    message: str | None = None


class FailedCompany(Struct, frozen=True):
    """The company of a failure, whose number may be a JSON number."""

    country: str
    company_number: str | int = msgspec.field(name="companyNumber")


class FailedEntry(Struct, frozen=True):
    """A company that failed as a whole (`contacts` is null) or for some of its contacts."""

    identifier: FailedCompany = msgspec.field(name="companyIdentifier")
    contacts: list[FailedContact] | None = None
    message: str | None = None


class Addition(Struct, frozen=True):
    """The answer to a request that adds contacts, with its failures undecoded; without any, `failed` may be null."""

    success: bool
    failed: list[Raw] | None = None
    message: str | None = None


class Difference(NamedTuple):
    """A harmless difference from the contract: kind, path and example as in the table `drift`."""

    kind: str
    path: str
    example: str | None


class Listed(NamedTuple):
    """A list of the overview.

    Attributes:
        unknown: Fields that the contract does not know, and known fields whose values do not fit, as one JSON object;
            None if there are none. `entry` does not have them.
        differences: One for each unknown or absent field, and for each value that does not fit.
    """

    entry: ListEntry
    unknown: str | None
    differences: tuple[Difference, ...]


class ListedPage(NamedTuple):
    """A page of the overview.

    Attributes:
        lists: In the order of the answer.
        total: Number of lists according to the service; None if the answer does not say.
        limit: Page size according to the service; None if the answer does not say.
    """

    lists: list[Listed]
    total: int | None
    limit: int | None


class AddedContacts(NamedTuple):
    """The answer to a request that adds contacts.

    Attributes:
        failed: The failures that can be read.
        unread_count: How many failures cannot be read.
        differences: Differences of the answer and of the failures that can be read.
    """

    success: bool
    message: str
    failed: list[FailedEntry]
    unread_count: int
    differences: tuple[Difference, ...]


def read_list_page(body: bytes) -> ListedPage:
    """Read a page of the overview of service lists.

    Raises:
        UnusableAnswerError: The body is not such a page, or a list has no id or type. Skipping that list would report
            it as gone.
    """
    try:
        page = _PAGE.decode(body)
    except UNREADABLE as error:
        raise UnusableAnswerError(f"it is not an overview of lists: {error}") from None
    told = page.pagination or ListPagination()
    if page.data is None and told.total != 0:
        raise UnusableAnswerError("it is not an overview of lists: data is null")
    return ListedPage([_read_list(raw, place) for place, raw in enumerate(page.data or ())], told.total, told.limit)


def read_addition(body: bytes) -> AddedContacts:
    """Read the answer to a request that adds contacts; a failure that cannot be read does not affect the others.

    Raises:
        UnusableAnswerError: The body says neither what was added nor what failed.
    """
    if not body.strip():
        raise UnusableAnswerError("it is empty: it does not say what was added")
    try:
        answer = _ADDITION.decode(body)
    except UNREADABLE as error:
        raise UnusableAnswerError(f"it does not say what was added: {error}") from None
    fields = _FIELDS.decode(body)
    differences = _differences(fields, Addition, "")
    if "failed" not in fields and any(one.kind == "new_field" for one in differences):
        raise UnusableAnswerError("it does not say what was added: failures may stand in an unknown field")
    failures = answer.failed or []
    failed: list[FailedEntry] = []
    for raw in failures:
        try:
            failed.append(_FAILED.decode(raw))
            differences += _differences(_FIELDS.decode(raw), FailedEntry, "failed[]")
        except UNREADABLE:
            continue
    return AddedContacts(answer.success, answer.message or "", failed, len(failures) - len(failed), tuple(differences))


_PAGE = msgspec.json.Decoder(ListPage, strict=False)  # a total may be a text
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_ADDITION = msgspec.json.Decoder(Addition, strict=False)  # and success, too
_FAILED = msgspec.json.Decoder(FailedEntry)
_NUMBERS = (BigInt, BigInt | None)
_LIST_VALUES = [
    (field, msgspec.json.Decoder(field.type, strict=field.type not in _NUMBERS))
    for field in msgspec.structs.fields(ListEntry)
]
_NULL = Raw(b"null")
_SHOWN = 80


def _read_list(raw: Raw, place: int) -> Listed:
    """Read a list field by field; values that do not fit are kept as unknown."""
    try:
        fields = _FIELDS.decode(raw)
    except UNREADABLE:
        raise UnusableAnswerError(f"it is not an overview of lists: element {place} of data is not an object") from None
    values, odd, texts = {}, {}, {}
    for field, decoder in _LIST_VALUES:
        if field.encode_name not in fields and not field.required:
            continue
        value = fields.get(field.encode_name, _NULL)
        try:
            values[field.name] = decoder.decode(value)
        except UNREADABLE as error:
            if field.required:
                which = f"list {_text(fields['id'])}" if "id" in fields else f"element {place} of data"
                raise UnusableAnswerError(
                    f"it is not an overview of lists: {field.encode_name} of {which[:_SHOWN]}: {error}"
                ) from None
            odd[field.encode_name] = value
        else:
            if field.type in _NUMBERS and bytes(value).startswith(b'"'):
                texts[field.encode_name] = value
    differences = _differences(fields, ListEntry, "data[]")
    differences += [Difference("new_value", f"data[].{name}", _text(value)) for name, value in odd.items()]
    differences += [Difference("text_for_number", f"data[].{name}", _text(value)) for name, value in texts.items()]
    unknown = {name: value for name, value in fields.items() if name in odd or name not in _names(ListEntry)}
    return Listed(ListEntry(**values), _as_object(unknown) if unknown else None, tuple(differences))


def _differences(fields: dict[str, Raw], shape: type[msgspec.Struct], path: str) -> list[Difference]:
    """Find unknown fields (all in one difference) and absent fields (one difference each)."""
    known, inside = _names(shape), f"{path}." if path else ""
    unknown = {name: value for name, value in fields.items() if name not in known}
    new = [Difference("new_field", path or "$", _as_object(unknown))] if unknown else []
    return new + [Difference("vanished_field", inside + name, None) for name in known if name not in fields]


@cache
def _names(shape: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(shape))


def _as_object(fields: dict[str, Raw]) -> str:
    return msgspec.json.encode(fields).decode("utf-8", "replace")


def _text(value: Raw) -> str:
    return bytes(value).decode("utf-8", "replace")
