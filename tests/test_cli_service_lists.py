"""service-lists and contacts on the command line: what they print, their exit codes, and what they leave alone."""

from __future__ import annotations

import pytest

from firmlake.core.work import lock
from lake import Lake
from service_lists.support import SMART, STATIC, UNKNOWN, contacts_of


class Contacts(Lake):
    """A lake on a service with few lists, with a file of contacts and a plan."""

    def write_contacts(self, count, *lines):
        rows = [f"{one.country},{one.company_number},{one.contact_id}" for one in contacts_of(count)]
        (self.folder / "contacts.csv").write_text("\n".join(["country,company_number,contact_id", *rows, *lines]))

    @property
    def plan_file(self):
        return self.folder / "my plan.json"

    def plan(self, *options, list_id=STATIC):
        to = ("--list", str(list_id), "--out", str(self.plan_file))
        return self.call("contacts", "plan", str(self.folder / "contacts.csv"), *to, *options)

    def apply(self, *options):
        return self.call("contacts", "apply", str(self.plan_file), "--json", *options)

    def puts(self):
        return sum(self.ledger()["by_endpoint"].get("lists.contacts", {}).values())


@pytest.fixture
def lake(tmp_path, sandbox):
    sandbox.set_options(lists=20)
    lake = Contacts(tmp_path / "lake", sandbox, 1)
    lake.write_contacts(1)
    return lake


def test_plan_then_apply_then_nothing(lake):
    lake.write_contacts(3, "BE,0403227516,1", "BE,0403227515,10")
    planned = lake.plan("--json")
    assert planned.code == 0
    facts = [planned.content[name] for name in ("to_add_count", "company_count", "request_count", "guesses")]
    assert facts == [4, 4, 1, []]
    assert [one["line"] for one in planned.content["refused"]] == [5]
    assert lake.puts() == 0
    for _ in range(2):
        applied = lake.apply()
        assert (applied.code, applied.content["counts"]["added"]) == (3, 3)
        assert applied.content["not_added"][0]["message"] == "Contact not found"
        assert "1 of 4 contacts was not added." in applied.error_line
        assert "--also-not-found" in applied.error_line
    assert lake.puts() == 1
    (status,) = lake.call("contacts", "status", "--json").content
    assert status["counts"] == applied.content["counts"]
    redriven = lake.call("contacts", "redrive", "--list", str(STATIC), "--json")
    assert (redriven.code, redriven.content.keys()) == (0, planned.content.keys())
    assert lake.call("verify").code == 0


def test_a_plan_names_the_command_that_applies_it_and_one_without_contacts_asks_nobody_to(lake):
    planned = lake.plan("--data", str(lake.data))
    assert f"To add the contacts: `firmlake contacts apply '{lake.plan_file}' --data {lake.data}`" in planned.out
    assert lake.apply().code == 0
    assert lake.plan().out.splitlines()[-1] == "There is nothing to add"


def test_what_was_assumed_about_the_file_is_stated_with_the_plan_and_columns_can_be_mapped(lake):
    path = lake.folder / "contacts.csv"
    path.write_text("Ondernemingsnr,contact\n0403.227.515,7\n")
    assert "column 'Ondernemingsnr' (0403.227.515) as Belgian" in lake.plan().out
    assert "0403.227.515" not in lake.plan_file.read_text(), "what was guessed is not kept"
    path.write_text("land,nummer,wie\nBE,0403227515,7\n")
    refused = lake.plan()
    assert (refused.code, "--map contact=COLUMN" in refused.error_line) == (2, True)
    mapped = lake.plan("--map", "contact=wie", "--json")
    assert (mapped.code, mapped.content["to_add_count"]) == (0, 1)
    assert lake.plan("--map", "contact=wie", "--set", "intake.contact_column=nobody").code == 2, "--set comes first"


@pytest.mark.parametrize("list_id", [SMART, UNKNOWN])
def test_a_smart_or_unknown_list_ends_with_2_before_any_write(lake, list_id):
    assert lake.plan(list_id=list_id).code == 2
    assert (lake.plan_file.exists(), lake.puts()) == (False, 0)


def test_a_plan_that_is_changed_stale_or_for_another_service_ends_with_2_and_another_run_keeps_all_out(lake):
    lake.plan()
    with lock(lake.folders, "somebody"):
        assert {lake.plan().code, lake.apply().code, lake.call("service-lists").code} == {7}
    for wrong in ("lists.plan_max_age_hours=0", "api.base_url=https://api.example.com"):
        assert lake.apply("--set", wrong).code == 2
    lake.plan_file.write_text(lake.plan_file.read_text().replace("1002", "1004"))
    assert (lake.apply().code, lake.puts()) == (2, 0)


def test_service_lists_shows_all_and_fills_the_tables(lake):
    shown = lake.call("service-lists")
    assert shown.code == 0
    assert "20 lists (12 static, 8 smart), read 1 time" in shown.out
    assert len(lake.call("service-lists", "--type", "smart", "--json").content["lists"]) == 8
    assert lake.query("SELECT count(*) FROM service_lists") == [(20,)]
    assert "example.com" not in "".join(lake.said)
    assert not [path for path in lake.data.rglob("*") if path.is_file() and b"example.com" in path.read_bytes()]
