"""The section `contract` of the settings: what becomes of values that do not fit, types, scales and new fields."""

from __future__ import annotations

from decimal import Decimal

import pytest

from firmlake.core.errors import DriftError, SettingsError
from firmlake.core.settings import ContractSettings, Settings
from firmlake.enrich.finish import decide_outcome
from firmlake.rebuild.replay import replay
from firmlake.rebuild.verify import verify
from firmlake.report.status import read_status
from firmlake.tables.leaves import check_contract, leaves_of
from support import (
    ACME,
    BOLT,
    DAY,
    NOON,
    land_run,
    lookalike,
    party,
    period,
    publish_by_rules,
    query,
    slow,
    stage,
    with_views,
)


def run_of(folders, dataset, *records, day=0, company=ACME, **contract):
    """Fetch these records under settings, and publish them."""
    settings = Settings(contract=ContractSettings(**contract))
    return publish_by_rules(land_run(folders, day, {company: {dataset: records}}), settings, NOON + day * DAY)


FULL_TIME = [period(year, people__employees=12.5) for year in (2023, 2024)]
EMPLOYEES = "SELECT employee_count FROM financials ORDER BY end_date"


def test_by_default_a_value_that_does_not_fit_is_discarded_and_the_run_is_done(folders):
    assert run_of(folders, "financials", *FULL_TIME) == "done"
    assert query(folders, EMPLOYEES) == [(None,), (None,)]
    assert query(folders, "SELECT extra_json->>'people.employees' FROM financials") == [("12.5",)] * 2
    assert query(folders, "SELECT DISTINCT path, value, reason, effect, record_json FROM rejects") == [
        ("people.employees", "12.5", "12.5 is no whole number", "value", None)
    ]
    assert query(folders, "SELECT path, record_count FROM drift WHERE kind = 'discarded_value'") == [
        ("people.employees", 2)
    ]


@pytest.mark.slow
def test_a_replay_reads_what_is_held_by_other_settings_without_a_request(folders):
    run_of(folders, "financials", *FULL_TIME)
    contract = ContractSettings(types={"financials.employee_count": "decimal"})
    replay(folders, lambda: NOON, contract=contract)
    assert query(folders, EMPLOYEES) == [(Decimal("12.5"),)] * 2
    assert all(check.agrees for check in verify(folders, lambda: NOON))


@pytest.mark.slow
def test_the_next_run_reads_equal_answers_again_where_the_settings_changed(folders):
    run_of(folders, "financials", *FULL_TIME)
    run_of(folders, "financials", *FULL_TIME, day=1, types={"financials.employee_count": "decimal"})
    assert query(folders, EMPLOYEES) == [(Decimal("12.5"),)] * 2


STAKES = "SELECT stake_fraction FROM relationships ORDER BY position"
PER_CENT = [party(BOLT, percentage=45.0), party(None, percentage=0.5), party(None, percentage=33.333333)]


def test_shares_in_per_cent_leave_the_field_empty_and_one_setting_converts_them(folders):
    assert run_of(folders, "relationships", *PER_CENT) == "done"
    assert query(folders, STAKES) == [(None,)] * 3, "0.5 may be half a per cent"
    assert query(folders, "SELECT extra_json->>'percentage' FROM relationships ORDER BY position") == [
        ("45.0",), ("0.5",), ("33.333333",),
    ]  # fmt: skip
    assert query(folders, "SELECT value FROM rejects WHERE effect = 'value' ORDER BY position") == [
        ("45.0",), ("0.5",), ("33.333333",),
    ]  # fmt: skip
    assert query(folders, "SELECT kind, record_count FROM drift WHERE path LIKE '%percentage' ORDER BY ALL") == [
        ("discarded_value", 2), ("other_scale", 2), ("withheld_value", 1),
    ]  # fmt: skip
    [line] = read_status(folders).last_run.doubts
    assert (
        "stake_fraction is beyond 1 in 2 records, where it was discarded; values up to 2 (1) may be per cent too"
        in line
    )
    assert (
        'contract.scales = {"relationships.stake_fraction" = 100}, or 1 if it does not, then `firmlake replay`' in line
    )
    assert all(check.agrees for check in verify(folders, lambda: NOON))
    replay(folders, lambda: NOON, contract=ContractSettings(scales={"relationships.stake_fraction": 100}))
    assert query(folders, STAKES) == [(Decimal("0.45"),), (Decimal("0.005"),), (Decimal("0.333333"),)]
    assert query(folders, "SELECT count(*) FROM rejects") == [(0,)]


@pytest.mark.slow
def test_shares_are_judged_by_what_the_service_has_shown_before(folders):
    run_of(folders, "relationships", *PER_CENT)
    run_of(folders, "relationships", party(None, percentage=0.25), day=1, company=BOLT)
    assert query(folders, "SELECT count(stake_fraction), count(*) FROM relationships") == [(0, 4)]
    assert (
        "stake_fraction was discarded in 1 record, because earlier values are beyond 1"
        in (read_status(folders).last_run.doubts[0])
    )


@pytest.mark.parametrize(("parents", "scales"), [(12, {}), *slow((2, {"relationships.stake_fraction": 1}))])
def test_an_error_among_many_shares_or_a_scale_that_is_vouched_for_leaves_the_others(folders, parents, scales):
    records = [party(None, percentage=0.5, name=f"P{number}") for number in range(parents)]
    run_of(folders, "relationships", *records, party(None, percentage=51.0), scales=scales)
    assert query(folders, "SELECT count(stake_fraction), count(*) FROM relationships") == [(parents, parents + 1)]


def test_a_stake_of_120_per_cent_among_fractions_is_kept_and_found(folders):
    """It counts as 1, so that the company keeps its owner."""
    records = [party(None, percentage=0.05, name=f"P{number}") for number in range(12)]
    run_of(folders, "relationships", *records, party(BOLT, percentage=1.2))
    with_views(folders)
    assert query(folders, "SELECT stake_fraction FROM relationships WHERE stake_fraction > 1") == [(Decimal("1.2"),)]
    assert query(folders, "SELECT max(stake) FROM shareholdings") == [(1.0,)]
    found = "SELECT company_number, evidence->>'stake_by_child' FROM findings WHERE check_name = 'stake_range'"
    assert query(folders, found) == [(ACME.company_number, "1.2")]
    assert "stake_fraction is beyond 1 in 1 record" in read_status(folders).last_run.doubts[0]


def test_small_percentages_leave_the_field_empty_too(folders):
    """Of 0.5, 1.2 and 1.9 two are beyond 1, so all may be per cent."""
    run_of(folders, "relationships", *(party(None, percentage=each, name=str(each)) for each in (0.5, 1.2, 1.9)))
    assert query(folders, "SELECT count(stake_fraction), count(*) FROM relationships") == [(0, 3)]


@pytest.mark.slow
def test_scores_of_a_hundred_are_said_and_converted_exactly(folders):
    records = [lookalike(BOLT, 0.07), lookalike(ACME, 57.1)]
    run_of(folders, "lookalikes", *records)
    assert query(folders, "SELECT path, example FROM drift WHERE kind = 'other_scale'") == [("score", "57.1")]
    run_of(folders, "lookalikes", *records, day=1, scales={"lookalikes.score": 100})
    assert query(folders, "SELECT score FROM lookalikes ORDER BY rank") == [(0.0007,), (0.571,)]


def test_a_record_may_be_discarded_for_a_value(folders):
    values = {"financials.*": "discard_record", "financials.people.newHires": "discard_value"}
    records = [period(2024, people__employees=12.5), period(2023, people__newHires=0.5)]
    assert run_of(folders, "financials", *records, values=values) == "some_failed"
    assert query(folders, "SELECT year(end_date), employee_count, new_hire_count FROM financials") == [(2023, 12, None)]


@pytest.mark.parametrize(
    ("record", "contract"),
    [
        (period(people__employees=12.5), {"values": {"*": "stop"}}),
        ({**period(), "unheardOf": 1}, {"new_fields": {"financials.*": "freeze"}}),
    ],
)
def test_a_run_may_be_stopped_and_publishes_nothing(folders, record, contract):
    with pytest.raises(DriftError, match=r"people\.employees|unheardOf") as stopped:
        run_of(folders, "financials", record, **contract)
    assert "contract." in stopped.value.next_step
    status = read_status(folders)
    assert status.next_step == stopped.value.next_step, "status gives the same advice"
    assert run_of(folders, "financials", period(), day=1, **contract) == "done"


@pytest.mark.parametrize(
    "contract",
    [
        {"types": {"financials.employees": "decimal"}},
        {"types": {"financials.revenue": "decimal"}},
        {"scales": {"financials.revenue": 100}},
        {"values": {"nonsense.*": "stop"}},
    ],
)
def test_a_pattern_that_names_no_field_is_refused(contract):
    with pytest.raises(SettingsError, match=next(iter(next(iter(contract.values()))))):
        check_contract(ContractSettings(**contract))


def test_what_identifies_a_record_takes_it_along_whatever_the_settings_say():
    leaves = leaves_of("financials", ContractSettings(values={"*": "discard_value"}))
    assert {leaf.name for leaf in leaves if leaf.mode == "discard_record"} == {"start_date", "end_date"}


# --- renamed and absent fields ---------------------------------------------------------------------------------------

NET_RESULT = {"financials.profitability.netResult": "profitability.netProfit"}
NET_PROFITS = "SELECT net_profit, extra_json FROM financials ORDER BY end_date"


def with_key(record, group, theirs, ours):
    """The record with a key of one of its objects under another name."""
    part = {theirs if key == ours else key: value for key, value in record[group].items()}
    return record | {group: part}


def years(count, group="profitability", theirs="netResult", ours="netProfit"):
    return [with_key(period(1900 + number), group, theirs, ours) for number in range(count)]


def outcome_of(folders, *records, **contract):
    settings = Settings(contract=ContractSettings(**contract))
    run = land_run(folders, 0, {ACME: {"financials": records}}).read_by(settings.contract)
    return decide_outcome(settings, run, stage(run), "", NOON)


def test_a_field_that_no_record_has_is_named_with_what_all_records_have_instead(folders):
    outcome = outcome_of(folders, *years(100))
    assert outcome.outcome == "some_failed"
    assert outcome.reason == (
        "financials: profitability.netProfit is in none of 100 records, and profitability.netResult is in all"
    )
    assert outcome.next_step.startswith(
        'If they are the same, set contract.rename = {"financials.profitability.netResult" = "profitability.netProfit"}'
    )


@pytest.mark.parametrize(
    ("records", "contract"),
    [
        (years(99), {}),
        ([*years(100), period(2020)], {}),
        ([*years(100), period(2020, profitability__netProfit=None)], {}),
        (years(100), {"values": {"financials.net_profit": "discard_value"}}),
        (years(100), {"rename": NET_RESULT}),
    ],
    ids=["few records", "one has it", "one has it as null", "known to be absent", "renamed"],
)
def test_nothing_is_said_of_a_field_that_is_there_or_explained(folders, records, contract):
    assert outcome_of(folders, *records, **contract).outcome == "done"


def test_a_renamed_field_is_read_from_the_records_before_and_after_it(folders):
    run_of(folders, "financials", *years(3), period(2020))
    before = query(folders, NET_PROFITS)
    usual = Decimal(str(period(2020)["profitability"]["netProfit"]))
    assert [value for value, _ in before] == [None, None, None, usual]
    contract = ContractSettings(rename=NET_RESULT)
    replay(folders, lambda: NOON, contract=contract)
    expected = [period(1900 + number)["profitability"]["netProfit"] for number in range(3)]
    after = query(folders, NET_PROFITS)
    assert [value for value, _ in after][:3] == [Decimal(str(value)) for value in expected]
    assert after[3][0] == before[3][0]
    assert {kept for _, kept in after} == {None}


@pytest.mark.parametrize("ours", ["profitability.netProfits", "", "people.netProfit"])
def test_a_rename_to_no_field_is_a_mistake(ours):
    with pytest.raises(SettingsError, match=r"contract\.rename: 'financials\.netResult' = .* names no field"):
        check_contract(ContractSettings(rename={"financials.netResult": ours}))
