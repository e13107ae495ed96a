"""A plan of contacts to add to a service list: the file that `apply` reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec

from firmlake.core.company import Company

__all__ = ["Contact", "ContactPlan", "Entry", "Refused", "as_entries", "spread"]


class Contact(NamedTuple):
    """A contact of a company."""

    country: str
    company_number: str
    contact_id: str

    @property
    def company(self) -> Company:
        """The company of the contact."""
        return Company(self.country, self.company_number)


class Entry(msgspec.Struct, frozen=True):
    """A company with contacts."""

    country: str
    company_number: str
    contacts: tuple[str, ...]


class Refused(msgspec.Struct, frozen=True):
    """A line of a list of contacts that could not be used."""

    line: int
    given: str
    reason: str


class ContactPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The contacts to add to a list: everything that `apply` needs and that a person wants to review.

    Attributes:
        service: The service that the plan was made for.
        source: File name of the contact list; `redrive` for contacts that failed before.
        list_name: The name when the plan was made; so are list_type, list_company_count and list_updated_at.
        already_added: Contacts of the source that were added before.
        repeated_count: Lines that repeat a contact of an earlier line.
        requests: The companies of each request; a request names each company once.
        present_message: The service's message for a contact that the list already has; "" if unknown.
    """

    plan_id: str
    made_at: datetime
    service: str
    source: str
    list_id: int
    list_name: str
    list_type: str
    list_company_count: int | None
    list_updated_at: datetime | None
    requests: tuple[tuple[Entry, ...], ...]
    already_added: tuple[Entry, ...]
    refused: tuple[Refused, ...]
    repaired_count: int
    repeated_count: int
    firmlake_version: str
    present_message: str = ""

    def says_present(self, message: str) -> bool:
        """Return whether a refusal says that the list already has the contact."""
        return bool(self.present_message) and self.present_message.casefold() in message.casefold()

    def contacts(self) -> Iterator[Contact]:
        """Yield all contacts to add."""
        return (contact for entries in self.requests for contact in spread(entries))


def spread(entries: Iterable[Entry]) -> Iterator[Contact]:
    """Yield the contacts of entries one by one."""
    return (Contact(entry.country, entry.company_number, one) for entry in entries for one in entry.contacts)


def as_entries(contacts: Iterable[Contact]) -> tuple[Entry, ...]:
    """Group contacts by company, in order of first appearance."""
    grouped: defaultdict[Company, list[str]] = defaultdict(list)
    for contact in contacts:
        grouped[contact.company].append(contact.contact_id)
    return tuple(Entry(*company, tuple(ids)) for company, ids in grouped.items())
