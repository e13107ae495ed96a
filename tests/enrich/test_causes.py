"""Advice that works: companies that failed because of a setting name it before they say that redrive asks again."""

from __future__ import annotations

import msgspec
import pytest

import firmlake_sandbox
from firmlake.core.company import Company
from firmlake.core.settings import ContractSettings, RunSettings, Settings
from firmlake.enrich.finish import decide_outcome, left_out
from firmlake.landing.run import Run, begin
from support import ACME, NOON, answer, found, header, land, lookalike, make_run, period, publish_list, stage


@pytest.mark.parametrize(
    ("code", "first"),
    [
        ("wrong_page", "Write {limit} and {offset} in api.requests.financials"),
        ("other_message", "If the message means that the company is unknown, set api.names"),
        ("empty_answer", "If the service leaves out companies that it does not know"),
        ("request_failed", "`firmlake redrive` asks again"),
    ],
)
def test_the_setting_that_removes_a_reason_is_named_first(code, first, folders):
    run = make_run(folders, [ACME], ["financials"])
    land(run, (header(companies=[ACME], kind="given_up", status=None, code=code, error="..."), b""))
    outcome = decide_outcome(Settings(), run, stage(run), None, NOON)
    assert outcome.reason == "1 company failed"
    assert outcome.next_step.startswith(first)
    assert "`firmlake redrive` asks again" in outcome.next_step


def test_many_lines_that_are_refused_or_gone_are_told_in_the_next_version_of_a_list_unless_it_is_a_sample(folders):
    """A file that is half written when the schedule reads it would otherwise end as done."""
    run = publish_list(folders, [Company(*each) for each in firmlake_sandbox.sample_numbers(30)], name="held")

    def told(name="held", sample=0, **counts):
        again = begin(Run(folders, msgspec.structs.replace(run.plan, company_list=name, **counts)))
        return decide_outcome(Settings(run=RunSettings(sample=sample)), again, stage(again), None, NOON).reason

    assert "4 of 30 lines" in told(refused_count=4)
    assert "4 of 30 lines" not in told("new", refused_count=4)
    assert "20 companies, and 30 in the version before" in told(company_count=20, line_count=20)
    assert "in the version before" not in told(company_count=21, line_count=21) + told(sample=20, company_count=20)


@pytest.mark.parametrize(
    ("record", "settings", "where", "step"),
    [
        (
            period(endDate="31/12/2024"),
            {},
            " (financials: endDate)",
            "`firmlake replay` after an update that reads it, or `firmlake redrive` once",
        ),
        (
            period(endDate=None),
            {},
            " (financials: endDate)",
            "`firmlake redrive` asks again once the service sends what is missing",
        ),
        (
            period(people__employees="many"),
            {"values": {"financials.*": "discard_record"}},
            " (financials: people.employees)",
            "remove discard_record from contract.values, then run `firmlake replay`",
        ),
        ("none", {}, "", "`firmlake replay` after an update that reads it"),
    ],
)
def test_rejected_records_are_asked_for_again_only_where_that_can_help(record, settings, where, step, folders):
    run = make_run(folders, [ACME], ["financials"]).read_by(ContractSettings(**settings))
    land(run, answer("financials", found(ACME, "financials", record), offset=0))
    outcome = decide_outcome(Settings(), run, stage(run), None, NOON)
    assert (outcome.outcome, outcome.reason) == ("some_failed", f"1 company has records that do not fit{where}")
    assert step in outcome.next_step


@pytest.mark.parametrize(
    ("unknown", "settings", "kind"),
    [
        (11, {}, "some_failed"),
        (10, {}, "done"),
        (11, {"values": {"relationships.related_company_number": "discard_value"}}, "done"),
    ],
)
def test_a_run_that_cannot_tell_who_a_tenth_of_the_parents_are_is_not_done_unless_that_was_chosen(
    unknown, settings, kind, folders
):
    run = make_run(folders, [ACME], ["relationships"]).read_by(ContractSettings(**settings))
    person = {"identifier": None, "function": "SHAREHOLDER", "percentage": 0.1, "name": "Jan"}
    parents = [{"entity": n, "function": "SHAREHOLDER"} if n < unknown else person for n in range(unknown + 90)]
    land(run, answer("relationships", found(ACME, "relationships", *parents)))
    outcome = decide_outcome(Settings(), run, stage(run), None, NOON)
    assert outcome.outcome == kind
    if kind == "some_failed":
        assert outcome.reason == (
            "relationships: 11 of 101 parents do not say in a documented way who they are, and have parents[].entity "
            "instead"
        )
        assert 'contract.values = {"relationships.related_company_number" = "discard_value"}' in outcome.next_step


@pytest.mark.parametrize(
    ("lost", "settings", "kind"),
    [
        (11, {}, "some_failed"),
        (10, {}, "done"),
        (11, {"values": {"financials.revenue": "discard_value"}}, "done"),
    ],
)
def test_a_run_that_cannot_read_a_tenth_of_the_values_of_a_field_is_not_done_unless_that_was_chosen(
    lost, settings, kind, folders
):
    run = make_run(folders, [ACME], ["financials"]).read_by(ContractSettings(**settings))
    records = [period(1900 + n, profitability__revenue="591.240" if n < lost else 5) for n in range(lost + 90)]
    land(run, answer("financials", found(ACME, "financials", *records), offset=0))
    outcome = decide_outcome(Settings(), run, stage(run), None, NOON)
    assert outcome.outcome == kind
    if kind == "some_failed":
        assert outcome.reason == "financials.revenue could not be read in 11 of 101 values"
        assert outcome.next_step.startswith("Set contract.decimal_mark to the mark")


def test_lookalikes_that_come_in_pages_are_published_as_incomplete(folders):
    run = make_run(folders, [ACME], ["lookalikes"])
    element = {**found(ACME, "lookalikes", lookalike()), "pagination": {"limit": 1, "total": 2}}
    land(run, answer("lookalikes", element))
    manifest = stage(run)
    outcome = decide_outcome(Settings(), run, manifest, None, NOON)
    assert outcome.outcome == "some_failed"
    assert outcome.reason == f"lookalikes are incomplete for 1 company (such as {ACME}: 1 of 2)"
    assert [file.row_count for file in manifest.files if file.table == "lookalikes"] == [1]


@pytest.mark.parametrize(
    ("ambiguous", "step"), [(30, "Set contract.decimal_mark"), (5, "`firmlake query 'FROM rejects'`")]
)
def test_what_helps_most_values_of_a_field_is_named(ambiguous, step, folders):
    """Some values are odd in another way; they do not decide."""
    run = make_run(folders, [ACME], ["financials"])
    odd = [period(1900 + n, profitability__revenue="591.240" if n < ambiguous else "none") for n in range(35)]
    land(run, answer("financials", found(ACME, "financials", *odd), offset=0))
    outcome = decide_outcome(Settings(), run, stage(run), None, NOON)
    assert outcome.next_step.startswith(step)


@pytest.mark.parametrize(
    ("budget", "text", "step"),
    [
        (5, "run.max_credits = 5 leaves out 3 companies", "To go on, "),
        (0, "run.max_credits = 0 leaves out 3 companies", "To fetch them, set run.max_credits higher and "),
        (-1, "The budget that the run began with leaves out 3 companies", "To go on, "),
    ],
)
def test_what_a_budget_leaves_out_is_fetched_by_the_step_that_is_named(budget, text, step, folders):
    """A run that resumes without its budget has left out what it had left out before."""
    plan = make_run(folders, [ACME]).plan
    assert left_out(Settings(run=RunSettings(max_credits=budget)), plan, 3) == (text, (f"{step}{plan.again}",))
