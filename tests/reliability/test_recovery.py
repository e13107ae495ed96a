"""Whatever ends a command, kill -9, a signal or a second run, the same command goes on, and nothing is paid twice."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from delivery.conftest import add_week
from delivery.reading import follow
from firmlake.core.folders import Folders
from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder
from lake import Lake, wait_until
from service_lists.support import STATIC, contacts_of
from support import export

from .support import KILLED, assert_whole, faults, sized

COUNT, BUDGET = 60, 20
THREADS = 4
"""Requests at once at most: what a kill -9 can lose."""


def killed(lake: Lake, instant: object, *command: str) -> bool:
    """Kill a command at an instant; whether it had not ended before."""
    ended = lake.end(lake.start(*command, code=(str(KILLED), str(instant))))
    assert ended.code in (0, 4, -signal.SIGKILL), ended.err
    return ended.code == -signal.SIGKILL


@pytest.mark.parametrize("case", sized([(0, 1)], [(seed, 4) for seed in range(1, 72)]))
@pytest.mark.slow
def test_a_run_killed_at_changes_of_files_again_and_again_is_ended(case, sandbox, make_lake, undisturbed):
    seed, kills = case
    expected, chance = undisturbed(400, shard_companies=100), random.Random(seed)
    lake = make_lake(400, run__shard_companies=100)
    count = sum(killed(lake, chance.randrange(1, 320), "run", str(lake.list)) for _ in range(kills))
    assert count
    assert lake.run().code == 0
    assert lake.ledger()["requests"] <= expected.requests + count * THREADS
    assert_whole(lake, expected)


class Scene(NamedTuple):
    """What the same call does after a kill.

    Attributes:
        requests: How many requests both calls may send beyond those of an undisturbed run.
        is_over: Whether the killed call had done all that it was called for, so that a budget is free again.
        is_left: Whether the run has no end, so that it belongs to its list; one with an end only lacks its load.
    """

    requests: int = 0
    is_over: bool = False
    is_left: bool = True


SCENES = {
    "begun": Scene(),
    "in an answer": Scene(requests=2),  # in flight
    "after the last answer": Scene(),
    "ended": Scene(is_left=False),
    "loaded": Scene(is_over=True, is_left=False),
}


@pytest.mark.parametrize("instant", sized(["in an answer"], SCENES))
def test_the_same_call_ends_a_killed_run_under_its_number_and_pays_for_nothing_twice(instant, make_lake, undisturbed):
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    assert killed(lake, instant, "run", str(lake.list))
    assert lake.run().code == 0
    assert expected.requests <= lake.ledger()["requests"] <= expected.requests + SCENES[instant].requests
    assert lake.query("SELECT count(*) FROM runs") == [(1,)]
    assert lake.call("status", "--json").content["unfinished"] == []
    assert_whole(lake, expected)


@pytest.mark.parametrize("instant", sized(["after the last answer"], SCENES))
@pytest.mark.slow
def test_a_budget_holds_for_the_killed_call_and_the_one_that_ends_it(instant, make_lake, undisturbed):
    scene, expected = SCENES[instant], undisturbed(COUNT)
    lake = make_lake(COUNT)
    assert killed(lake, instant, "run", str(lake.list), "--max-credits", str(BUDGET))
    assert lake.run("--max-credits", str(BUDGET)).code == 4
    assert lake.ledger()["credits_charged"] <= BUDGET * (1 + scene.is_over)
    assert lake.query("SELECT count(*) FROM runs") == [(1 + scene.is_over,)]
    assert lake.run().code == 0
    assert_whole(lake, expected)


@pytest.mark.parametrize("instant", sized([], SCENES))
def test_another_list_loads_what_ended_and_leaves_alone_what_did_not(instant, make_lake, undisturbed):
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    assert killed(lake, instant, "run", str(lake.list))
    other = lake.folder / "other.csv"
    other.write_text("\n".join(lake.list.read_text().splitlines()[:4]))
    assert lake.call("run", str(other)).code == 0
    assert len(lake.call("status", "--json").content["unfinished"]) == SCENES[instant].is_left
    assert lake.run().code == 0
    ledger = lake.ledger()
    assert (ledger["companies_charged_again"], ledger["credits_charged"]) == (0, expected.charged)
    assert lake.call("verify").code == 0


@pytest.mark.reliability
@pytest.mark.parametrize("moment", range(1, 46, 2))
def test_a_killed_apply_is_finished_by_the_next_and_each_contact_is_added_once(moment, sandbox, make_lake):
    """Killed at its n-th change of a file, of about 47."""
    sandbox.set_options(lists=20)
    lake, contacts = make_lake(1), contacts_of(230)
    file, plan = lake.folder / "contacts.csv", str(lake.folder / "p.json")
    rows = [f"{one.country},{one.company_number},{one.contact_id}" for one in contacts]
    file.write_text("\n".join(["country,company_number,contact_id", *rows]))
    make_plan = ("contacts", "plan", str(file), "--list", str(STATIC), "--out", plan, "--json")
    assert lake.call(*make_plan).code == 0
    assert killed(lake, moment, "contacts", "apply", plan)
    finished = lake.call("contacts", "apply", plan, "--json")
    assert (finished.code, finished.content["counts"]["added"]) == (0, len(contacts)), finished.err
    assert lake.query("SELECT status, count(*) FROM contact_additions GROUP BY ALL") == [("added", len(contacts))]
    assert sum(lake.ledger()["by_endpoint"]["lists.contacts"].values()) <= 4
    again = lake.call(*make_plan).content
    assert (again["to_add_count"], again["already_added_count"]) == (0, len(contacts))
    assert lake.call("verify").code == 0
    assert lake.strays() == []


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder of one generation that was exported, and then a second generation."""
    folders = Folders(tmp_path_factory.mktemp("lake") / "data")
    add_week(folders, 0)
    first = export(folders, Request(), Folder(folders.data / "out")).record
    add_week(folders, 1)
    return folders, first


@pytest.mark.reliability
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["whole", "changes"])
def test_readers_of_a_killed_export_see_the_one_before_or_the_new_one(exported, sandbox, tmp_path, mode):
    (folders, first), chance, target = exported, random.Random(mode), tmp_path / "out"
    lake, flags = Lake(tmp_path / "shell", sandbox, 1, paths__data=folders.data), ["--changes"] * (mode == "changes")

    def copied(to: Path) -> Folder:
        subprocess.run(["rm", "-rf", str(to)], check=True)
        subprocess.run(["cp", "-a", str(folders.data / "out"), str(to)], check=True)
        return Folder(to)

    expected = export(folders, Request(mode=mode), copied(tmp_path / "undisturbed")).record
    kills = 0
    for _ in range(8):
        copied(target)
        kills += killed(lake, chance.randrange(1, 330), "export", str(target), *flags)
        assert follow(target)[1].delivery_id in (first.delivery_id, expected.delivery_id)
        assert lake.end(lake.start("export", str(target), *flags)).code == 0
        assert follow(target)[1] == expected
        assert not [path for path in folders.state.iterdir() if path.name not in ("lock", "exports")]
    assert kills > 2


MOMENTS = {
    **{f"{part / 13:.2f} s after its lock": ({"kind": "delay", "seconds": 0.1}, part / 13) for part in range(20)},
    **{f"{part / 80:.2f} s after fetching": ({}, part / 80) for part in range(0, 40, 2)},
    "while the service hangs": ({"kind": "hang", "nth": [2, 3, 4, 5, 6, 7, 8]}, 0),
}


@pytest.mark.parametrize("moment", sized([], MOMENTS))
def test_a_signal_ends_a_run_within_ten_seconds_and_the_next_goes_on(moment, sandbox, make_lake, undisturbed):
    rule, seconds = MOMENTS[moment]
    expected, number = undisturbed(COUNT), random.Random(moment).choice([signal.SIGINT, signal.SIGTERM])
    lake = make_lake(COUNT)
    with faults(sandbox, *([rule] if rule else [])):
        process = lake.start("run", str(lake.list))
        if "fetching" in moment:
            while not process.stderr.readline().startswith("Fetched"):
                assert process.poll() is None
        else:
            wait_until(lambda: (lake.data / "state/lock").exists())
        if "hangs" in moment:
            wait_until(lambda: lake.ledger()["requests"] >= 2)
        time.sleep(seconds)
        process.send_signal(number)
        began = time.monotonic()
        result = lake.end(process, 15)
    assert time.monotonic() - began < 10
    assert result.code in (128 + number, *([] if "hangs" in moment else [0])), result.err
    assert "Traceback" not in result.err
    assert result.code == 0 or "run again to continue" in result.err
    assert lake.run().code == 0
    assert_whole(lake, expected)


@pytest.mark.parametrize("start", sized([], range(51)))
def test_of_two_runs_started_at_once_one_works_and_the_other_names_it(start, sandbox, make_lake, undisturbed):
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    with faults(sandbox, {"kind": "delay", "seconds": 0.3}):
        both = [lake.start("run", str(lake.list)) for _ in range(2)]
        results = [lake.end(process) for process in both]
    assert sorted(result.code for result in results) == [0, 7], [result.err for result in results]
    refused = next(result for result in results if result.code == 7)
    assert any(f"process {process.pid} " in refused.error_line for process in both), refused.err
    assert lake.ledger()["requests"] == expected.requests
    assert_whole(lake, expected)


@pytest.mark.parametrize("number", sized([signal.SIGKILL], [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
def test_the_embedded_service_ends_with_the_run_that_started_it(number, make_lake):
    lake = make_lake(COUNT, api__base_url="sandbox", api__requests_per_minute=3)
    process = lake.start("run", str(lake.list))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(
        lambda: any(lake.data.glob("landing/*/*/*.zst")) and children.read_text()
    )  # the log begins before the service
    begun = children.read_text().split()
    process.send_signal(number)
    lake.end(process, 15)
    wait_until(lambda: not any(map(_runs, begun)), 10)


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
