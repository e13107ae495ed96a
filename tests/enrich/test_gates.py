"""A generation that fails a gate is held back: readers keep the one before, and nothing is asked or paid again."""

from __future__ import annotations

import json

import pytest

import firmlake
from enrich.desk import COUNT, Desk
from firmlake.core.errors import HeldError
from firmlake.warehouse import generations
from other_service import start_other_service
from support import slow

FOUND = (
    '[found]\nsays = "Found"\nview = "company_status"\nwhen = { status = "= \'enriched\'" }\npublish_if = ">= 95 %"\n'
)
FILLED = '[filled]\nview = "financials"\nwhen = { revenue = "is not null" }\npublish_if = "<= last + 5"\n'
COMPANIES = "SELECT count(*) AS count FROM companies"
UNPUBLISHED, PUBLISHED = ["gen_000001.duckdb", "held_000002.duckdb"], ["gen_000001.duckdb", "gen_000002.duckdb"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Publish 30 companies, then have 60 held back, of which ten failed; with what the last run ended with."""
    with start_other_service() as service:
        desk = Desk(tmp_path_factory.mktemp("held"), service)
        desk.set("api__service_name", "a service")
        set_gate(desk, FOUND)
        assert desk.run()[0] == 0
        desk.write(2 * COUNT)
        desk.silence(COUNT, 10)
        return desk, desk.run()


@pytest.fixture
def held(world, tmp_path):
    with start_other_service() as service:
        yield world[0].copy(tmp_path, service)


def set_gate(desk, text):
    path = desk.folder / "gates.toml"
    path.write_text(text)
    desk.environment["FIRMLAKE_PATHS__GATES"] = str(path)


def companies(desk, *options):
    code, out, err = desk.call("query", COMPANIES, "--format", "json", *options)
    return json.loads(out)[0]["count"] if code == 0 else err


def files(desk):
    return sorted(path.name for path in desk.folders.warehouse.glob("*_*.duckdb"))


def kill(*_):
    raise KeyboardInterrupt


def test_readers_keep_the_generation_before_and_whoever_asks_hears_why(world, tmp_path):
    desk, (code, _, said) = world
    last = said.splitlines()[-1]
    assert (code, files(desk)) == (8, UNPUBLISHED)
    assert last.startswith("firmlake: Generation 2 is held back")
    assert "Found: 83.3333 %, not >= 95 %" in last
    assert "10 companies failed" in last
    assert (companies(desk), companies(desk, "--held")) == (COUNT, 2 * COUNT)
    with firmlake.open_warehouse(desk.folders.data) as warehouse:
        assert warehouse.execute(COMPANIES).fetchall() == [(COUNT,)]
    status = desk.status()
    assert "Found: 83.3333 %, not >= 95 %" in status["held"]
    assert [each["exit_code"] for each in status["lists"]] == [8]
    assert "firmlake publish --anyway" in status["next_step"]
    assert next(each for each in status["incomplete"] if each["cause"] == "gate")["example"] == "Found"
    desk.call("status", "--metrics", str(tmp_path / "metrics"))
    assert "firmlake_held 1\n" in (tmp_path / "metrics").read_text()
    assert desk.call("verify")[0] == 0


def test_the_next_run_asks_only_for_what_is_missing_and_is_judged_anew(held):
    """The published generation outlives the held ones, however few generations are kept."""
    held.silence(COUNT, 10)
    assert held.run("--set", "run.keep_generations=1")[0] == 8
    assert "10 asked for" in held.call("status")[1]
    assert held.call("prune", "--generations", "1")[0] == 0
    assert files(held) == ["gen_000001.duckdb", "held_000003.duckdb"]
    held.service.unsaid = set()
    assert held.run()[0] == 0
    assert len(held.service.charged) == 10
    assert files(held) == ["gen_000001.duckdb", "gen_000004.duckdb"]
    assert (companies(held), held.status()["held"]) == (2 * COUNT, "")


@pytest.mark.slow
def test_publish_releases_what_the_gates_of_now_let_pass(held, monkeypatch):
    """Without gates the verdict stays; a release that was killed is finished by the same command."""
    for options in ((), ("--set", "paths.gates=")):
        code, _, said = held.call("publish", *options)
        assert (code, companies(held)) == (8, COUNT)
        assert "Found: 83.3333 %" in said
    with monkeypatch.context() as patched:
        patched.setattr(generations, "_swap_link", kill)
        assert held.call("publish", "--anyway")[0] == 130
    assert companies(held) == COUNT
    set_gate(held, FOUND.replace("95", "80"))
    assert held.call("publish")[0] == 0
    assert (companies(held), files(held)) == (2 * COUNT, PUBLISHED)
    assert "No generation is held back" in held.call("publish")[1]


@pytest.mark.slow
def test_what_was_published_anyway_is_still_told_as_incomplete(held):
    assert held.call("publish", "--anyway")[0] == 0
    assert (companies(held), files(held)) == (2 * COUNT, PUBLISHED)
    assert [each["cause"] for each in held.status()["incomplete"] if each["dataset"] is None] == ["gate"]


@pytest.mark.slow
def test_a_first_generation_can_be_held_too_and_reaches_nobody(tmp_path, monkeypatch):
    """A run that has nothing to load says that it is still held; one under another gate is judged anew."""
    with start_other_service() as service:
        desk, out = Desk(tmp_path, service), tmp_path / "out.csv"
        set_gate(desk, FOUND.replace(">= 95 %", "= 0"))
        assert desk.run("--out", str(out))[0] == 8
        assert not out.exists()
        assert "a gate holds back" in companies(desk)
        assert "a gate holds back" in desk.call("export", str(tmp_path / "exported"))[2]
        for name, value in desk.environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(HeldError, match="Found: 30, not = 0"):
            firmlake.enrich(desk.list)
        code, printed, said = desk.run()
        assert (code, files(desk)) == (8, ["held_000001.duckdb"])
        assert "Nothing to load" in printed
        assert said.splitlines()[-1].startswith("firmlake: Generation 1 is held back")
        set_gate(desk, FOUND)
        assert desk.run("--out", str(out))[0] == 0
        assert len(out.read_text().splitlines()) == COUNT + 1
        assert (files(desk), sum(service.requests.values())) == (["gen_000002.duckdb"], 3)


def test_a_gate_may_compare_with_the_generation_published_last_and_never_with_the_held_one(held):
    set_gate(held, FILLED)
    code, _, said = held.call("publish")
    assert (code, companies(held)) == (8, COUNT)
    assert f"financials: revenue is not null: {2 * COUNT - 10}, not <= last + 5 (last {COUNT})" in said


@pytest.mark.slow
def test_replay_and_forget_reach_it(held):
    code, _, said = held.call("replay")
    assert (code, files(held)) == (8, ["gen_000001.duckdb", "held_000003.duckdb"])
    assert "83.3333 %" in said.splitlines()[-1]
    country, number = held.list.read_text().splitlines()[-1].split(",")
    assert held.call("forget", "company", country, number)[0] == 0
    assert (companies(held), companies(held, "--held")) == (COUNT, 2 * COUNT - 1)
    assert held.call("verify", "--forgotten")[0] == 0
    assert "Found" in held.status()["held"]


@pytest.mark.parametrize("command", [("redrive",), *slow((("publish", "--anyway"),))])
@pytest.mark.slow
def test_after_a_kill_before_the_link_is_set_nothing_is_asked_again(held, monkeypatch, command):
    with monkeypatch.context() as patched:
        patched.setattr(generations, "_swap_link", kill)
        assert held.call(*command)[0] == 130
    assert companies(held) == COUNT
    held.run()
    if held.status()["held"]:
        assert held.call("redrive")[0] == 0
    assert (companies(held), len(held.service.charged)) == (2 * COUNT, 10)
    assert not [name for name in files(held) if name.startswith("held")]
