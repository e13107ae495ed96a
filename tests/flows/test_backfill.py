"""A backfill has portfolios that stay; killed and started again, nothing is started or paid twice."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from firmlake.flows.backfill import find_portfolios

from firmlake.core.errors import CompanyListError, DamagedError, FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.settings import PathSettings, Settings
from firmlake.flows import backfill
from firmlake.warehouse.generations import ask
from firmlake_sandbox import sample_numbers
from lake import killed_at_last, wait_until
from postgres import serve_postgres

from .support import Pool

LIMIT = 20


def test_each_file_of_a_folder_is_a_portfolio_and_two_of_one_name_or_none_are_refused(tmp_path):
    settings = Settings(paths=PathSettings(str(tmp_path / "home")))
    (tmp_path / "lists/older").mkdir(parents=True)
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(CompanyListError, match="is no folder with files"):
            find_portfolios(settings, place)
    for name in ("b.csv", "a.xlsx", ".hidden.csv"):
        (tmp_path / "lists" / name).write_text(name)
    portfolios = find_portfolios(settings, tmp_path / "lists")
    assert [(each.name, each.company_list.name) for each in portfolios] == [("a", "a.xlsx"), ("b", "b.csv")]
    assert [each.folders.data for each in portfolios] == [tmp_path / "home/portfolios" / name for name in "ab"]
    (tmp_path / "lists/a.csv").touch()
    with pytest.raises(CompanyListError, match="2 files for portfolio a"):
        find_portfolios(settings, tmp_path / "lists")


GONE = DamagedError("a file is gone")


@pytest.mark.parametrize(
    ("ended", "archived", "code"),
    [
        ("Completed Completed", None, 0), ("Completed Failed", None, 3), ("Failed Cancelled", None, 143),
        ("Completed Completed", GONE, 1), ("Cancelled Cancelled", GONE, 143),
    ],
)  # fmt: skip
def test_it_waits_for_all_runs_and_ends_as_the_worst_of_them_did(tmp_path, monkeypatch, ended, archived, code):
    """One that failed says how by its label. One that cannot be archived counts as failed."""
    from prefect import states

    def runs(*names):
        made = enumerate(getattr(states, name)() for name in names)
        return [SimpleNamespace(id=place, state=state, labels={backfill.EXIT_CODE_LABEL: 3}) for place, state in made]

    asked, places = iter([runs("Running", "Completed"), runs(*ended.split())]), iter(range(2))
    with_state = lambda *_, return_state: states.Failed(data=archived)  # noqa: E731
    stubs = {
        "time": Mock(), "tell": Mock(), "show_table": Mock(), "archive_portfolio": with_state,
        "_start": lambda *_: next(places), "_read": lambda _: next(asked),
    }  # fmt: skip
    for name, stub in stubs.items():
        monkeypatch.setattr(backfill, name, stub)
    for name in ("north", "south"):
        (tmp_path / name).touch()
    with nullcontext() if code == 0 else pytest.raises(FirmlakeError) as caught:
        backfill.backfill.fn.__wrapped__(str(tmp_path), archive=archived and "a", overrides={"paths.data": "data"})
    assert code == 0 or caught.value.exit_code == code


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_backfill_that_is_killed_and_started_again_pays_once_and_ends_as_the_worst(by_hand, real_server, sandbox):
    """Three portfolios, two workers, one allowance; a company of one of them fails."""
    lists, archived, names = by_hand.folder / "lists", by_hand.folder / "archive", ("north", "south", "west")
    lists.mkdir()
    for seed, name in enumerate(names):
        by_hand.write(sample_numbers(300, seed=seed), lists / f"{name}.csv")
    poison = "".join(sample_numbers(300, seed=1)[7])
    sandbox.set_options(requests_per_minute=LIMIT, rate_limit_kind="sliding-window")
    sandbox.set_faults([{"kind": "status", "endpoint": "lookalikes", "companies": [poison], "status": 500}])
    pool = Pool(by_hand, real_server)

    def backfill():
        return by_hand.flow(str(lists), "--name", "one", "--archive", str(archived), name="backfill")

    def runs():
        return pool.ask("POST", "flow_runs/filter", {"flow_runs": {"name": {"like_": " of one"}}})

    with serve_postgres() as store:
        for key, value in {
            "api__requests_per_minute": LIMIT, "api__throttle_store": store.url, "run__shard_companies": 100,
        }.items():  # fmt: skip
            by_hand.set(key, value)
        with pool.worker("one"), pool.worker("two"):
            with killed_at_last(backfill()) as process:
                wait_until(lambda: len(runs()) == 3, what="three runs")
                process.kill()
            ended = by_hand.ended(backfill(), 400)
            assert ended.code == 3, ended.err
            counts = "Backfill one: 1 published, some companies failed, 2 done; south: Published, but 1 company failed"
            assert ended.error_line.startswith(f"firmlake: {counts}")
            assert len(runs()) == 3, "the second start found the runs of the first"
            assert (by_hand.ledger()["busiest_minute"] <= LIMIT, by_hand.ledger()["companies_charged_again"]) == (
                True,
                0,
            )
            of_portfolios = [Folders(by_hand.data / "portfolios" / name) for name in names]
            held = [ask(each, "SELECT count(*), count(paid_at) FROM companies")[1][0] for each in of_portfolios]
            assert [company_count for company_count, _ in held] == [300, 300, 300]
            assert sum(paid_count for _, paid_count in held) == by_hand.ledger()["credits_charged"]
            assert len(list(archived.glob("landing/run=*"))) == 3

            sandbox.set_faults([])
            again = by_hand.ended(backfill(), 400)
            assert again.code == 0, again.err
            started = [run["name"].partition(" ")[0] for run in runs()]
            assert sorted(started) == ["north", "south", "south", "west"], "only what failed was started again"
            assert by_hand.ledger()["companies_charged_again"] == 0
