"""Applying a plan: each contact is settled by an answer that landed, and none is sent again once it is."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

import msgspec
import pytest

from firmlake.api.connection import Connection
from firmlake.core.errors import RequestRefusedError, ServiceError, Stopped, UsageError
from firmlake.landing.segments import SegmentWriter
from firmlake.report.status import read_status
from firmlake.service_lists.additions import read_additions
from firmlake.service_lists.contacts import Contact, read_plan
from firmlake.terminal.progress import Counter as Counted
from firmlake.warehouse.generations import newest
from support import query, slow

from .support import MISSING, Desk, contacts_of

ENDPOINT = {"endpoint": "lists.contacts"}


def statuses(progress):
    return {contact: standing.status for contact, standing in progress.statuses.items()}


def ledger(desk):
    """Contacts of all plans by status."""
    return Counter(standing.status for standing in read_additions(desk.folders).statuses.values())


# --- scenes: contacts, one fault -> what becomes of the contacts, and how many requests were sent --------------------


class Scene(NamedTuple):
    """One contact for each of so many companies; what becomes of `odd`, the contact in place 2, and of the others."""

    count: int
    fault: dict[str, Any]
    others: str = "added"
    odd: str = "added"
    says: str = ""
    sent: tuple[int, int] | None = None
    remarks: tuple[str, ...] = ()
    lost: int = 0


def status(code, message="", **more):
    return {"kind": "status", "status": code, "message": message, **more}


def literal(field, text, **more):
    return {"kind": "drift", "field": field, "change": "literal", "literal": text, **more}


ODD = {"is_about_odd": True}
FOREIGN = '[{"companyIdentifier":{"country":"NL","companyNumber":"24202194"},"contacts":null,"message":"x"}]'
UNCLEAR = json.dumps([{"companyIdentifier": {"country": "BE", "companyNumber": "x"}, "message": "Company not found"}])
SCENES = {
    # A lost answer is made good by sending again; the second answer says 0, as they were added before.
    "lost": Scene(3, {"kind": "lose", "nth": [1]}, sent=(2, 2), remarks=("other_count",), lost=1),
    "cut": Scene(3, {"kind": "truncate", "nth": [1]}, sent=(2, 2), remarks=("other_count",), lost=1),
    "wait": Scene(120, status(429, nth=[1])),
    "down": Scene(120, status(503, nth=[1]), lost=1),
    "poison": Scene(60, status(400, **ODD), odd="failed", says="400"),
    "no such contact": Scene(6, status(404, "Contact not found", **ODD), odd="failed", says="Contact not found"),
    "no such company": Scene(6, status(404, "Company {number} does not exist", **ODD), odd="failed", says="404"),
    "there already": Scene(6, status(409, "Contact already in list", **ODD)),
    "all there already": Scene(6, status(409, "Contact already in list")),
    "never answered": Scene(6, {"kind": "lose", **ODD}, odd="unknown"),
    "no success": Scene(2, literal("success", "false"), others="failed"),
    "other count": Scene(2, literal("message", '"7 contacts added"'), remarks=("other_count",)),
    "no message": Scene(2, literal("message", "null")),
    "foreign company": Scene(2, literal("failed", FOREIGN), remarks=("foreign_element",)),
    "no failures": Scene(2, literal("failed", "null")),
    "text for true": Scene(2, literal("success", '"true"')),
    "no truth value": Scene(2, literal("success", '"yes"'), others="unknown"),
    "no truth value once": Scene(2, literal("success", '"yes"', nth=[1]), sent=(2, 2), lost=1),
    "breaks": Scene(20, status(500, **ODD), odd="unknown", sent=(15, 15)),
    # Two answers tell of a company that cannot be told; those to its halves do not.
    "unclear twice": Scene(20, literal("failed", UNCLEAR, nth=[1, 2]), sent=(5, 5), remarks=("foreign_element",)),
    "never clear": Scene(40, literal("failed", '[{"companyIdentifier":null}]'), others="unknown", sent=(2, 19)),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
def test_each_contact_comes_to_the_status_that_the_answers_tell(desk: Desk, name):
    scene, contacts = SCENES[name], contacts_of(SCENES[name].count)
    odd = contacts[2] if scene.count > 2 else None
    fault = {**ENDPOINT, **scene.fault}
    if fault.pop("is_about_odd", False):
        assert odd
        fault["companies"] = ["".join(odd[:2])]
        if "message" in fault:
            fault["message"] = fault["message"].format(number=odd.company_number)
    desk.sandbox.set_faults([fault])
    progress = desk.apply(desk.plan(contacts))
    found = statuses(progress)
    assert {found[contact] for contact in contacts if contact != odd} == {scene.others}
    assert odd is None or found[odd] == (scene.odd if scene.others == "added" else scene.others)
    assert odd is None or scene.says in progress.statuses[odd].message
    assert scene.sent is None or scene.sent[0] <= desk.sent() <= scene.sent[1]
    assert set(scene.remarks) <= {remark.kind for remark in progress.remarks}
    lost = max(standing.lost_count for standing in progress.statuses.values())
    assert lost == scene.lost or "is_about_odd" in scene.fault or scene.others != "added"
    if "there already" not in name:
        assert desk.lacking([one for one in contacts if found[one] == scene.others == "added"]) == 0


STOPS = [
    (100, status(400), RequestRefusedError, r"for list 1002 \(.*400.*api\.names", range(1, 15), 0),
    (
        101, {"kind": "change_lists", "change": "vanish", "list": 1002}, RequestRefusedError,
        r"and 50 others for list 1002 .*404.*service-lists", range(1, 2), 0,
    ),
    (3, status(410, "Archived"), RequestRefusedError, r"for list 1002 .*410.*service-lists", range(1, 2), 0),
    (101, status(402, nth=[2]), Stopped, "402", range(2, 3), 51),
]  # fmt: skip


@pytest.mark.parametrize(("count", "fault", "error", "says", "sent", "added"), STOPS)
def test_where_going_on_is_useless_it_stops_soon_and_loses_nothing(desk: Desk, count, fault, error, says, sent, added):
    """Settings are wrong, the list is gone, or credits are, though adding should need none."""
    contacts = contacts_of(count)
    plan = desk.plan(contacts)
    desk.sandbox.set_faults([{**ENDPOINT, **fault}])
    with pytest.raises(error, match=says):
        desk.apply(plan)
    assert desk.sent() in sent
    assert ledger(desk)["added"] == added
    desk.sandbox.set_faults([])
    if fault["kind"] == "change_lists":
        with pytest.raises(UsageError, match="no list 1002"):
            desk.apply(plan)
    if added:
        path = desk.folders.additions / f"plan={plan.plan_id}" / "plan.json"
        step = f"`firmlake contacts apply {path}` settles {count - added} contacts of list 1002"
        assert read_status(desk.folders).next_step.endswith(step)
        assert set(statuses(desk.apply(read_plan(path))).values()) == {"added"}
        assert read_status(desk.folders).open_contacts is None
        assert desk.lacking(contacts) == 0


def test_where_the_service_answers_without_a_body_nothing_is_sent_a_second_time(desk: Desk, monkeypatch):
    exchange = Connection.exchange

    def without_body(self, request, attempt):
        answer = exchange(self, request, attempt)
        return msgspec.structs.replace(answer, status=204, body=b"") if request.method == "PUT" else answer

    monkeypatch.setattr(Connection, "exchange", without_body)
    with pytest.raises(ServiceError, match="answer is empty") as caught:
        desk.apply(desk.plan(contacts_of(40)))
    assert "whether list 1002" in caught.value.next_step
    assert desk.sent() == 1


# --- once settled, never sent again ----------------------------------------------------------------------------------


def test_the_table_holds_what_came_of_each_contact_and_is_made_anew_only_for_something_new(publishing_desk: Desk):
    plan = publishing_desk.plan([*contacts_of(2), Contact(*MISSING, "1")])
    publishing_desk.sandbox.set_faults([{**ENDPOINT, "kind": "lose", "nth": [1]}])
    publishing_desk.apply(plan)
    columns = "status, message, sent_count, lost_count, count(*)"
    assert query(publishing_desk.folders, f"SELECT {columns} FROM contact_additions GROUP BY ALL ORDER BY ALL") == [
        # The second answer calls itself no success, for it adds nothing new and a company fails; the third is clear.
        ("added", "", 3, 1, 2),
        ("company_failed", "Company not found", 2, 1, 1),
    ]
    drift = query(publishing_desk.folders, "SELECT kind, path, record_count FROM drift WHERE dataset = 'contacts'")
    assert drift == [("other_count", "message", 1)]
    before = newest(publishing_desk.folders), publishing_desk.sent()
    publishing_desk.apply(plan)
    assert (newest(publishing_desk.folders), publishing_desk.sent()) == before
    files = [path for path in publishing_desk.folders.data.rglob("*") if path.is_file()]
    assert not [path for path in files if b"Bearer" in path.read_bytes()]


def test_progress_counts_contacts_that_are_settled_whatever_is_sent_for_them(desk: Desk):
    contacts = contacts_of(20)
    desk.sandbox.set_faults([{**ENDPOINT, **status(400), "companies": ["".join(contacts[7][:2])]}])
    counter = Counted(len(contacts), desk.settings.api, "contacts")
    desk.apply(desk.plan(contacts), on_answer=counter.count)
    assert " failed or refused" in counter.line()
    assert "19 of 20 contacts, " in counter.line()  # no answer settles the other


def test_a_plan_whose_list_became_another_is_refused_before_any_write(desk: Desk):
    plan = desk.plan(contacts_of(1))
    for change in ({"list_name": "another name"}, {"list_id": 1001}, {"list_id": 999}, {"service": "api.example.com"}):
        with pytest.raises(UsageError):
            desk.apply(msgspec.structs.replace(plan, **change))
    assert desk.sent() == 0
    assert not desk.folders.additions.exists()


@pytest.mark.parametrize("is_lost", [False, *slow(True)])
def test_what_another_plan_added_meanwhile_is_not_sent_again(desk: Desk, is_lost):
    first, second = desk.plan(contacts_of(2)), desk.plan(contacts_of(3))
    desk.sandbox.set_faults([{**ENDPOINT, "kind": "lose"}] if is_lost else [])
    assert desk.apply(first).counts()["unknown" if is_lost else "added"] == 2
    desk.sandbox.set_faults([])
    progress = desk.apply(second)
    sent = [contact for contact, standing in progress.statuses.items() if standing.plan_id == second.plan_id]
    assert sent == contacts_of(3)[0 if is_lost else 2 :]
    assert (progress.counts()["added"], progress.counts()["pending"]) == (3, 0)
    assert ledger(desk) == {"added": 3}
    before = desk.sent()
    assert desk.apply(first).counts()["added"] == 2
    assert desk.sent() == before


class CrashError(Exception):
    pass


@pytest.mark.parametrize("place", [2, 3, *slow(0, 1)])
def test_a_crash_between_any_two_writes_is_made_good_by_the_next_apply(desk: Desk, monkeypatch, place):
    """Two requests land four records; the crash comes before one of them."""
    contacts, left = contacts_of(120), iter(range(place))
    append = SegmentWriter.append

    def crash(self, header, body=b""):
        is_ours = header.dataset == "contacts"
        if is_ours and next(left, None) is None:
            raise CrashError
        append(self, header, body)

    plan = desk.plan(contacts)
    with monkeypatch.context() as patch:
        patch.setattr(SegmentWriter, "append", crash)
        with pytest.raises(CrashError):
            desk.apply(plan)
    crashed = read_additions(desk.folders).applied(plan)
    if place == 3:  # the second request was sent, and its answer never landed: it counts as lost
        told = Counter((one.status, one.sent_count, one.lost_count) for one in crashed.statuses.values())
        assert told == {("added", 1, 0): 60, ("unknown", 1, 1): 60}
    assert set(statuses(desk.apply(plan)).values()) == {"added"}
    assert ledger(desk) == {"added": 120}
    assert desk.sent() <= 3
    assert desk.lacking(contacts) == 0
