"""Why a run is not complete, in words that name what helps first; and when nothing is said."""

from __future__ import annotations

import pytest

from firmlake.core.settings import ContractSettings, RunSettings, Settings
from firmlake.enrich.finish import decide_outcome
from firmlake.report.causes import left_out
from lake import Lake
from support import ACME, NOON, answer, found, header, land, lookalike, make_run, party, period, stage

AGAIN = "`firmlake redrive` asks again"
PERSON = party(None, percentage=0.1, name="Jan")
NET_RESULT = {"financials.profitability.netResult": "profitability.netProfit"}


def given_up(code, error="..."):
    return header(companies=[ACME], kind="given_up", status=None, code=code, error=error), b""


def financials(*records):
    return answer("financials", found(ACME, "financials", *records), offset=0)


def parents(unknown, known):
    records = [{"entity": n, "function": "SHAREHOLDER"} for n in range(unknown)] + [PERSON] * known
    return answer("relationships", found(ACME, "relationships", *records))


def revenues(*values):
    return financials(*(period(1900 + n, profitability__revenue=value) for n, value in enumerate(values)))


def renamed(count, *others):
    """Records with a key under another name, and others."""
    records = [period(1900 + number) for number in range(count)]
    for record in records:
        record["profitability"]["netResult"] = record["profitability"].pop("netProfit")
    return financials(*records, *others)


def moved(count):
    """Records with an object inside another one, from where no rename brings it back."""
    records = [period(1900 + number) for number in range(count)]
    for record in records:
        record["liquidity"]["profit"] = record.pop("profitability")
    return financials(*records)


def fille(child, count=11):
    return answer("relationships", found(ACME, "relationships", *[{**child, "name": "Fille"}] * count))


UNREAD = (
    "relationships: 11 of 11 parents do not say in a documented way who they are, and have parents[].company instead"
)
UNFIT = "1 company has records that do not fit"
TOLD = {
    # what landed, settings of reading, the reason, and how the next step begins or what it has
    "a paging parameter": (
        given_up("wrong_page"), {}, "1 company failed",
        ("^Write {limit} and {offset} in api.requests.financials", AGAIN),
    ),
    "a message": (
        given_up("other_message"), {}, "1 company failed",
        ("^If the message means that the company is unknown, set api.names", AGAIN),
    ),
    "an empty answer": (
        given_up("empty_answer"), {}, "1 company failed",
        ("^If the service leaves out companies that it does not know", AGAIN),
    ),
    "a failure that names the company": (
        given_up("request_failed", f"status 500: no company {ACME.company_number.lstrip('0')}"), {},
        f"1 company failed (status 500: no company {ACME.company_number.lstrip('0')})",
        ("^If the service answers so where it does not know a company, set api.names.not_found_message to", AGAIN),
    ),
    "a failed request": (given_up("request_failed"), {}, "1 company failed", (f"^{AGAIN}",)),
    "a day in another form": (
        financials(period(endDate="31 Dec 2024")), {}, f"{UNFIT} (financials: endDate)",
        ("`firmlake replay` after an update that reads it, or `firmlake redrive` once",),
    ),
    "a day in either order": (
        financials(period(endDate="03/04/2024")), {}, f"{UNFIT} (financials: endDate)",
        ('set contract.date_order to "day" or "month"',),
    ),
    "a day that is missing": (
        financials(period(endDate=None)), {}, f"{UNFIT} (financials: endDate)",
        (f"{AGAIN} once the service sends what is missing",),
    ),
    "a record discarded on purpose": (
        financials(period(people__employees="many")), {"values": {"financials.*": "discard_record"}},
        f"{UNFIT} (financials: people.employees)",
        ("remove discard_record from contract.values, then run `firmlake replay`",),
    ),
    "a record that is none": (financials("none"), {}, UNFIT, ("`firmlake replay` after an update that reads it",)),
    "parents of an unknown form": (
        parents(11, 90), {},
        "relationships: 11 of 101 parents do not say in a documented way who they are, and have parents[].entity "
        "instead",
        ('contract.values = {"relationships.related_company_number" = "discard_value"}',),
    ),
    "parents under another name": (
        fille({"company": {"country": "NL", "companyNumber": "26123581"}}), {}, UNREAD,
        ('^If company names the company, set contract.rename = {"relationships.company" = "identifier"}, then `firmla',
         "discard_value"),
    ),
    "parents whose name a rename misses": (
        fille({"company": "NL26123581"}), {"rename": {"relationships.compny": "identifier"}},
        UNREAD, ('^If company names the company, set contract.rename = {"relationships.company" = ',),
    ),
    "a single parent whose name a rename misses": (
        fille({"company": "NL26123581"}, 1), {"rename": {"relationships.compny": "identifier"}},
        UNREAD.replace("11", "1"), ('contract.rename = {"relationships.company" = "identifier"}',),
    ),
    "parents in parts under another name": (
        fille({"companyId": {"land": "NL", "nummer": "26123581"}}), {},
        "relationships: 11 of 11 parents do not say in a documented way who they are, and have "
        "parents[].companyId.land, parents[].companyId.nummer instead",
        ('^If companyId.land and companyId.nummer names the company, set contract.rename = {"relationships.companyId.'
         'land" = "identifier.country", "relationships.companyId.nummer" = "identifier.companyNumber"}, then `firm',),
    ),
    "a renamed text that cannot be read": (
        fille({"companyId": "26123581"}), {"rename": {"relationships.companyId": "identifier"}},
        "relationships: 11 of 11 parents do not say in a documented way who they are", ("discard_value",),
    ),
    "values that have two readings": (
        revenues(*["591.240"] * 11, *[5] * 90), {}, "financials.revenue could not be read in 11 of 101 values",
        ("^Set contract.decimal_mark to the mark",),
    ),
    "days in either order": (
        financials(*[period(2000 + year, dateReceived="03/04/2024") for year in range(11)]), {},
        "financials.date_received could not be read in 11 of 11 values", ('^Set contract.date_order to "day" or',),
    ),
    # Some values are odd in another way; they do not decide.
    "mostly two readings": (
        revenues(*["591.240"] * 30, *["none"] * 5), {}, "financials.revenue could not be read in 35 of 35 values",
        ("^Set contract.decimal_mark",),
    ),
    "mostly another": (
        revenues(*["591.240"] * 5, *["none"] * 30), {}, "financials.revenue could not be read in 35 of 35 values",
        ("^`firmlake query 'FROM rejects'`",),
    ),
    "lookalikes in pages": (
        answer("lookalikes", {**found(ACME, "lookalikes", lookalike()), "pagination": {"limit": 1, "total": 2}}), {},
        f"lookalikes are incomplete for 1 company (such as {ACME}: 1 of 2)", (),
    ),
    "a field under another name": (
        renamed(100), {},
        "financials: profitability.netProfit is in none of 100 records, and profitability.netResult is in all",
        ('^If they are the same, set contract.rename = {"financials.profitability.netResult" = ',),
    ),
    "an object that no rename reaches": (
        moved(100), {}, "financials: profitability is in none of 100 records, and liquidity.profit is in all",
        ('^Ask the service for it; if it has no such field, contract.values = {"financials.profitability.*" = ',),
    ),
}  # fmt: skip
SILENT = {
    "few parents of an unknown form": (fille({"company": "NL26123581"}, 9), {}),
    "a tenth of the parents": (parents(10, 91), {}),
    "parents known to be so": (
        parents(11, 90), {"values": {"relationships.related_company_number": "discard_value"}}
    ),
    "a tenth of the values": (revenues(*["591.240"] * 10, *[5] * 91), {}),
    "values known to be so": (
        revenues(*["591.240"] * 11, *[5] * 90), {"values": {"financials.revenue": "discard_value"}}
    ),
    "few records lack a field": (renamed(99), {}),
    "one has it": (renamed(100, period(2020)), {}),
    "one has it as null": (renamed(100, period(2020, profitability__netProfit=None)), {}),
    "known to be absent": (renamed(100), {"values": {"financials.net_profit": "discard_value"}}),
    "renamed by a setting": (renamed(100), {"rename": NET_RESULT}),
}  # fmt: skip


def decide(folders, landed, contract):
    run = make_run(folders, [ACME], [landed[0].dataset]).read_by(ContractSettings(**contract))
    land(run, landed)
    return decide_outcome(Settings(), run, stage(run), None, NOON)


@pytest.mark.parametrize("name", TOLD)
def test_the_reason_is_told_and_what_removes_it_is_named_first(name, folders):
    landed, contract, reason, steps = TOLD[name]
    outcome = decide(folders, landed, contract)
    assert (outcome.outcome, outcome.reason) == ("some_failed", reason)
    for step in steps:
        assert outcome.next_step.startswith(step[1:]) if step[0] == "^" else step in outcome.next_step


@pytest.mark.parametrize("name", SILENT)
def test_nothing_is_said_of_what_is_rare_or_was_chosen(name, folders):
    assert decide(folders, *SILENT[name]).outcome == "done"


@pytest.mark.slow
def test_many_lines_that_are_refused_or_gone_are_told_in_the_next_version_of_a_list_unless_it_is_a_sample(
    sandbox, tmp_path
):
    """A file that is half written when the schedule reads it would otherwise end as done."""
    lake = Lake(tmp_path, sandbox, 30, run__datasets="lookalikes")
    companies = lake.numbers

    def told(known, *options, refused=0):
        lake.write([*companies[:known], *[("BE", "none")] * refused])
        said = lake.run(*options).content
        return said["outcome"], said["reason"]

    assert told(30)[0] == "done"
    assert told(20, "--sample", "20")[0] == "done"
    assert told(26, "--list-name", "another", refused=4)[0] == "done"
    assert told(27, refused=3) == ("done", ""), "at most a tenth"
    assert told(26, refused=4)[0] == "done", "one more than before"
    assert told(30)[0] == "done"
    outcome, reason = told(20)
    assert (outcome, reason.partition(", so ")[0]) == (
        "some_failed", "list.csv names 20 companies, and 30 in the version before",
    )  # fmt: skip
    outcome, reason = told(16, refused=4)
    assert (outcome, reason.partition(", so ")[0]) == (
        "some_failed", "4 of 20 lines of list.csv were refused, and 0 in the version before",
    )  # fmt: skip


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
    cause = left_out(Settings(run=RunSettings(max_credits=budget)), plan, 3)
    assert (cause.text, cause.next_step) == (text, f"{step}{plan.again}")
