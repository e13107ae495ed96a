"""The token goes to the service and nowhere else; times that jump change nothing. See also `make_lake`'s last lines."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from lake import TOKEN, wait_until
from spellings import SPELLINGS, echo, holds_piece

from .support import assert_whole, faults, sized

COUNT = 120


@pytest.mark.reliability
def test_the_token_is_in_no_command_line_of_any_process(sandbox, make_lake):
    lake = make_lake(COUNT)
    with faults(sandbox, {"kind": "delay", "seconds": 0.2}):
        process = lake.start("run", str(lake.list))
        wait_until(lambda: lake.ledger()["requests"] >= 1)
        lines = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                lines.append(path.read_bytes())
            except OSError:
                continue
        assert lake.end(process).code == 0
    assert len(lines) > 2
    assert not [line for line in lines if TOKEN.encode() in line]


@pytest.mark.parametrize("status", [401, pytest.param(404, marks=pytest.mark.reliability)])
@pytest.mark.parametrize("spell", sized(list(SPELLINGS)[::9], SPELLINGS))
def test_the_token_in_any_spelling_of_the_service_is_written_nowhere(spell, status, make_lake):
    """Neither on stderr, into the log, the folder of failures, what status says, nor the landed answers."""
    with echo(status, lambda: SPELLINGS[spell]) as address:
        lake = make_lake(3, api__base_url=address, api__tries=1)
        result = lake.run("--log", str(lake.folder / "log.jsonl"))
    assert result.code == (5 if status == 401 else 1), result.err
    assert lake.call("status").code == lake.call("status", "--json").code == 0
    texts = [path.read_text() for path in (lake.data / "state").glob("*.json")] + lake.said
    texts.append((lake.folder / "log.jsonl").read_text())
    assert not [text for text in texts if holds_piece(text, TOKEN)]


@pytest.mark.parametrize("days", sized([], [-4000, -400, -2, -1, 1, 20, 25]))
def test_a_clock_that_jumps_between_two_runs_buys_and_loses_nothing(days, make_lake, undisturbed, monkeypatch):
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    assert lake.run("--max-requests", "3").code == 4
    jumped = SimpleNamespace(now=lambda zone: datetime.now(zone) + timedelta(days=days))
    monkeypatch.setattr("firmlake.core.work.datetime", jumped)
    result = lake.run()
    assert result.code == 0, result.err
    assert lake.run().code == 0
    monkeypatch.undo()
    assert lake.run().code == 0
    assert_whole(lake, expected)
