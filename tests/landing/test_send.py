"""Budgets by what the service tells: its charges, or its balance."""

from __future__ import annotations

import threading

import pytest

import firmlake_sandbox
from firmlake.core.company import normal_form
from firmlake.core.errors import Stopped
from other_service import start_other_service
from support import make_run

from .test_fetch import fetch  # noqa: F401 - a fixture

COMPANIES = [normal_form(*pair) for pair in firmlake_sandbox.sample_numbers(900)]


class _Headers(threading.local):
    """Headers of the answer that a thread makes."""

    def __init__(self):
        self.told = {}

    def items(self):
        return self.told.items()


@pytest.mark.parametrize("told", [("Charged", "Remaining"), ("Remaining",)])
def test_a_budget_slows_no_run_down_whose_balances_come_out_of_order(folders, fetch, told):  # noqa: F811
    """A balance also tells what other requests in flight cost; that is no charge beyond what is due."""
    together = threading.Barrier(4)
    with start_other_service() as service:
        answer, service.headers, turn = service.answer, _Headers(), threading.Lock()

        def answer_together(dataset, asked):
            with turn:
                before = len(service.charged)
                answered = answer(dataset, asked)
                paid = len(service.charged)
            if before:  # the first request of a dataset goes alone
                together.wait(5)  # for the others in flight, which one request at a time would never reach
            values = {"Charged": paid - before, "Remaining": 1000 - len(service.charged)}
            service.headers.told = {f"X-Credits-{name}": str(values[name]) for name in told}
            return answered

        service.answer = answer_together
        run = make_run(folders, COMPANIES, ["lookalikes"])
        (result,) = fetch(run, {"max_credits": 900}, base_url=service.base_url)
        assert (result.counts["answered"], len(service.charged)) == (900, 900)


@pytest.mark.parametrize(("told", "is_stopped"), [(("Charged", "Remaining"), False), (("Remaining",), True)])
def test_what_others_spend_from_the_balance_counts_only_if_no_header_tells_charges(folders, fetch, told, is_stopped):  # noqa: F811
    with start_other_service() as service:
        answer, service.headers = service.answer, _Headers()

        def answer_while_others_spend(dataset, asked):
            values = {"Charged": len(asked), "Remaining": 10_000 - 1_000 * service.requests[dataset]}
            service.headers.told = {f"X-Credits-{name}": str(values[name]) for name in told}
            return answer(dataset, asked)

        service.answer = answer_while_others_spend
        run = make_run(folders, COMPANIES[:300], ["lookalikes"])
        if is_stopped:
            with pytest.raises(Stopped, match="more than the 300"):
                fetch(run, {"max_credits": 300}, base_url=service.base_url)
        else:
            assert fetch(run, {"max_credits": 300}, base_url=service.base_url)[0].counts["answered"] == 300
