"""A generation that fails a gate is held back: readers keep the one before, and nothing is asked or paid again."""

from __future__ import annotations

import json

import pytest

import firmlake
from enrich.desk import COUNT, Desk
from firmlake.core.errors import HeldError
from firmlake.warehouse import generations
from other_service import start_other_service

FOUND = (
    '[found]\nsays = "Found"\nview = "company_status"\nwhen = { status = "= \'enriched\'" }\npublish_if = ">= 95 %"\n'
)
FILLED = '[filled]\nview = "financials"\nwhen = { revenue = "is not null" }\npublish_if = ">= last - 10 %"\n'
COMPANIES = "SELECT count(*) AS count FROM companies"


@pytest.fixture
def desk(tmp_path):
    with start_other_service() as service:
        desk = Desk(tmp_path, service)
        desk.gates = tmp_path / "gates.toml"
        desk.gates.write_text(FOUND)
        desk.environment["FIRMLAKE_PATHS__GATES"] = str(desk.gates)
        yield desk


def companies(desk, *options):
    code, out, err = desk.call("query", COMPANIES, "--format", "json", *options)
    return json.loads(out)[0]["count"] if code == 0 else err


def files(desk):
    return sorted(path.name for path in desk.folders.warehouse.glob("*_*.duckdb"))


def silence(desk, first, count):
    """Let the service say nothing about some companies, which then fail."""
    lines = desk.list.read_text().splitlines()[1:][first : first + count]
    desk.service.unsaid = {line.replace(",", "").replace("BE0", "BE") for line in lines}


def hold_second(desk):
    """Publish 30 companies, then have 60 held back, of which ten failed."""
    assert desk.run()[0] == 0
    desk.write(2 * COUNT)
    silence(desk, COUNT, 10)
    return desk.run()


def test_readers_keep_the_generation_before_and_the_last_line_says_why(desk):
    code, _, said = hold_second(desk)
    assert code == 8
    last = said.splitlines()[-1]
    assert last.startswith("firmlake: Generation 2 is held back")
    assert "Found: 83.3333 %, not >= 95 %" in last
    assert "10 companies failed" in last
    assert files(desk) == ["gen_000001.duckdb", "held_000002.duckdb"]
    assert (companies(desk), companies(desk, "--held")) == (COUNT, 2 * COUNT)
    with firmlake.open_warehouse(desk.folders.data) as warehouse:
        assert warehouse.execute(COMPANIES).fetchall() == [(COUNT,)]


def test_status_metrics_and_incomplete_say_it(desk, tmp_path):
    hold_second(desk)
    status = desk.status()
    assert "Found: 83.3333 %, not >= 95 %" in status["held"]
    assert [each["exit_code"] for each in status["lists"]] == [8]
    assert "firmlake publish --anyway" in status["next_step"]
    assert next(each for each in status["incomplete"] if each["cause"] == "gate")["example"] == "Found"
    desk.call("status", "--metrics", str(tmp_path / "metrics"))
    assert "firmlake_held 1\n" in (tmp_path / "metrics").read_text()


def test_the_next_run_asks_only_for_what_is_missing_and_is_judged_anew(desk):
    hold_second(desk)
    paid = len(desk.service.charged)
    assert desk.run()[0] == 8
    assert "10 asked for" in desk.call("status")[1]
    assert files(desk) == ["gen_000001.duckdb", "held_000003.duckdb"]
    desk.service.unsaid = set()
    assert desk.run()[0] == 0
    assert len(desk.service.charged) == paid
    assert files(desk) == ["gen_000001.duckdb", "gen_000004.duckdb"]
    assert companies(desk) == 2 * COUNT
    assert not desk.status()["held"]


def test_a_run_that_has_nothing_to_load_says_that_it_is_still_held(desk):
    desk.gates.write_text(FOUND.replace(">= 95 %", "= 0"))
    assert desk.run()[0] == 8
    code, out, said = desk.run()
    assert (code, files(desk)) == (8, ["held_000001.duckdb"])
    assert "Nothing to load" in out
    assert said.splitlines()[-1].startswith("firmlake: Generation 1 is held back")
    desk.gates.write_text(FOUND)
    assert desk.run()[0] == 0
    assert (files(desk), sum(desk.service.requests.values())) == (["gen_000002.duckdb"], 3)


def test_publish_releases_what_is_held(desk):
    hold_second(desk)
    code, _, said = desk.call("publish")
    assert (code, companies(desk)) == (8, COUNT)
    assert "Still held back: Found: 83.3333 %" in said
    assert desk.call("publish", "--anyway")[0] == 0
    assert (companies(desk), files(desk)) == (2 * COUNT, ["gen_000001.duckdb", "gen_000002.duckdb"])
    assert [each["cause"] for each in desk.status()["incomplete"] if each["dataset"] is None] == ["gate"]
    assert "No generation is held back" in desk.call("publish")[1]


def test_publish_judges_by_the_gates_as_they_are_now_and_keeps_the_verdict_without_any(desk):
    hold_second(desk)
    assert desk.call("publish", "--set", "paths.gates=")[0] == 8
    desk.gates.write_text(FOUND.replace("95", "80"))
    assert desk.call("publish")[0] == 0
    assert companies(desk) == 2 * COUNT


def test_a_release_that_was_killed_is_finished_by_the_same_command(desk, monkeypatch):
    hold_second(desk)
    monkeypatch.setattr(generations, "_swap_link", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        generations.release(desk.folders)
    monkeypatch.undo()
    assert companies(desk) == COUNT
    assert desk.call("publish", "--anyway")[0] == 0
    assert (companies(desk), files(desk)) == (2 * COUNT, ["gen_000001.duckdb", "gen_000002.duckdb"])
    assert "No generation is held back" in desk.call("publish")[1]


def test_a_first_generation_can_be_held_too(desk):
    silence(desk, 0, 10)
    assert desk.run()[0] == 8
    assert "a gate holds back" in companies(desk)
    assert "a gate holds back" in desk.call("export", str(desk.list.parent / "exported"))[2]
    assert desk.call("publish", "--anyway")[0] == 0
    assert companies(desk) == COUNT


def test_out_is_written_only_of_what_is_published(desk, tmp_path):
    out = tmp_path / "out.csv"
    silence(desk, 0, 10)
    assert desk.run("--out", str(out))[0] == 8
    assert not out.exists()
    desk.service.unsaid = set()
    assert desk.run("--out", str(out))[0] == 0
    assert len(out.read_text().splitlines()) == COUNT + 1


def test_from_python_it_is_an_error(desk, monkeypatch):
    for name, value in desk.environment.items():
        monkeypatch.setenv(name, value)
    silence(desk, 0, 10)
    with pytest.raises(HeldError, match="Found: 66"):
        firmlake.enrich(desk.list)


def test_a_gate_may_compare_with_the_generation_published_last(desk):
    desk.gates.write_text(FILLED)
    assert desk.run()[0] == 0
    desk.service.lost = {"profitability"}
    vanished = ("--refresh", "--set", "run.vanished_share_max=1")
    for _ in range(2):  # never with the one that is held
        code, _, said = desk.run(*vanished)
        assert code == 8
        assert "financials: revenue is not null: 0 %, not >= last - 10 % (last 100 %)" in said
    desk.service.lost = set()
    assert desk.run("--refresh")[0] == 0


def test_the_published_generation_outlives_any_number_of_held_ones(desk):
    hold_second(desk)
    for _ in range(2):
        assert desk.call("redrive", "--set", "run.keep_generations=1")[0] == 8
    assert files(desk) == ["gen_000001.duckdb", "held_000004.duckdb"]
    assert desk.call("prune", "--generations", "1")[0] == 0
    assert files(desk) == ["gen_000001.duckdb", "held_000004.duckdb"]


def test_replay_and_verify_reach_it(desk):
    hold_second(desk)
    assert desk.call("verify")[0] == 0
    code, _, said = desk.call("replay")
    assert (code, files(desk)) == (8, ["gen_000001.duckdb", "held_000003.duckdb"])
    assert "83.3333 %" in said.splitlines()[-1]
    assert companies(desk, "--held") == 2 * COUNT


def test_forget_reaches_it(desk):
    hold_second(desk)
    country, number = desk.list.read_text().splitlines()[-1].split(",")
    assert desk.call("forget", "company", country, number)[0] == 0
    assert (companies(desk), companies(desk, "--held")) == (COUNT, 2 * COUNT - 1)
    assert desk.call("verify", "--forgotten")[0] == 0
    assert "Found" in desk.status()["held"]


@pytest.mark.parametrize("command", [("redrive",), ("publish", "--anyway")])
def test_after_a_kill_before_the_link_is_set_nothing_is_asked_again(desk, monkeypatch, command):
    hold_second(desk)
    desk.service.unsaid = set()

    def kill(folder, path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(generations, "_swap_link", kill)
        assert desk.call(*command)[0] == 130
    assert companies(desk) == COUNT
    paid = len(desk.service.charged)
    desk.run()
    if desk.status()["held"]:
        assert desk.call("redrive")[0] == 0
    assert (companies(desk), len(desk.service.charged)) == (2 * COUNT, paid)
    assert not [name for name in files(desk) if name.startswith("held")]
