"""What a list costs over weeks: free refreshes, a charge where none should be, the month's budget, the last credits."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

import firmlake_sandbox
from firmlake.check.finding import Finding
from firmlake.core.company import Company
from firmlake.core.errors import DriftError, FirmlakeError, ServiceError, Stopped
from firmlake.core.folders import Folders
from firmlake.core.settings_layers import load_settings
from firmlake.enrich.check import check
from firmlake.enrich.contact import Asking
from firmlake.enrich.plan import forecast, plan
from firmlake.enrich.run import enrich, shortfall
from firmlake.intake.lines import read_company_list
from firmlake.landing.progress import read_landed
from firmlake.landing.run import list_runs
from firmlake.report.status import read_status
from firmlake.terminal.plan import describe_plan
from firmlake.terminal.status import describe_bill
from firmlake.warehouse.generations import ask
from firmlake_sandbox import Sandbox
from support import UNASKED, lose_patience, slow

START = datetime(2026, 3, 2, 2, tzinfo=UTC)
COUNT = 8


class Schedule:
    """Runs of one list on the sandbox's clock."""

    def __init__(self, sandbox: Sandbox, data: Path, count: int) -> None:
        self.sandbox, self.data, self.now = sandbox, data, START
        self.company_list = data.with_suffix(".csv")
        self.write(count, seed=3)

    def write(self, count: int, seed: int) -> None:
        numbers = firmlake_sandbox.sample_numbers(count, seed=seed)
        self.company_list.write_text(
            "country,number\n" + "".join(f"{country},{number}\n" for country, number in numbers)
        )

    def settings(self, **values: object):
        given = {
            "api__base_url": self.sandbox.base_url,
            "api__requests_per_minute": 0,
            "api__retry_wait_max_seconds": 0.01,
            "paths__data": self.data,
            **values,
        }
        return load_settings(
            flags={key.replace("__", "."): str(value) for key, value in given.items()}, environment=UNASKED
        )[0]

    def go(self, day: float) -> None:
        later = START + timedelta(days=day)
        self.sandbox.advance((later - self.now).total_seconds())
        self.now = later

    def run(self, day: float, **values: object):
        self.go(day)
        [published] = enrich(self.settings(**values), self.company_list, "a test", now=lambda: self.now)
        return published

    def plan(self, **values: object):
        return plan(self.settings(**values), self.company_list, self.now)

    def due(self, day: float) -> int:
        self.go(day)
        return self.plan().estimate.target_count

    def buy(self) -> None:
        """Let the service charge for the companies of the list."""
        lines = [line.split(",") for line in self.company_list.read_text().splitlines()[1:]]
        httpx.post(
            f"{self.sandbox.base_url}/v1/companies/financials",
            json={"companies": [{"countryCode": country, "companyNumber": number} for country, number in lines]},
            headers={"Authorization": f"Bearer {self.sandbox.token}"},
            trust_env=False,
        ).raise_for_status()

    def charged(self) -> int:
        return self.sandbox.ledger(summary=True)["summary"]["credits_charged"]


@pytest.fixture(scope="module")
def world(
    sandbox_process: tuple[Sandbox, dict[str, object]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, int]:
    """The data folder of a schedule after its first run, and what that bought."""
    sandbox, options = sandbox_process
    sandbox.set_options(**options)
    sandbox.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
        schedule = Schedule(sandbox, tmp_path_factory.mktemp("bill") / "data", COUNT)
        bought = schedule.run(0).summary.expected_credit_count
    assert bought == schedule.charged() > 0
    return schedule.data, bought


@pytest.fixture
def schedule(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Schedule:
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    lose_patience(monkeypatch)
    return Schedule(sandbox, tmp_path / "data", COUNT)


@pytest.fixture
def begun(world: tuple[Path, int], schedule: Schedule) -> Schedule:
    """A schedule after its first run, which the service knows of too."""
    shutil.copytree(world[0], schedule.data, symlinks=True)
    schedule.buy()
    assert schedule.charged() == world[1]
    return schedule


def test_companies_are_refreshed_once_at_the_end_of_their_window_and_it_costs_nothing(begun: Schedule):
    schedule, bought = begun, begun.charged()
    assert schedule.due(14) == 0
    again = schedule.run(28).summary
    assert (again.target_count, again.free_refresh_count) == (bought, bought)
    assert schedule.charged() == bought
    first, second = (
        [one.header.is_free_refresh for one in read_landed(run, 1)] for run in list_runs(Folders(schedule.data))
    )
    assert not any(first)
    assert all(second), "the header of each request says so"
    assert schedule.due(29) == 0, "once is enough"
    schedule.go(57)
    assert not schedule.plan().estimate.credit_count
    schedule.go(59)
    assert schedule.plan().estimate.credit_count == bought
    status = read_status(Folders(schedule.data), "", schedule.settings().run, schedule.now)
    assert status.bill is not None
    assert status.bill.free_refreshes == bought
    assert any(f"{bought} in all, each saving a credit" in line for line in describe_bill(status.bill))


@pytest.mark.slow
def test_after_weeks_without_the_service_one_run_fetches_all_that_fell_due_in_the_meantime(begun: Schedule):
    """A run that is taken up is planned again: otherwise the others would wait until refreshing them is not free."""
    schedule = begun
    schedule.write(COUNT + 6, seed=3)
    joined = schedule.run(7).summary.expected_credit_count
    assert joined > 0
    schedule.sandbox.set_faults([{"kind": "status", "status": 503}])
    with pytest.raises(ServiceError):
        schedule.run(28)
    schedule.sandbox.set_faults([])
    [late] = list_runs(Folders(schedule.data))[2:]
    schedule.go(28.5)
    assert schedule.plan().unfinished == late
    schedule.go(35)
    assert schedule.plan().unfinished == late
    ended = schedule.run(35)
    assert (ended.run.run_id, ended.summary.free_refresh_count) == (late.run_id, joined)
    assert schedule.due(36) == 0


@pytest.mark.slow
def test_a_resumed_run_buys_the_companies_whose_window_has_closed_in_the_meantime(begun: Schedule):
    """The run of the free refresh is interrupted, and all windows have closed when the schedule comes round again."""
    schedule, bought = begun, begun.charged()
    schedule.sandbox.set_faults([{"kind": "status", "status": 401}])
    with pytest.raises(FirmlakeError, match="401"):
        schedule.run(28)
    schedule.sandbox.set_faults([])
    schedule.go(35)
    planned = schedule.plan()
    assert (planned.estimate.credit_count, planned.estimate.refresh_count) == (bought, 0)
    assert schedule.plan(run__max_credits=5).estimate.credit_count == 5, "a budget holds for what is due again"
    ended = schedule.run(35)
    assert (ended.outcome.outcome, ended.summary.credit_count, schedule.charged()) == ("done", bought, 2 * bought)
    assert ended.summary.unexplained_bill == ""
    assert schedule.plan().refresh_off == "", "the service was right to charge"


@pytest.mark.slow
def test_a_run_is_not_resumed_for_its_free_refreshes_once_another_list_was_charged_for_one(begun: Schedule):
    schedule = begun
    north, south = schedule.company_list, schedule.company_list.with_name("south.csv")
    header, *lines = north.read_text().splitlines()
    south.write_text("\n".join([header, *lines[-3:]]))
    schedule.company_list = south
    schedule.sandbox.set_faults([{"kind": "status", "status": 401}])
    with pytest.raises(FirmlakeError, match="401"):
        schedule.run(26)
    schedule.sandbox.set_faults([])
    assert schedule.due(26) == 3
    schedule.sandbox.set_options(credit_window_days=20)
    schedule.company_list = north
    assert shortfall([schedule.run(26, api__companies_per_request=2)]).exit_code == 4
    schedule.company_list = south
    assert schedule.due(26) == 0


@pytest.mark.parametrize("budget", [-1, *slow(4)])
def test_a_window_that_closes_while_a_run_goes_on_is_judged_when_a_request_is_sent(begun: Schedule, budget: int):
    """A machine may sleep for a week. A run with a budget does not buy what its plan did not foresee."""
    schedule, bought = begun, begun.charged()
    schedule.go(28)
    settings = schedule.settings(api__companies_per_request=2, api__threads=1, run__max_credits=budget)
    before = schedule.sandbox.ledger(summary=True)["summary"]["requests"]

    def clock() -> datetime:
        if schedule.sandbox.ledger(summary=True)["summary"]["requests"] > before:
            schedule.go(35)
        return schedule.now

    [ended] = enrich(settings, schedule.company_list, "a test", now=clock)
    bought = schedule.charged() - bought
    if budget < 0:
        assert (ended.outcome.outcome, ended.summary.expected_credit_count, bought) == ("done", COUNT, COUNT)
    else:
        assert (bought, shortfall([ended]).exit_code) == (0, 4)
        assert ended.outcome.reason.startswith("The paid windows of 2 companies of a request closed")
        assert schedule.plan(run__max_credits=budget).estimate.credit_count == budget
    assert schedule.plan().refresh_off == ""


def killed_check(schedule: Schedule) -> int:
    """Check the service for two companies of the list, and be killed in the midst; return what that cost."""

    def kill(finding: Finding) -> None:
        if finding.assumption == "largest page":
            raise KeyboardInterrupt

    settings = schedule.settings()
    companies = read_company_list(schedule.company_list, settings.intake).companies.select("country", "company_number")
    known = tuple(Company(*row) for row in companies.rows()[:2])
    with pytest.raises(KeyboardInterrupt):
        check(settings, Asking(known, None), lambda: schedule.now, kill)
    return schedule.charged()


def test_what_a_killed_check_paid_for_is_known(schedule: Schedule):
    paid = killed_check(schedule)
    assert paid > 0
    status = read_status(Folders(schedule.data), "", schedule.settings().run, schedule.now)
    assert status.bill.spent == paid
    summary = schedule.run(5).summary
    assert summary.unexplained_bill == ""
    assert summary.credit_count == schedule.charged() - paid
    assert schedule.due(33) == summary.credit_count, "its window is over"


def test_the_forecast_of_a_plan_leaves_out_what_an_unfinished_run_bought(begun: Schedule):
    schedule = begun
    schedule.write(5, seed=4)
    before = schedule.charged()
    assert killed_check(schedule) > before
    planned = schedule.plan()
    bill = forecast(schedule.settings(), planned, schedule.now)
    assert bill is not None
    assert bill.forecast == planned.estimate.credit_count < 5


def test_a_check_heeds_the_budget_of_the_month(schedule: Schedule):
    settings = schedule.settings(run__max_credits_per_month=1)
    companies = (Company("BE", "0403227515"), Company("FR", "552032534"))
    with pytest.raises(Stopped, match=r"max_credits_per_month = 1 .* leaves out 1 company"):
        check(settings, Asking(companies, None), lambda: schedule.now)
    assert schedule.charged() == 0


@pytest.mark.slow
def test_a_refresh_that_is_charged_after_all_stops_the_run_and_is_not_tried_again(schedule: Schedule):
    bought = schedule.run(0).summary.expected_credit_count
    schedule.sandbox.set_options(credit_window_days=20)
    ended = schedule.run(26, api__companies_per_request=2)
    assert ended.outcome.outcome == "stopped"
    assert ended.outcome.reason.startswith("The service charged 2 credits for a request of 2 companies that should be")
    assert schedule.charged() == bought + 2, "the first request tells"
    assert ended.summary.free_refresh_count == 0, "it saved nothing"
    assert shortfall([ended]).exit_code == 4
    held = ask(Folders(schedule.data), "SELECT DISTINCT status FROM company_state")[1]
    assert ("waiting",) not in held, "what was not refreshed is as fresh as before"
    planned = schedule.plan()
    assert not planned.targets.height
    assert any("No company is refreshed for free" in line for line in describe_plan(planned))
    schedule.run(33)
    status = read_status(Folders(schedule.data), "", schedule.settings().run, schedule.now)
    assert status.next_step.startswith("No company is refreshed for free"), "until somebody acts"
    assert not any(each.free_refreshes for each in status.bill.days)
    assert schedule.plan(run__credit_window_days=20).refresh_off == "", "the corrected window may be tried"


@pytest.mark.slow
def test_a_month_costs_no_more_than_its_budget_and_the_next_month_goes_on(schedule: Schedule):
    budget = {"run__max_credits_per_month": 5}
    planned = schedule.plan(**budget)
    assert any(
        line.startswith("Warning: 0 of 5 credits of this month are spent, 5 (100%)") for line in describe_plan(planned)
    )
    ended = schedule.run(0, **budget)
    assert schedule.charged() <= 5
    assert "run.max_credits_per_month = 5 (0 spent this month) leaves out" in ended.outcome.reason
    assert schedule.plan(**budget).estimate.credit_count == 5 - schedule.charged()
    assert schedule.plan(run__max_credits_per_month=100, run__max_credits=1).estimate.credit_count == 1
    schedule.go(29.9)  # 31 March, 23:36 UTC: April in Brussels
    assert schedule.plan(**budget).budget.spent == 0
    assert schedule.plan(**budget, run__time_zone="UTC").budget.spent == schedule.charged()


def test_who_was_charged_in_an_answer_that_cannot_be_read_is_paid_for(schedule: Schedule):
    """Every company of the request, so that each knows its window and no run counts the credit twice."""
    spent = fail_unread(schedule, api__companies_per_request=4)
    assert spent == 4
    assert schedule.plan().estimate.credit_count == COUNT - spent
    schedule.company_list.write_text("\n".join(schedule.company_list.read_text().splitlines()[:5]))
    assert schedule.plan().estimate.credit_count == 0, "also for a shorter list"
    schedule.run(1)
    bills = "SELECT credit_count, expected_credit_count FROM runs ORDER BY started_at"
    assert ask(Folders(schedule.data), bills)[1] == [(4, 4)]
    assert schedule.charged() == spent


def fail_unread(schedule: Schedule, **values: object) -> int:
    """Let a run end because its answers cannot be read; return the credits charged so far."""
    schedule.sandbox.set_faults([{"kind": "wrong_body"}])
    with pytest.raises(FirmlakeError):
        schedule.run(0, **values)
    schedule.sandbox.set_faults([])
    return schedule.charged()


def test_a_budget_holds_for_all_attempts_of_a_run_together(schedule: Schedule):
    """Also if an answer that cannot be read was charged, and the run had asked for other companies by now."""
    values = {"run__max_credits": 6, "api__companies_per_request": 4, "api__threads": 1}
    header, *lines = schedule.company_list.read_text().splitlines()
    schedule.company_list.write_text("\n".join([header, "BE,0999002109", *lines]))  # unknown, which costs nothing
    spent = fail_unread(schedule, **values)
    assert spent == 3, "of four companies: which of them are paid for is open"
    schedule.sandbox.advance(31 * 86400)  # so that they must be bought again
    planned = schedule.plan(**values)
    assert planned.estimate.credit_count == 6 - spent
    assert any(f"run.max_credits ({spent} spent by earlier attempts)" in line for line in describe_plan(planned))
    schedule.sandbox.set_faults([{"kind": "status", "status": 401, "nth": [2]}])
    with pytest.raises(FirmlakeError, match="401"):
        schedule.run(0.1, **values)  # takes up the first
    assert schedule.plan(**values).budget.credits == 6 - schedule.charged()
    ended = schedule.run(0.2, **values)
    assert schedule.charged() == 5, "one of the three companies that were left is unknown"
    assert ended.outcome.reason == "run.max_credits = 6 leaves out 6 companies"
    assert schedule.plan(**values).budget == (6, "", 5, -1, 0), "the next run has a budget of its own"


@pytest.mark.slow
def test_what_a_run_bought_that_drift_refuses_is_paid_for_and_published_later(schedule: Schedule):
    schedule.sandbox.set_faults([{"kind": "drift", "field": "revenue", "change": "unknown", "count": 0}])
    frozen = {"run__max_credits": 4, "contract__new_fields": "financials.*=freeze"}
    for day in (0, 1):  # each run has a budget of its own, and buys the next companies
        with pytest.raises(DriftError):
            schedule.run(day, **frozen)
        assert schedule.charged() == 4 * (day + 1)
    assert schedule.plan(run__max_credits=0).estimate.credit_count == 0
    assert schedule.run(2).outcome.outcome == "done"
    assert schedule.charged() == COUNT
