"""What landed answers say of the contacts that were sent to service lists: the ledger of additions.

The same rules read answers while they arrive, when an apply is continued and when the table is made. A contact is
added when the service said so; until it said something of it, it is unknown, and what helps is to send it again: the
service takes a contact twice without harm.

    landing/contacts/plan=<plan>/plan.json       the plan as applied, whole
                                 00001.zst ...   "sending": the contacts of a request, before it is sent; then its
                                                 answers; "given_up": refused even alone
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from firmlake.core.company import Company, normal_form
from firmlake.core.errors import DamagedError, UnusableAnswerError
from firmlake.core.files import read_json
from firmlake.core.run import Folders
from firmlake.landing.segments import Header, list_segments, read_segment
from firmlake.lists.answers import Added, read_addition
from firmlake.lists.contact_plan import Contact, ContactPlan, Entry, spread

__all__ = [
    "SETTLED",
    "Progress",
    "Remark",
    "Standing",
    "added_to",
    "list_applied",
    "merge_standings",
    "open_applied",
    "read_applied",
    "settle",
]

SETTLED = ("added", "failed", "company_failed")


class Standing(NamedTuple):
    """How it stands with a contact that was sent.

    Attributes:
        status: `added`, `failed` (the message says why), `company_failed` (likewise, for the whole company) or
            `unknown` (no answer says anything of it).
        sent_count: Requests it was sent in, repeats included.
        lost_count: Those of them that no answer came to which says what was done.
        changed_at: When that became known, or it was sent last; UTC.
    """

    status: str
    message: str
    sent_count: int
    lost_count: int
    request_id: str
    plan_id: str
    changed_at: datetime


class Remark(NamedTuple):
    """What an answer says beside the matter: a kind and path of the table `drift`, with an example."""

    kind: str
    path: str
    example: str | None
    record_count: int
    fetched_at: datetime


class Progress:
    """How far a plan is.

    Attributes:
        standings: For each contact that was sent.
        in_list: What has been added to the list by any plan, as far as it was looked up.
        remarks: Answers that name what was not sent, or count otherwise.
    """

    def __init__(self, plan: ContactPlan) -> None:
        self.plan = plan
        self.standings: dict[Contact, Standing] = {}
        self.in_list: set[Contact] = set()
        self.remarks: list[Remark] = []
        self._sent: dict[str, list[Contact]] = {}
        self._open: set[str] = set()

    def counts(self) -> dict[str, int]:
        """Count the plan's contacts by status; what another plan added is added, and what was not sent `pending`."""
        found = dict.fromkeys((*SETTLED, "unknown", "pending"), 0)
        for contact in self.plan.contacts():
            standing = self.standings.get(contact)
            is_added = contact in self.in_list
            found["added" if is_added else standing.status if standing else "pending"] += 1
        return found

    def lacking(self) -> list[tuple[Contact, Standing]]:
        """List the contacts that were sent and are not added, or not known to be."""
        return [
            (contact, standing)
            for contact, standing in self.standings.items()
            if standing.status != "added" and contact not in self.in_list
        ]

    def absorb(self, header: Header, body: bytes) -> None:
        """Take in one landed record, in landing order."""
        if header.kind == "sending":
            self._sent[header.request_id] = list(spread(_ENTRIES.decode(body)))
            self._open.add(header.request_id)
            self._set(header, {}, "the answer was lost", sent=1, lost=1)
        elif header.kind == "given_up":
            contacts = self._sent.get(header.request_id, ())
            self._set(header, dict.fromkeys(contacts, ("failed", header.error)), "")
        else:
            self._absorb_answer(header, body)

    def _absorb_answer(self, header: Header, body: bytes) -> None:
        is_first = header.request_id in self._open
        self._open.discard(header.request_id)
        sent = 0 if is_first else 1
        if header.kind == "no_answer" or header.status is None or header.status >= 500:
            self._set(header, {}, header.error or f"status {header.status}", sent=sent, lost=sent)
        elif header.status != 200:
            self._set(header, {}, f"status {header.status}", sent=sent, lost=sent - 1)
        else:
            try:
                answer = read_addition(body)
            except UnusableAnswerError as error:
                self._set(header, {}, error.message, sent=sent, lost=sent)
                return
            outcomes, remarks = settle(self._sent.get(header.request_id, []), answer)
            self.remarks += [Remark(*remark, fetched_at=header.fetched_at) for remark in remarks]
            self._set(header, outcomes, "the answer does not say", sent=sent, lost=sent - 1)

    def _set(
        self, header: Header, outcomes: dict[Contact, tuple[str, str]], reason: str, sent: int = 0, lost: int = 0
    ) -> None:
        """Note for each contact of a request what is known of it; what was known before is not forgotten."""
        for contact in self._sent.get(header.request_id, ()):
            before = self.standings.get(contact)
            status, message = outcomes.get(contact, ("unknown", reason))
            if before and before.status in SETTLED and status == "unknown":
                status, message = before.status, before.message
            self.standings[contact] = Standing(
                status,
                message,
                (before.sent_count if before else 0) + sent,
                (before.lost_count if before else 0) + lost,
                header.request_id,
                self.plan.plan_id,
                header.fetched_at,
            )


def settle(
    sent: Sequence[Contact], answer: Added
) -> tuple[dict[Contact, tuple[str, str]], list[tuple[str, str, str | None, int]]]:
    """Work out what an answer says of each contact of its request; nothing is guessed.

    A contact that no failure names was added, provided that the answer is a success and all of it can be read. Where
    it is none and names some, the others are left unknown: sent again without those, they get an answer of their own.
    So are those that a failure may mean which names none of them: a company in no spelling of ours, or another contact
    of their company. Of the one contact that was sent, such a failure is clear.

    Returns:
        Status and message of each contact that the answer settles, and remarks: kind, path, example, count.
    """
    by_company: defaultdict[Company, list[Contact]] = defaultdict(list)
    for contact in sent:
        by_company[contact.company].append(contact)
    outcomes: dict[Contact, tuple[str, str]] = {}
    foreign: list[str] = []
    unread = ["a failure that cannot be read"] * answer.unread_count
    vague: set[Contact] = set()
    for entry in answer.failed:
        named = f"{entry.identifier.country} {entry.identifier.company_number}"
        company = normal_form(entry.identifier.country, entry.identifier.company_number)
        if company is None and len(sent) == 1:
            company = sent[0].company
        contacts = by_company.get(company, []) if company else []
        if company is None:
            unread.append(f"a failure of {named}, which is no company number")
        elif not contacts:
            foreign.append(named)
        elif not entry.contacts and (entry.contacts is None or entry.message):
            outcomes |= dict.fromkeys(contacts, ("company_failed", entry.message or "no reason is given"))
        elif not entry.contacts:
            vague.update(contacts)
        for failed in (entry.contacts or ()) if contacts else ():
            ours = [one for one in contacts if one.contact_id == failed.identifier.contact_id]
            if not ours:
                foreign.append(f"{named}, contact {failed.identifier.contact_id}")
                vague.update(contacts)
            for one in ours or (contacts if len(contacts) == 1 else ()):
                outcomes.setdefault(one, ("failed", failed.message or "no reason is given"))
    rest = [contact for contact in sent if contact not in outcomes and contact not in vague]
    if answer.success and not unread:
        outcomes |= dict.fromkeys(rest, ("added", ""))
    elif not (answer.success or answer.failed or unread):
        outcomes |= dict.fromkeys(rest, ("failed", answer.message or "no reason is given"))
    added_count = sum(status == "added" for status, _ in outcomes.values())
    return outcomes, list(_remarks(answer, foreign, unread, added_count))


def open_applied(folders: Folders, plan_id: str, until: datetime | None = None) -> Progress | None:
    """Read how far a plan is; None where nothing of it was applied.

    Args:
        folders: Where it landed.
        plan_id: The plan.
        until: Only what had landed by then; None takes everything.

    Raises:
        DamagedError: A landed file is not what was written.
    """
    folder = folders.additions / f"plan={plan_id}"
    return _read(folder, until) if (folder / "plan.json").exists() else None


def list_applied(folders: Folders, until: datetime | None = None) -> list[Progress]:
    """Read how far all plans are that were applied, in the order they were made.

    Raises:
        DamagedError: A landed file is not what was written.
    """
    applied, damaged = read_applied(folders, until)
    for error in damaged.values():
        raise error
    return applied


def read_applied(folders: Folders, until: datetime | None = None) -> tuple[list[Progress], dict[str, DamagedError]]:
    """Read how far all plans are that were applied; and by name those of which something landed is damaged."""
    applied, damaged = [], {}
    for path in sorted(folders.additions.glob("plan=*/plan.json")):
        try:
            applied.append(_read(path.parent, until))
        except DamagedError as error:
            damaged[path.parent.name.removeprefix("plan=")] = error
    added = {list_id: added_to(list_id, applied) for list_id in {one.plan.list_id for one in applied}}
    for one in applied:
        one.in_list = added[one.plan.list_id]
    return applied, damaged


def merge_standings(applied: Iterable[Progress]) -> dict[tuple[int, Contact], Standing]:
    """Give how it stands with each contact of each list over all plans: once added stays added, else the latest."""
    merged: dict[tuple[int, Contact], Standing] = {}
    for progress in applied:
        for contact, standing in progress.standings.items():
            key = progress.plan.list_id, contact
            merged[key] = _later(merged[key], standing) if key in merged else standing
    return merged


def added_to(list_id: int, applied: Iterable[Progress]) -> set[Contact]:
    """Give the contacts that are in a list by our ledger."""
    return {
        contact
        for progress in applied
        if progress.plan.list_id == list_id
        for contact, standing in progress.standings.items()
        if standing.status == "added"
    }


# ---------------------------------------------------------------------------------------------------------------------

_ENTRIES = msgspec.json.Decoder(tuple[Entry, ...])


def _remarks(
    answer: Added, foreign: list[str], unread: list[str], added_count: int
) -> Iterator[tuple[str, str, str | None, int]]:
    for difference, times in Counter(answer.differences).items():
        yield *difference, times
    if foreign:
        yield "foreign_element", "failed[].companyIdentifier", foreign[0], len(foreign)
    if unread:
        yield "foreign_element", "failed[]", unread[0], len(unread)
    count = re.search(r"\d+", answer.message)
    if answer.success and not unread and count and int(count[0]) != added_count:
        yield "other_count", "message", f"{answer.message!r}, where {added_count} did not fail", 1


def _later(first: Standing, second: Standing) -> Standing:
    late = max(first, second, key=lambda one: (one.status == "added", one.changed_at))
    if first.status == second.status == "added":
        late = min(first, second, key=lambda one: one.changed_at)
    return late._replace(
        sent_count=first.sent_count + second.sent_count, lost_count=first.lost_count + second.lost_count
    )


def _read(folder: Path, until: datetime | None) -> Progress:
    path = folder / "plan.json"
    try:
        progress = Progress(read_json(path, ContactPlan))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(f"{path} cannot be read: {error}", "Restore it from a copy") from None
    for segment in list_segments(folder):
        for landed in read_segment(segment):
            if until is None or landed.header.fetched_at <= until:
                progress.absorb(landed.header, landed.body)
    return progress
