"""A plan says exactly what would be added, within the service's limits, and is believed only as it was written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.core.errors import UsageError
from firmlake.core.files import write_json
from firmlake.core.settings import ApiSettings
from firmlake.service_lists.apply import plan_contacts
from firmlake.service_lists.contacts import Contact, ContactList, Refused, pack_requests, read_plan, spread
from firmlake.terminal.service_lists import next_step

from .support import FOUND, MISSING, STATIC, Desk, contacts_of, now


@given(
    st.lists(st.integers(1, 60), max_size=30),
    st.integers(1, 7),
    st.integers(1, 9),
)
def test_requests_hold_each_contact_once_within_both_limits_and_are_as_few_as_can_be(sizes, companies, each):
    contacts = [Contact("NL", f"{n:08}", str(i)) for n, size in enumerate(sizes) for i in range(size)]
    api = ApiSettings(contact_companies_per_request=companies, contacts_per_company=each)
    packed = pack_requests(contacts, api)
    assert Counter(one for entries in packed for one in spread(entries)) == Counter(contacts)
    for entries in packed:
        assert 1 <= len(entries) <= companies
        assert len({(one.country, one.company_number) for one in entries}) == len(entries)
        assert all(1 <= len(one.contacts) <= each for one in entries)
    pieces = [-(-size // each) for size in sizes]
    assert len(packed) == max(-(-sum(pieces) // companies), max(pieces, default=0))


def test_a_plan_sends_nothing_and_holds_the_list_as_it_was(desk: Desk):
    fault = {"endpoint": "lists.overview", "kind": "drift", "field": "type", "change": "literal"}
    desk.sandbox.set_faults([{**fault, "literal": '"static"'}])
    assert desk.plan(contacts_of(1)).list_type == "static", "in lower case too"
    desk.sandbox.set_faults([])
    plan = desk.plan(contacts_of(3, 2))
    assert desk.sent() == 0
    assert (plan.list_id, plan.list_type, plan.service) == (STATIC, "STATIC", desk.settings.api.base_url)
    assert plan.list_name.endswith(str(STATIC))
    assert sorted(plan.contacts()) == sorted(contacts_of(3, 2))


def test_what_was_added_is_left_out_for_that_list_only(desk: Desk):
    first, both = contacts_of(2), contacts_of(4)
    desk.apply(desk.plan(first))
    plan = desk.plan(both)
    assert sorted(plan.contacts()) == sorted(set(both) - set(first))
    assert sorted(spread(plan.already_added)) == sorted(first)
    assert sorted(desk.plan(both, 1004).contacts()) == sorted(both)


def test_redrive_takes_up_what_may_succeed_and_on_demand_what_was_not_found(desk: Desk):
    good, absent = contacts_of(1), [Contact(*MISSING, "1"), Contact(*FOUND[0], "10")]
    progress = desk.apply(desk.plan([*good, *absent]))
    assert desk.failed() == []
    assert "redrive --service-list 1002 --also-not-found`" in next_step(progress, desk.settings.api.names)
    assert sorted(desk.failed(also_not_found=True)) == sorted(absent)
    again = desk.apply(desk.plan(desk.failed(also_not_found=True)))
    assert again.counts() | {"failed": 1, "company_failed": 1} == again.counts()
    assert desk.sent() == 2


def test_a_refusal_after_a_lost_answer_may_mean_that_the_contact_is_there(desk: Desk):
    endpoint = {"endpoint": "lists.contacts"}
    refused = {**endpoint, "kind": "status", "status": 409, "message": "Already there", "nth": [2]}
    desk.sandbox.set_faults([{**endpoint, "kind": "lose", "nth": [1]}, refused])
    step = next_step(desk.apply(desk.plan(contacts_of(1))), desk.settings.api.names)
    assert "set api.names.contact_present_message" in step


def test_a_plan_file_is_read_as_it_was_written_and_not_otherwise(desk: Desk, tmp_path):
    path, plan = tmp_path / "plan.json", desk.plan(contacts_of(2))
    write_json(path, plan)
    assert read_plan(path) == plan
    text = path.read_text()
    path.write_text(msgspec.json.format(text, indent=0))  # layout does not count
    assert read_plan(path) == plan
    for changed in (text.replace(f'"list_id": {STATIC}', '"list_id": 1004'), text[:-20], '{"sha256": 1}'):
        assert changed != text
        path.write_text(changed)
        with pytest.raises(UsageError, match="cannot be read"):
            read_plan(path)
    with pytest.raises(UsageError, match="No such file"):
        read_plan(tmp_path / "none")


@pytest.mark.parametrize(("kept", "text"), [("all", "Jan Peeters"), ("none", ""), ("land", "")])
def test_a_plan_keeps_of_refused_lines_what_the_setting_for_columns_allows(tmp_path, sandbox, monkeypatch, kept, text):
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    sandbox.set_options(lists=20)
    desk = Desk(tmp_path, sandbox, intake__keep_columns=kept)
    contacts = ContactList(Path("contacts.csv"), contacts_of(1), [Refused(3, "Jan Peeters", "no number")])
    plan = plan_contacts(desk.settings, contacts, STATIC, "tests", now)
    assert plan.refused == (Refused(3, text, "no number"),)
