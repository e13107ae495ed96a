"""The flows about the service's lists: an overview with its events, and contacts that wait for a person."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import firmlake_sandbox
from firmlake_sandbox import Sandbox

from .conftest import FlowRun, _look_up
from .support import FLOWS, ask_server, settings_for, wait_until

STATIC, SMART = 1002, 1001
Run = Callable[..., FlowRun]


@pytest.fixture
def run(enrich, prefect_server: str, sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a flow by its name; `enrich` has set up what flows need."""
    from prefect.flows import load_flow_from_entrypoint

    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    sandbox.set_options(lists=20)

    def run(name: str, *arguments: object, list_id: int | None = None, **settings: object) -> FlowRun:
        flow = load_flow_from_entrypoint(f"{FLOWS / name}.py:{name}")
        overrides = settings_for(sandbox, tmp_path / "data", **settings)
        given = {} if list_id is None else {"list_id": list_id}
        return _look_up(prefect_server, flow(*arguments, **given, overrides=overrides, return_state=True))

    return run


@pytest.fixture
def contacts(tmp_path: Path) -> Path:
    path = tmp_path / "contacts.csv"
    lines = [f"{country},{number},11" for country, number in firmlake_sandbox.sample_numbers(3, seed=5)]
    path.write_text("\n".join(["country,company_number,contact_id", *lines]))
    return path


def puts(sandbox: Sandbox) -> int:
    return sum(sandbox.ledger(summary=True)["summary"]["by_endpoint"].get("lists.contacts", {}).values())


@pytest.mark.slow
def test_the_overview_shows_what_changed_on_the_page_of_its_run(run: Run, sandbox: Sandbox):
    assert run("service_lists").state == "Completed"
    sandbox.set_faults([{"kind": "change_lists", "change": "vanish", "list": STATIC, "times": 1}])
    second = run("service_lists")
    assert second.message == "19 lists (11 static, 8 smart), read 1 time"
    (event,) = json.loads(second.artifacts["service-lists-changes"])
    assert (event["list_id"], event["kind"]) == (STATIC, "list_gone")


@pytest.mark.slow
def test_contacts_are_planned_shown_and_added(run: Run, contacts: Path, sandbox: Sandbox, tmp_path: Path):
    done = run("add_contacts", str(contacts), list_id=STATIC)
    assert (done.state, done.message) == ("Completed", f"3 contacts added to list {STATIC}")
    assert "To add: 3 contacts of 3 companies in 1 request" in done.artifacts["add-contacts-plan"]
    assert (tmp_path / "data/plans" / f"{done.error}.json").exists()
    with contacts.open("a") as file:
        file.write("\nBE,0403227515,10\n")
    partly = run("add_contacts", str(contacts), list_id=STATIC)
    assert (partly.state, partly.error.exit_code) == ("Failed", 3)
    assert [row["contact_id"] for row in json.loads(partly.artifacts["add-contacts-failures"])] == ["10"]
    assert puts(sandbox) == 2


def test_a_smart_list_fails_before_any_write(run: Run, contacts: Path, sandbox: Sandbox):
    refused = run("add_contacts", str(contacts), list_id=SMART)
    assert (refused.state, refused.error.exit_code) == ("Failed", 2)
    assert puts(sandbox) == 0


@pytest.mark.slow
@pytest.mark.parametrize("is_approved", [True, False])
def test_nothing_is_added_before_a_person_approves(run: Run, contacts, sandbox, prefect_server, is_approved):
    answered = threading.Event()
    answerer = threading.Thread(target=_answer, args=(prefect_server, sandbox, is_approved, answered))
    answerer.start()
    ended = run("add_contacts", str(contacts), list_id=STATIC, lists__needs_approval="true")
    answerer.join()
    assert answered.is_set()
    assert ended.state == ("Completed" if is_approved else "Failed")
    assert puts(sandbox) == int(is_approved)
    if not is_approved:
        assert ended.error.exit_code == 4
        assert ended.message.startswith("The plan was not approved by Zoë")


def _answer(api: str, sandbox: Sandbox, is_approved: bool, answered: threading.Event) -> None:
    """Answer as the form in Prefect's interface does, once the flow waits."""
    import httpx

    def post(path: str, content: Any) -> httpx.Response | None:
        answer = ask_server("POST", f"{api}/{path}", content)
        return None if answer.status_code >= 500 else answer  # its database is busy: Prefect's own clients ask again

    def ask(path: str, content: Any) -> Any:
        return wait_until(lambda: post(path, content)).raise_for_status().json()

    states = {"flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}}, "flows": {"name": {"any_": ["add-contacts"]}}}
    (paused,) = wait_until(lambda: ask("flow_runs/filter", states))
    assert puts(sandbox) == 0
    answer = {"run_input": {"approve": is_approved, "name": "Zoë"}}
    # The run is paused a moment before its form is there: Prefect rejects answers until then.
    wait_until(lambda: ask(f"flow_runs/{paused['id']}/resume", answer)["status"] == "ACCEPT")
    answered.set()
