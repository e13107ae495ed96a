"""The runner: what its caller sees, and how it ends when something fails."""

from __future__ import annotations

from pathlib import Path

import pytest

import firmlake_sandbox
from firmlake.core.errors import AuthorizationError, SettingsError, Stopped
from firmlake.core.settings_layers import load_settings
from firmlake.enrich.events import PlanMade, Published
from firmlake.enrich.run import enrich, shortfall
from firmlake_sandbox import Sandbox
from support import UNASKED


class Recording:
    """Writes down what it is told, and fails a step on demand."""

    def __init__(self, fails: str = "") -> None:
        self.steps, self.lines, self.plans, self.published_runs, self.fails = [], {}, [], [], fails

    def __call__(self, event):
        match event:
            case PlanMade(planned, title):
                self.plans.append((title, planned.companies.companies.height))
            case Published():
                self.published_runs.append(event)

    def carry_out(self, name, work, describe=None):
        self.steps.append(name)
        if name == self.fails:
            raise AuthorizationError("Refused")
        made = work()
        self.lines[name] = describe(made) if describe else ""
        return made


def follow(settings, companies: Path, seen: Recording):
    return enrich(settings, companies, "a test", seen, carry_out=seen.carry_out)


@pytest.fixture
def companies(tmp_path: Path) -> Path:
    path = tmp_path / "list.csv"
    numbers = firmlake_sandbox.sample_numbers(12)
    path.write_text("country,company_number\n" + "".join(f"{country},{number}\n" for country, number in numbers))
    return path


@pytest.fixture
def settings(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make settings for the sandbox; by keyword, `__` for the dot."""
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)

    def make(**values: object):
        flags = {
            "api.base_url": sandbox.base_url,
            "api.requests_per_minute": "0",
            "api.retry_wait_max_seconds": "0.01",
            "paths.data": str(tmp_path / "data"),
            "run.shard_companies": "5",
            **{key.replace("__", "."): str(value) for key, value in values.items()},
        }
        return load_settings(flags=flags, environment=UNASKED)[0]

    return make


@pytest.mark.slow
def test_every_step_is_named_once_and_each_shard_is_staged_after_it_is_fetched(settings, companies):
    seen = Recording()
    (published,) = follow(settings(), companies, seen)
    assert sorted(seen.steps) == sorted(
        ["plan", *(f"{what} shard {n}" for what in ("fetch", "stage") for n in (1, 2, 3)), "publish"]
    )
    for shard in ("1", "2", "3"):
        assert seen.steps.index(f"fetch shard {shard}") < seen.steps.index(f"stage shard {shard}")
    assert seen.lines["fetch shard 3"] == "6 answered, 0 not found, 0 failed, 0 open"
    assert seen.plans == [("", 12)]
    assert seen.published_runs == [published]
    assert shortfall([published]) is None


def test_a_step_that_fails_ends_the_run_before_it_is_published(settings, companies):
    seen = Recording("stage shard 2")
    with pytest.raises(AuthorizationError, match="Refused"):
        follow(settings(), companies, seen)
    assert "publish" not in seen.steps


def test_expand_needs_its_dataset_before_anything_is_sent(settings, companies, sandbox):
    with pytest.raises(SettingsError, match="needs the dataset relationships"):
        enrich(settings(run__expand="parents", run__datasets="financials"), companies, "a test")
    assert sandbox.ledger()["summary"]["requests"] == 0


def test_each_step_outward_is_a_run_with_a_title_of_its_own_within_one_budget(settings, companies, sandbox):
    outward = {"run__expand": "lookalikes", "run__datasets": "lookalikes"}
    assert len(follow(settings(**outward, run__max_credits=5), companies, Recording())) == 1
    seen = Recording()
    made = follow(settings(**outward, run__max_credits=20), companies, seen)
    assert [title for title, _ in seen.plans] == ["", "Step 1 of 1, lookalikes"]
    assert len(made) == 2
    assert "Step 1 of 1, lookalikes: publish" in seen.steps
    assert made[1].summary.company_count > 0
    assert isinstance(shortfall(made), Stopped)
    assert sandbox.ledger()["summary"]["credits_charged"] == 5 + 20, "the budget is that of both"
