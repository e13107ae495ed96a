"""Contacts to add to a service list: the file that names them, and the plan that `apply` reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import polars as pl

from firmlake.api.service import service_name
from firmlake.core.company import Company
from firmlake.core.errors import DamagedError, UsageError
from firmlake.core.files import read_json
from firmlake.core.settings import ApiSettings, IntakeSettings, Settings
from firmlake.intake.columns import CONTACT_COLUMNS, ERROR
from firmlake.intake.entries import read_entries
from firmlake.intake.lines import LINES, nothing_named
from firmlake.intake.table import cell


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


def by_companies(contacts: Iterable[Contact]) -> dict[Company, list[Contact]]:
    """Group contacts by company, in order of first appearance."""
    grouped: dict[Company, list[Contact]] = {}
    for contact in contacts:
        grouped.setdefault(contact.company, []).append(contact)
    return grouped


def as_entries(contacts: Iterable[Contact]) -> tuple[Entry, ...]:
    """Group contacts by company, as plans store them."""
    return tuple(Entry(*company, tuple(one.contact_id for one in of)) for company, of in by_companies(contacts).items())


def pack_requests(contacts: Iterable[Contact], api: ApiSettings) -> tuple[tuple[Entry, ...], ...]:
    """Pack contacts into as few requests as the limits allow. A request names each company at most once.

    A company with more contacts than a request allows is cut into pieces. The pieces are dealt to the requests in turn,
    so that consecutive pieces of one company go to different requests.
    """
    most, entries = api.contacts_per_company, as_entries(contacts)
    pieces = [
        Entry(entry.country, entry.company_number, entry.contacts[start : start + most])
        for entry in entries
        for start in range(0, len(entry.contacts), most)
    ]
    per_company = (-(-len(entry.contacts) // most) for entry in entries)
    count = max(-(-len(pieces) // api.contact_companies_per_request), max(per_company, default=0))
    return tuple(tuple(pieces[place::count]) for place in range(count))


PLAN_AGAIN: Final = "Plan again with `firmlake contacts plan`, which leaves out the contacts already added"


def read_plan(path: Path) -> ContactPlan:
    """Read a plan; UsageError if the file cannot be read or was changed."""
    try:
        return read_json(path, ContactPlan)
    except DamagedError as error:
        raise UsageError(error.message, "Name a plan that `firmlake contacts plan` wrote, or plan again") from None


def check_plan(settings: Settings, plan: ContactPlan, now: datetime) -> None:
    """Refuse a plan that was made for another service, or too long ago."""
    service, hours = service_name(settings), settings.lists.plan_max_age_hours
    if plan.service != service:
        raise UsageError(f"The plan was made for {plan.service}, not for {service}", PLAN_AGAIN)
    if not timedelta(0) <= now - plan.made_at <= timedelta(hours=hours):
        made = f"The plan was made at {plan.made_at:%Y-%m-%d %H:%M} UTC"
        raise UsageError(f"{made}, but lists.plan_max_age_hours is {hours:g}", PLAN_AGAIN)


_LONGEST: Final = 64
_PROBLEMS: Final = {
    rf"^$|{ERROR}": "no contact id: fill it in, or remove the line",
    r"^\d+([.,]\d+)?[eE]\+\d+$": (
        "a contact id that a spreadsheet has rounded: format the column as text and export the list again"
    ),
    r"^[\[{]|^\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d.*)?$|^(?i:true|false)$": (
        "a date, a truth value or several values instead of a contact id: write the id as text"
    ),
    rf"[\s\p{{C}}]|.{{{_LONGEST + 1}}}": (
        f"not a contact id: it has spaces, control characters or more than {_LONGEST} characters; correct the id"
    ),
}
"""Patterns of values that are no contact id, and why; the first that fits counts."""


class ContactList(NamedTuple):
    """The contacts of one list, and an account of all its lines except the header and blank lines.

    Attributes:
        contacts: Each contact once, in file order.
        refused: Lines without a valid company number or contact id.
        repaired_count: Lines whose company number or contact id was not in normal form.
        repeated_count: Lines that repeat the contact of an earlier line.
        guesses: One sentence for each guess about the list, with the way to override it.
    """

    path: Path
    contacts: list[Contact]
    refused: Sequence[Refused] = ()
    repaired_count: int = 0
    repeated_count: int = 0
    guesses: tuple[str, ...] = ()


def read_contact_list(path: Path, options: IntakeSettings) -> ContactList:
    """Read a contact list of any format; company numbers are repaired and refused as in a company list.

    Raises CompanyListError if the file cannot be used at all, or every line is refused.
    """
    entries = read_entries(path, options, CONTACT_COLUMNS, {"contact_id": options.contact_column})
    contact = pl.coalesce(map(cell, entries.choice["contact_id"]))
    batches = [batch.filter(pl.col("status") != "blank").with_columns(contact_id=contact) for batch in entries.batches]
    if not batches:
        raise nothing_named(path, LINES.to_frame(), entries.table.header_count, options, of_contacts=True)
    with_company = pl.concat(batches)
    lines = _check_contacts(with_company)
    named, refused = lines.filter(status="accepted"), lines.filter(status="refused")
    if named.is_empty():
        raise nothing_named(path, refused, entries.table.header_count, options, of_contacts=True)
    unique = named.unique(["country", "company_number", "contact_id"], keep="first", maintain_order=True)
    return ContactList(
        path,
        [Contact(*row) for row in unique.select("country", "company_number", "contact_id").iter_rows()],
        [Refused(*row) for row in refused.select("line", "given", "reason").iter_rows()],
        named.filter("is_repaired").height,
        named.height - unique.height,
        entries.guesses,
    )


def _check_contacts(lines: pl.DataFrame) -> pl.DataFrame:
    """Normalise contact ids, and refuse values that cannot be one."""
    text = pl.col("contact_id").fill_null("").str.strip_chars()
    plain = text.str.replace(r"^(\d+)\.0+$", "${1}")  # a whole number that a spreadsheet made a float
    problem = pl.coalesce(
        pl.when(plain.str.contains(pattern)).then(pl.lit(reason)) for pattern, reason in _PROBLEMS.items()
    )
    both = pl.concat_str(pl.col("given"), text.str.head(_LONGEST), separator=", contact ")
    is_accepted = pl.col("status") == "accepted"
    return lines.with_columns(
        contact_id=plain,
        given=pl.when(is_accepted).then(both).otherwise(pl.col("given")),
        is_repaired=pl.col("reason").is_not_null() | (plain != pl.col("contact_id")),
        reason=pl.when(is_accepted).then(problem).otherwise("reason"),
        status=pl.when(problem.is_not_null()).then(pl.lit("refused")).otherwise("status"),
    )
