"""A plan counts the wait for the allowance: what other runs with this key sent, in the words of a run."""

from __future__ import annotations

import pytest

from firmlake.api.authorization import read_token
from firmlake.api.exchange import Answer
from firmlake.api.requests import Request
from firmlake.api.throttle.throttle import open_throttle
from firmlake.core.settings import ApiSettings, PathSettings, Settings
from firmlake.enrich.plan import plan, plan_redrive
from firmlake.terminal.plan import describe_plan, plan_content
from lake import TOKEN
from support import ACME, NOON, body, header, land, make_run, publish_landed

LIMIT = 5


@pytest.fixture
def settings(folders, tmp_path, monkeypatch):
    """Settings of a service that allows less than they say, as another run learned, which has just used that up."""
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", TOKEN)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    api = ApiSettings(base_url="http://127.0.0.1:9", requests_per_minute=LIMIT)
    throttle = open_throttle(api, read_token().key_hash(api.base_url))
    for _ in range(LIMIT):
        grant = throttle.acquire(lambda seconds: None)
    request = Request("lookalikes", "POST", "/v1/companies/lookalikes")
    throttle.observe(grant, Answer(request, 1, 200, "", {"ratelimit-limit": "3"}, b"", NOON, 0.1, 0))
    return Settings(api=api, paths=PathSettings(data=str(folders.data)))


def assert_told(planned):
    told = " ".join(describe_plan(planned))
    assert f"waiting for the allowance: {LIMIT} requests were sent with this key in the last minute" in told
    assert "Pace: 3 requests a minute, because the service allows no more" in told
    assert plan_content(planned)["wait_seconds"] > 40
    assert planned.estimate.minutes * 60 > 40


def test_planning_a_run_tells_the_wait(settings, tmp_path):
    path = tmp_path / "list.csv"
    path.write_text("country,company_number\nBE,0403227515\n")
    assert_told(plan(settings, path, NOON))


def test_planning_a_redrive_tells_the_wait(settings, folders):
    run = make_run(folders, [ACME], ["financials"])
    land(run, (header(kind="given_up", dataset="financials", companies=(ACME,), error="status 500"), body()))
    publish_landed(run, "some_failed")
    assert_told(plan_redrive(settings, NOON))
