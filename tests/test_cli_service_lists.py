"""service-lists and contacts on the command line: what they print, their exit codes, and a kill at any moment."""

from __future__ import annotations

import pytest

from firmlake.core.work import lock
from reliability.support import Lake
from service_lists.support import SMART, STATIC, UNKNOWN, contacts_of


@pytest.fixture
def lake(tmp_path, sandbox):
    sandbox.set_options(lists=20)
    return Lake(tmp_path / "lake", sandbox, 1)


def write(lake, contacts, *lines):
    path = lake.folder / "contacts.csv"
    rows = [f"{one.country},{one.company_number},{one.contact_id}" for one in contacts]
    path.write_text("\n".join(["country,company_number,contact_id", *rows, *lines]))
    return str(path)


def plan(lake, file, list_id=STATIC):
    return lake.call("contacts", "plan", file, "--list", str(list_id), "--out", str(lake.folder / "p.json"), "--json")


def apply(lake):
    return lake.call("contacts", "apply", str(lake.folder / "p.json"), "--json")


def puts(lake):
    return sum(lake.ledger()["by_endpoint"].get("lists.contacts", {}).values())


def test_plan_then_apply_then_nothing(lake):
    planned = plan(lake, write(lake, contacts_of(3), "BE,0403227516,1", "BE,0403227515,10"))
    assert planned.code == 0
    assert (planned.content["to_add_count"], planned.content["guesses"]) == (4, [])
    assert [one["line"] for one in planned.content["refused"]] == [5]
    assert puts(lake) == 0
    for _ in range(2):
        applied = apply(lake)
        assert applied.code == 3
        assert applied.content["counts"]["added"] == 3
        assert applied.content["not_added"][0]["message"] == "Contact not found"
        assert "1 of 4 contacts was not added." in applied.error_line
        assert "--also-not-found" in applied.error_line
    assert puts(lake) == 1
    (status,) = lake.call("contacts", "status", "--json").content
    assert status["counts"] == applied.content["counts"]
    redriven = lake.call("contacts", "redrive", "--list", str(STATIC), "--json")
    assert (redriven.code, redriven.content.keys()) == (0, planned.content.keys())
    assert lake.call("verify").code == 0


def test_the_command_that_applies_a_plan_is_quoted_and_names_the_data_folder(lake):
    file, out, data = write(lake, contacts_of(1)), lake.folder / "my plan.json", str(lake.data)
    planned = lake.call("contacts", "plan", file, "--list", str(STATIC), "--out", str(out), "--data", data)
    assert f"To add the contacts: `firmlake contacts apply '{out}' --data {data}`" in planned.out


def test_what_was_assumed_about_the_file_is_stated_with_the_plan_and_not_kept_in_it(lake):
    path = lake.folder / "contacts.csv"
    path.write_text("Ondernemingsnr,contact\n0403.227.515,7\n")
    planned = lake.call("contacts", "plan", str(path), "--list", str(STATIC), "--out", str(lake.folder / "p.json"))
    assert "column 'Ondernemingsnr' (0403.227.515) as Belgian" in planned.out
    assert "0403.227.515" not in (lake.folder / "p.json").read_text()


def test_columns_can_be_mapped_as_the_message_of_a_file_without_them_says(lake):
    path = lake.folder / "contacts.csv"
    path.write_text("land,nummer,wie\nBE,0403227515,7\n")
    refused = plan(lake, str(path))
    assert (refused.code, "--map contact=COLUMN" in refused.error_line) == (2, True)
    out = ("--out", str(lake.folder / "p.json"), "--json")
    mapped = lake.call("contacts", "plan", str(path), "--list", str(STATIC), "--map", "contact=wie", *out)
    assert (mapped.code, mapped.content["to_add_count"]) == (0, 1)
    other = ("--map", "contact=wie", "--set", "intake.contact_column=nobody")
    assert lake.call("contacts", "plan", str(path), "--list", str(STATIC), *other, *out).code == 2, "--set comes first"


def test_a_plan_without_contacts_asks_nobody_to_apply_it(lake):
    file = write(lake, contacts_of(1))
    plan(lake, file)
    apply(lake)
    planned = lake.call("contacts", "plan", file, "--list", str(STATIC), "--out", str(lake.folder / "p.json"))
    assert planned.out.splitlines()[-1] == "There is nothing to add"


@pytest.mark.parametrize("list_id", [SMART, UNKNOWN])
def test_a_smart_or_unknown_list_ends_with_2_before_any_write(lake, list_id):
    assert plan(lake, write(lake, contacts_of(1)), list_id).code == 2
    assert not (lake.folder / "p.json").exists()
    assert puts(lake) == 0


def test_a_plan_that_is_changed_stale_or_for_another_service_ends_with_2(lake):
    plan(lake, write(lake, contacts_of(1)))
    path = lake.folder / "p.json"
    stale = lake.call("contacts", "apply", str(path), "--set", "lists.plan_max_age_hours=0")
    elsewhere = lake.call("contacts", "apply", str(path), "--set", "api.base_url=https://api.example.com")
    path.write_text(path.read_text().replace("1002", "1004"))
    changed = apply(lake)
    assert (stale.code, elsewhere.code, changed.code) == (2, 2, 2)
    assert puts(lake) == 0


def test_another_run_keeps_both_out(lake):
    file = write(lake, contacts_of(1))
    plan(lake, file)
    with lock(lake.folders, "somebody"):
        assert {plan(lake, file).code, apply(lake).code, lake.call("service-lists").code} == {7}


def test_service_lists_shows_all_and_fills_the_tables(lake):
    shown = lake.call("service-lists")
    assert shown.code == 0
    assert "20 lists (12 static, 8 smart), read 1 time" in shown.out
    assert len(lake.call("service-lists", "--type", "smart", "--json").content["lists"]) == 8
    assert lake.query("SELECT count(*) FROM service_lists") == [(20,)]
    assert "example.com" not in "".join(lake.said)
    assert not [path for path in lake.data.rglob("*") if path.is_file() and b"example.com" in path.read_bytes()]
