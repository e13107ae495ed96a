"""The contacts that a plan adds to a service list: what `apply` is given, and what lands beside its answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec

from firmlake.core.company import Company

__all__ = ["Contact", "ContactPlan", "Entry", "Refused", "as_entries", "spread"]


class Contact(NamedTuple):
    """A contact of a company, as it is to be in a list."""

    country: str
    company_number: str
    contact_id: str

    @property
    def company(self) -> Company:
        """Whose contact it is."""
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
    """What is to be added to which list: all that `apply` needs, and what a person wants to see before.

    Attributes:
        service: The service it was made for.
        source: File name of the list of contacts; `redrive` for what failed before.
        list_name: With type, number of companies and last change: the list when the plan was made.
        already_added: Contacts of the source that are in the list by our ledger.
        repeated_count: Lines naming a contact named before.
        requests: For each request its companies, each once.
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

    def contacts(self) -> Iterator[Contact]:
        """Give all contacts to add."""
        return (contact for entries in self.requests for contact in spread(entries))


def spread(entries: Iterable[Entry]) -> Iterator[Contact]:
    """Give the contacts of entries one by one."""
    return (Contact(entry.country, entry.company_number, one) for entry in entries for one in entry.contacts)


def as_entries(contacts: Iterable[Contact]) -> tuple[Entry, ...]:
    """Group contacts by company, in order of first appearance."""
    grouped: defaultdict[Company, list[str]] = defaultdict(list)
    for contact in contacts:
        grouped[contact.company].append(contact.contact_id)
    return tuple(Entry(*company, tuple(ids)) for company, ids in grouped.items())
