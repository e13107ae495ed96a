"""Applying a plan: each contact is settled by an answer that landed, and none is sent again once it is."""

from __future__ import annotations

import json
from collections import Counter

import msgspec
import pytest

from firmlake.api.connection import Connection
from firmlake.core.errors import RequestRefusedError, ServiceError, Stopped, UsageError
from firmlake.landing.segments import SegmentWriter
from firmlake.report.status import read_status
from firmlake.service_lists.additions import list_applied, merge_standings, open_applied
from firmlake.service_lists.contact_plan import Contact
from firmlake.service_lists.contact_planning import read_plan
from firmlake.terminal.progress import Counter as Counted
from firmlake.warehouse.generations import newest
from support import query

from .support import FOUND, MISSING, Desk, contacts_of

ENDPOINT = {"endpoint": "lists.contacts"}


def statuses(progress):
    return {contact: standing.status for contact, standing in progress.standings.items()}


def ledger(desk):
    """Contacts of all plans by status."""
    return Counter(standing.status for standing in merge_standings(list_applied(desk.folders)).values())


def test_every_contact_comes_to_a_status_and_a_second_apply_sends_nothing(desk: Desk):
    good = contacts_of(150, 2)
    bad = [Contact(*FOUND[0], "10"), Contact(*MISSING, "1"), Contact(*MISSING, "2")]
    plan = desk.plan([*good, *bad])
    progress = desk.apply(plan)
    assert statuses(progress) == {
        **dict.fromkeys(good, "added"),
        bad[0]: "failed",
        **dict.fromkeys(bad[1:], "company_failed"),
    }
    assert progress.standings[bad[0]].message == "Contact not found"
    assert progress.standings[bad[1]].message == "Company not found"
    assert desk.lacking(good) == 0
    before = desk.sent()
    assert statuses(desk.apply(plan)) == statuses(progress)
    assert desk.sent() == before


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
    generation = newest(publishing_desk.folders)
    publishing_desk.apply(plan)
    assert newest(publishing_desk.folders) == generation


def test_a_company_with_many_contacts_is_spread_over_requests(desk: Desk):
    contacts = contacts_of(2, 120)
    plan = desk.plan(contacts)
    desk.apply(plan)
    assert desk.sent() == len(plan.requests) == 3
    assert desk.lacking(contacts) == 0


@pytest.mark.parametrize("kind", ["lose", "truncate"])
def test_a_lost_answer_is_consistent_by_sending_again(desk: Desk, kind):
    contacts = contacts_of(3)
    desk.sandbox.set_faults([{**ENDPOINT, "kind": kind, "nth": [1]}])
    progress = desk.apply(desk.plan(contacts))
    assert set(statuses(progress).values()) == {"added"}
    assert {(one.sent_count, one.lost_count) for one in progress.standings.values()} == {(2, 1)}
    assert [remark.kind for remark in progress.remarks] == ["other_count"]  # it says 0, as they were added before


def test_what_stays_without_an_answer_is_unknown_and_sent_by_the_next_apply_alone(desk: Desk):
    contacts = contacts_of(2)
    lost, kept = contacts
    plan = desk.plan(contacts)
    desk.sandbox.set_faults([{**ENDPOINT, "kind": "lose", "companies": ["".join(lost[:2])]}])
    progress = desk.apply(plan)
    assert statuses(progress) == {lost: "unknown", kept: "added"}
    desk.sandbox.set_faults([])
    before = desk.sent()
    assert statuses(desk.apply(plan)) == {lost: "added", kept: "added"}
    assert desk.sent() == before + 1


@pytest.mark.parametrize("status", [429, 503])
def test_refusals_that_pass_are_waited_for(desk: Desk, status):
    contacts = contacts_of(120)
    desk.sandbox.set_faults([{**ENDPOINT, "kind": "status", "status": status, "seen": [1]}])
    progress = desk.apply(desk.plan(contacts))
    assert set(statuses(progress).values()) == {"added"}
    assert {one.lost_count for one in progress.standings.values()} == {0 if status == 429 else 1}
    assert desk.lacking(contacts) == 0


def test_a_contact_that_makes_its_request_fail_harms_no_other(desk: Desk):
    contacts = contacts_of(60)
    poison = contacts[37]
    desk.sandbox.set_faults([{**ENDPOINT, "kind": "status", "status": 400, "companies": ["".join(poison[:2])]}])
    progress = desk.apply(desk.plan(contacts))
    assert {contact for contact, status in statuses(progress).items() if status != "added"} == {poison}
    assert progress.standings[poison].status == "failed"
    assert "400" in progress.standings[poison].message


def test_where_everything_is_refused_the_settings_are_wrong_and_it_stops_soon(desk: Desk):
    desk.sandbox.set_faults([{**ENDPOINT, "kind": "status", "status": 400}])
    plan = desk.plan(contacts_of(100))
    with pytest.raises(RequestRefusedError, match=r"for list 1002 \(.*400.*api\.names"):
        desk.apply(plan)
    assert desk.sent() < 15


def test_a_list_that_goes_while_it_is_added_to_ends_it(desk: Desk):
    desk.sandbox.set_faults([{**ENDPOINT, "kind": "change_lists", "change": "vanish", "list": 1002}])
    plan = desk.plan(contacts_of(101))
    with pytest.raises(RequestRefusedError, match=r"and 50 others for list 1002 .*404.*service-lists"):
        desk.apply(plan)
    assert desk.sent() == 1
    with pytest.raises(UsageError, match="no list 1002"):
        desk.apply(plan)
    assert desk.sent() == 1


@pytest.mark.parametrize(
    ("status", "message", "outcome"),
    [
        (404, "Contact not found", ("failed", "Contact not found")),
        (404, "Company {number} does not exist", ("failed", "404")),
        (409, "Contact already in list", ("added", "")),
    ],
)
def test_a_refusal_that_is_about_a_contact_ends_nothing_for_the_others(desk: Desk, status, message, outcome):
    contacts = contacts_of(6)
    odd = contacts[2]
    said = message.format(number=odd.company_number)
    fault = {"kind": "status", "status": status, "message": said, "companies": ["".join(odd[:2])]}
    desk.sandbox.set_faults([{**ENDPOINT, **fault}])
    progress = desk.apply(desk.plan(contacts))
    assert {contact for contact, found in statuses(progress).items() if found == "added"} >= {*contacts} - {odd}
    assert progress.standings[odd].status == outcome[0]
    assert outcome[1] in progress.standings[odd].message


def test_contacts_that_the_list_has_already_are_no_sign_of_wrong_settings(desk: Desk):
    fault = {"kind": "status", "status": 409, "message": "Contact already in list"}
    desk.sandbox.set_faults([{**ENDPOINT, **fault}])
    assert desk.apply(desk.plan(contacts_of(6))).counts()["added"] == 6


def test_adding_needs_no_credits_and_a_402_all_the_same_loses_nothing(desk: Desk):
    desk.sandbox.set_options(credits=0)
    contacts = contacts_of(101)
    plan = desk.plan(contacts)
    desk.sandbox.set_faults([{**ENDPOINT, "kind": "status", "status": 402, "nth": [2]}])
    with pytest.raises(Stopped, match="402"):
        desk.apply(plan)
    assert ledger(desk)["added"] == 51
    desk.sandbox.set_faults([])
    assert set(statuses(desk.apply(plan)).values()) == {"added"}
    assert desk.lacking(contacts) == 0


@pytest.mark.parametrize(
    ("field", "literal", "expected", "remarks"),
    [
        ("success", "false", {"failed": 2}, []),
        ("message", '"7 contacts added"', {"added": 2}, ["other_count"]),
        ("message", "null", {"added": 2}, []),
        ("failed", '[{"companyIdentifier":{"country":"NL","companyNumber":"24202194"},"contacts":null,"message":"x"}]',
         {"added": 2}, ["foreign_element"]),
        ("failed", '[{"companyIdentifier":null}]', {"unknown": 2}, ["foreign_element"]),
        ("failed", "null", {"added": 2}, []),
        ("success", '"true"', {"added": 2}, []),
        pytest.param("success", '"yes"', {"unknown": 2}, [], marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_answers_that_are_not_as_they_should_be_are_handled_and_reported(desk, field, literal, expected, remarks):
    desk.sandbox.set_faults([{**ENDPOINT, "kind": "drift", "field": field, "change": "literal", "literal": literal}])
    progress = desk.apply(desk.plan(contacts_of(2)))
    assert Counter(statuses(progress).values()) == expected
    assert sorted({remark.kind for remark in progress.remarks}) == remarks


def test_what_an_answer_leaves_unclear_is_sent_apart(desk: Desk):
    """Two answers tell of a company that cannot be told; those to its halves do not."""
    contacts = contacts_of(20)
    failure = {"companyIdentifier": {"country": "BE", "companyNumber": "x"}, "message": "Company not found"}
    fault = {"kind": "drift", "field": "failed", "change": "literal", "literal": json.dumps([failure])}
    desk.sandbox.set_faults([{**ENDPOINT, **fault, "nth": [1, 2]}])
    assert desk.apply(desk.plan(contacts)).counts()["added"] == 20
    assert desk.sent() == 4


def test_where_no_answer_can_be_read_it_is_not_asked_of_each_contact_alone(desk: Desk):
    desk.sandbox.set_faults(
        [
            {
                **ENDPOINT,
                "kind": "drift",
                "field": "failed",
                "change": "literal",
                "literal": '[{"companyIdentifier":null}]',
            }
        ]
    )
    assert desk.apply(desk.plan(contacts_of(40))).counts()["unknown"] == 40
    assert desk.sent() < 20


def test_where_the_service_answers_without_a_body_nothing_is_sent_a_second_time(desk: Desk, monkeypatch):
    exchange = Connection.exchange

    def without_body(self, request, attempt):
        answer = exchange(self, request, attempt)
        return msgspec.structs.replace(answer, status=204, body=b"") if request.method == "PUT" else answer

    monkeypatch.setattr(Connection, "exchange", without_body)
    with pytest.raises(ServiceError, match="answers 204") as caught:
        desk.apply(desk.plan(contacts_of(40)))
    assert "whether list 1002" in caught.value.next_step
    assert desk.sent() == 1


def test_progress_counts_contacts_that_are_settled_whatever_is_sent_for_them(desk: Desk):
    contacts = contacts_of(20)
    poison = "".join(contacts[7][:2])
    desk.sandbox.set_faults([{**ENDPOINT, "kind": "status", "status": 400, "companies": [poison]}])
    counter = Counted(len(contacts), desk.settings.api, "contacts")
    desk.apply(desk.plan(contacts), on_answer=counter.count)
    assert counter.answered < desk.sent()
    assert "19 of 20 contacts, " in counter.line()  # no answer settles the other


def test_the_status_names_what_is_open_and_how_to_settle_it(desk: Desk):
    contacts = contacts_of(101)
    plan = desk.plan(contacts)
    desk.sandbox.set_faults([{**ENDPOINT, "kind": "status", "status": 402, "nth": [2]}])
    with pytest.raises(Stopped):
        desk.apply(plan)
    path = desk.folders.additions / f"plan={plan.plan_id}" / "plan.json"
    assert read_status(desk.folders).next_step == f"`firmlake contacts apply {path}` settles 50 contacts of list 1002"
    desk.sandbox.set_faults([])
    desk.apply(read_plan(path))
    assert read_status(desk.folders).open_contacts is None


def test_a_plan_whose_list_became_another_is_refused_before_any_write(desk: Desk):
    plan = desk.plan(contacts_of(1))
    for other in (
        msgspec.structs.replace(plan, list_name="another name"),
        msgspec.structs.replace(plan, list_id=1001),
        msgspec.structs.replace(plan, list_id=999),
    ):
        with pytest.raises(UsageError):
            desk.apply(other)
    assert desk.sent() == 0
    assert not desk.folders.additions.exists()


def test_what_another_plan_added_meanwhile_is_not_sent_again(desk: Desk):
    first, second = desk.plan(contacts_of(2)), desk.plan(contacts_of(3))
    desk.apply(first)
    progress = desk.apply(second)
    assert list(statuses(progress)) == contacts_of(1, start=2)
    assert (progress.counts()["added"], progress.counts()["pending"]) == (3, 0)
    assert ledger(desk) == {"added": 3}


@pytest.mark.slow
def test_what_was_unknown_and_added_by_another_plan_is_no_longer_open(desk: Desk):
    contacts = contacts_of(2)
    first, second = desk.plan(contacts), desk.plan(contacts)
    desk.sandbox.set_faults([{**ENDPOINT, "kind": "lose"}])
    assert desk.apply(first).counts()["unknown"] == 2
    desk.sandbox.set_faults([])
    desk.apply(second)
    before = desk.sent()
    for progress in (desk.apply(first), list_applied(desk.folders)[0]):
        assert progress.counts() == {**dict.fromkeys(progress.counts(), 0), "added": 2}
        assert progress.lacking() == []
    assert desk.sent() == before


class CrashError(Exception):
    pass


@pytest.mark.parametrize("place", [2, 3, *(pytest.param(place, marks=pytest.mark.slow) for place in (0, 1))])
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
    assert set(statuses(desk.apply(plan)).values()) == {"added"}
    assert ledger(desk) == {"added": 120}
    assert desk.sent() <= 3
    assert desk.lacking(contacts) == 0


def test_a_request_whose_answer_never_landed_counts_as_lost(desk: Desk, monkeypatch):
    plan = desk.plan(contacts_of(1))
    append = SegmentWriter.append

    def crash(self, header, body=b""):
        if header.dataset == "contacts" and header.kind == "answer":
            raise CrashError
        append(self, header, body)

    with monkeypatch.context() as patch:
        patch.setattr(SegmentWriter, "append", crash)
        with pytest.raises(CrashError):
            desk.apply(plan)
    progress = open_applied(desk.folders, plan.plan_id)
    assert progress
    (standing,) = progress.standings.values()
    assert (standing.status, standing.sent_count, standing.lost_count) == ("unknown", 1, 1)
    (standing,) = desk.apply(plan).standings.values()
    assert (standing.status, standing.sent_count, standing.lost_count) == ("added", 2, 1)


def test_the_token_is_in_no_landed_file(desk: Desk):
    desk.apply(desk.plan(contacts_of(1)))
    files = [path for path in desk.folders.data.rglob("*") if path.is_file()]
    assert not [path for path in files if b"Bearer" in path.read_bytes()]
    assert json.loads((next(desk.folders.additions.glob("*/plan.json"))).read_text())["content"]["list_id"] == 1002
