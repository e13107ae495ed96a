"""The log for machines: JSON lines with run, shard and request, and nothing where nobody asked."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from firmlake.core.errors import FirmlakeError
from firmlake.core.log import log, log_to, warn_by
from lake import Lake


def test_every_answer_has_a_line_and_no_line_a_secret(sandbox, tmp_path, monkeypatch):
    lake, out = Lake(tmp_path, sandbox, 5), tmp_path / "log.jsonl"
    for command in (("run", str(lake.list)), ("export",)):
        lake.call(*command, "--log", str(out))
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    landed = [line for line in lines if line["message"] == "landed"]
    assert len(landed) == int(sandbox.ledger(summary=True)["summary"]["requests"])
    [run] = {line["run"] for line in lines if "run" in line}
    assert {(line["run"], line["shard"], line["status"]) for line in landed} == {(run, 1, 200)}
    assert len({(line["request"], line["attempt"]) for line in landed}) == len(landed)
    assert {"planned", "fetched", "published"} <= {line["message"] for line in lines}
    assert lines[-1]["exit_code"] == 2
    assert sandbox.token not in out.read_text()


def test_nothing_is_logged_where_nobody_asked(tmp_path):
    with log_to(tmp_path / "log"):
        log("inside", shard=1)
    log("outside")
    [line] = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert (line["message"], line["shard"], line["level"]) == ("inside", 1, "info")
    assert not logging.getLogger("firmlake").isEnabledFor(logging.INFO)


def test_a_log_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(FirmlakeError, match="No such file"), log_to(tmp_path / "no" / "log"):
        pass


def test_a_warning_reaches_a_person_once_and_nothing_else_does():
    told: list[str] = []
    logger = logging.getLogger("firmlake.api.service")
    with warn_by(told.append):
        for _ in range(2):
            logger.warning("The service allows %d requests a minute", 100)
        log("landed")
    logger.warning("afterwards")
    assert told == ["The service allows 100 requests a minute"]


def test_a_command_shows_warnings_on_stderr(tmp_path, monkeypatch):
    warn = logging.getLogger("firmlake.api.service").warning
    monkeypatch.setattr(sys.modules["firmlake.enrich.plan"], "check_service", lambda *_: warn("The store is damaged"))
    lake = Lake(tmp_path)
    result = lake.call("plan", str(lake.write([("BE", "0403227515")])), "--json")
    assert "Warning: The store is damaged" in result.err
    assert "damaged" not in json.dumps(result.content)
