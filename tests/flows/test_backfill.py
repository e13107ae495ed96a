"""A backfill on a real server with a work pool: killed and started again, nothing is started, paid or lost twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firmlake.core.folders import Folders
from firmlake.warehouse.generations import ask
from firmlake_sandbox import Sandbox
from postgres import serve_postgres

from .support import ByHand, Pool, killed_at_last, settings_for, wait_until, write_list

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LIMIT = 20


@pytest.fixture
def by_hand(tmp_path: Path) -> ByHand:
    return ByHand(tmp_path / "by_hand", "backfill")


def test_a_backfill_that_is_killed_and_started_again_pays_once_and_ends_as_the_worst(
    by_hand: ByHand, real_server: str, sandbox: Sandbox, tmp_path: Path
):
    """Three portfolios, two workers, one allowance; a company of one of them fails."""
    lists, home, archived = tmp_path / "lists", tmp_path / "home", tmp_path / "archive"
    lists.mkdir()
    companies = [write_list(lists / f"{name}.csv", 300, seed) for seed, name in enumerate(("north", "south", "west"))]
    sandbox.set_options(requests_per_minute=LIMIT, rate_limit_kind="sliding-window")
    sandbox.set_faults([{"kind": "status", "endpoint": "lookalikes", "companies": [companies[1][7]], "status": 500}])
    pool = Pool(by_hand, real_server, FIRMLAKE_API_TOKEN=sandbox.token)
    arguments = (str(lists), "--name", "one", "--archive", str(archived))
    by_hand.environment["PREFECT_API_URL"] = real_server

    def runs() -> list[dict[str, Any]]:
        return pool.ask("POST", "flow_runs/filter", {"flow_runs": {"name": {"like_": " of one"}}})

    with serve_postgres() as store, pool.worker("one"), pool.worker("two"):
        shared = {"api__requests_per_minute": LIMIT, "api__throttle_store": store.url, "run__shard_companies": 100}
        settings = settings_for(sandbox, home, **shared)
        with killed_at_last(by_hand.start(*arguments, settings=settings)) as process:
            wait_until(lambda: len(runs()) == 3, what="three runs")
            process.kill()
        ended = by_hand.end(by_hand.start(*arguments, settings=settings), 400)
        assert ended.code == 3, ended.err
        counts = "Backfill one: 1 published, some companies failed, 2 done; south: Published, but 1 company failed"
        assert ended.error.startswith(counts)
        assert len(runs()) == 3, "the second start found the runs of the first"
        summary = sandbox.ledger()["summary"]
        assert summary["busiest_minute"] <= LIMIT
        assert summary["companies_charged_again"] == 0
        of_portfolios = [Folders(home / "portfolios" / name) for name in ("north", "south", "west")]
        held = [ask(each, "SELECT count(*), count(paid_at) FROM companies")[1][0] for each in of_portfolios]
        assert [company_count for company_count, _ in held] == [300, 300, 300]
        assert sum(paid_count for _, paid_count in held) == summary["credits_charged"]
        assert len(list(archived.glob("landing/run=*"))) == 3

        sandbox.set_faults([])
        again = by_hand.end(by_hand.start(*arguments, settings=settings), 400)
        assert again.code == 0, again.err
        names = [run["name"].partition(" ")[0] for run in runs()]
        assert sorted(names) == ["north", "south", "south", "west"], "only what failed was started again"
        assert sandbox.ledger()["summary"]["companies_charged_again"] == 0
