"""The runner: what its observer sees, and how it ends when something fails."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import firmlake_sandbox
from firmlake.core.errors import AuthorizationError, DriftError, SettingsError, Stopped
from firmlake.core.settings_layers import load_settings
from firmlake.enrich.observer import Observer
from firmlake.enrich.run import enrich, shortfall
from firmlake_sandbox import Sandbox
from other_service import start_other_service
from support import UNASKED


class Recording(Observer):
    """Writes down what it is told, and fails a step on demand."""

    def __init__(self, fails: str = "") -> None:
        self.steps, self.lines, self.plans, self.published_runs, self.fails = [], {}, [], [], fails
        self.threads = set()

    def step(self, name, work, describe=None):
        self.steps.append(name)
        self.threads.add(threading.current_thread() is threading.main_thread())
        if name == self.fails:
            raise AuthorizationError("Refused")
        made = work()
        self.lines[name] = describe(made) if describe else ""
        return made

    def planned(self, planned, title):
        self.plans.append((title, planned.companies.companies.height))

    def published(self, published):
        self.published_runs.append(published)


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


def test_every_step_is_named_once_and_each_shard_is_staged_after_it_is_fetched(settings, companies):
    seen = Recording()
    (published,) = enrich(settings(), companies, "a test", seen)
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
        enrich(settings(), companies, "a test", seen)
    assert "publish" not in seen.steps
    assert enrich(settings(), companies, "a test")[0].outcome.outcome == "done"


def test_expand_needs_its_dataset_before_anything_is_sent(settings, companies, sandbox):
    with pytest.raises(SettingsError, match="needs the dataset relationships"):
        enrich(settings(run__expand="parents", run__datasets="financials"), companies, "a test")
    assert sandbox.ledger()["summary"]["requests"] == 0


@pytest.mark.slow
def test_each_step_outward_is_a_run_with_a_title_of_its_own(settings, companies):
    seen = Recording()
    made = enrich(settings(run__expand="lookalikes", run__max_credits=20), companies, "a test", seen)
    assert [title for title, _ in seen.plans] == ["", "Step 1 of 1, lookalikes"]
    assert len(made) == 2
    assert "Step 1 of 1, lookalikes: publish" in seen.steps
    assert made[1].summary.company_count > 0
    assert isinstance(shortfall(made), Stopped), "the budget is that of both"


class Budgets(Observer):
    """Notes the credits that each run may spend."""

    def __init__(self):
        self.seen = []

    def planned(self, planned, title):
        self.seen.append(planned.budget.credits)


@pytest.mark.slow
def test_a_step_outward_has_what_earlier_attempts_of_the_list_were_charged_less(settings, companies):
    budgets = Budgets()
    with start_other_service() as service:
        answer, service.headers = service.answer, {"X-Credits-Charged": "10"}

        def answer_with_a_new_field(dataset, asked):
            status, elements = answer(dataset, asked)
            if dataset == "financials":
                elements[0]["data"][0]["unheardOf"] = 1
            return status, elements

        service.answer = answer_with_a_new_field
        values = {"api__base_url": service.base_url, "run__shard_companies": 20, "run__max_credits": 70}
        with pytest.raises(DriftError):
            enrich(settings(**values, contract__new_fields="financials.*=freeze"), companies, "a test", budgets)
        enrich(settings(**values, run__expand="lookalikes"), companies, "a test", budgets)
    assert budgets.seen == [70, 40, 10]
