"""A table of the instants at which a kill leaves something else on disk: what the same call costs then, and gives."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from .support import Lake, assert_whole, sized

COUNT = 60
BUDGET = 20


class Scene(NamedTuple):
    """What the same call does after a kill.

    Attributes:
        requests: How many requests both calls may send beyond those of an undisturbed run.
        runs: The runs in the warehouse afterwards.
        is_over: Whether the killed call had done all that it was called for, so that a budget is free again.
    """

    requests: int = 0
    runs: int = 1
    is_over: bool = False


SCENES = {
    "begun": Scene(),
    # Two in flight are lost; companies that the answer calls unknown are asked again, in a shard with three datasets.
    "in an answer": Scene(requests=2 + 3),
    "after the last answer": Scene(),
    "ended": Scene(),
    "loaded": Scene(is_over=True),
}


def killed(lake: Lake, instant: str, *options: str) -> None:
    code = (str(Path(__file__).with_name("killed_at.py")), instant)
    assert lake.end(lake.start("run", str(lake.list), *options, code=code)).code == -signal.SIGKILL


@pytest.mark.parametrize("instant", sized(["in an answer", "ended"], SCENES))
def test_the_same_call_ends_a_killed_run_under_its_number_and_pays_for_nothing_twice(instant, make_lake, undisturbed):
    scene, expected = SCENES[instant], undisturbed(COUNT)
    lake = make_lake(COUNT)
    killed(lake, instant)
    result = lake.run()
    assert result.code == 0, result.err
    assert expected.requests <= lake.ledger()["requests"] <= expected.requests + scene.requests
    assert lake.query("SELECT count(*) FROM runs") == [(scene.runs,)]
    assert lake.call("status", "--json").content["unfinished"] == []
    assert_whole(lake, expected)


@pytest.mark.parametrize("instant", sized(["after the last answer"], SCENES))
def test_a_budget_holds_for_the_killed_call_and_the_one_that_ends_it(instant, make_lake, undisturbed):
    scene, expected = SCENES[instant], undisturbed(COUNT)
    lake = make_lake(COUNT)
    killed(lake, instant, "--max-credits", str(BUDGET))
    assert lake.run("--max-credits", str(BUDGET)).code == 4
    assert lake.ledger()["credits_charged"] <= BUDGET * (1 + scene.is_over)
    assert lake.query("SELECT count(*) FROM runs") == [(scene.runs + scene.is_over,)]
    assert lake.run().code == 0
    assert_whole(lake, expected)


@pytest.mark.parametrize("instant", sized([], SCENES))
def test_another_list_loads_what_ended_and_leaves_alone_what_did_not(instant, make_lake, undisturbed):
    """A run without an end belongs to its list; one with an end only lacks its load."""
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    killed(lake, instant)
    other = lake.folder / "other.csv"
    other.write_text("\n".join(lake.list.read_text().splitlines()[:4]))
    assert lake.call("run", str(other)).code == 0
    unfinished = lake.call("status", "--json").content["unfinished"]
    assert len(unfinished) == (instant not in ("ended", "loaded"))
    assert lake.run().code == 0
    assert lake.ledger()["companies_charged_again"] == 0
    assert lake.ledger()["credits_charged"] == expected.charged
    assert lake.call("verify").code == 0
