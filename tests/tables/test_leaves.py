"""The section `contract` of the settings: misfits, types, scales, new and renamed fields."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from firmlake.core.errors import DriftError, SettingsError
from firmlake.core.settings import ContractSettings, Settings
from firmlake.enrich.finish import decide_outcome, open_staged
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


def parties(count):
    return [party(None, percentage=0.5, name=f"P{number}") for number in range(count)]


CHILD = {"company": {"country": "NL", "companyNumber": "26123581", "name": "Fille"}, "percentage": 0.5}
KINDS = """SELECT related_kind, related_country, related_company_number, coalesce(related_name, related_identifier_name)
FROM relationships ORDER BY position"""
STAKES = "SELECT stake_fraction FROM relationships ORDER BY position"
COUNTS = "SELECT count(stake_fraction), count(*) FROM relationships"
EMPLOYEES = "SELECT employee_count FROM financials ORDER BY end_date"
FULL_TIME = ("financials", [period(year, people__employees=12.5) for year in (2023, 2024)])
PER_CENT = (
    "relationships", [party(BOLT, percentage=45.0), party(None, percentage=0.5), party(None, percentage=33.333333)],
)  # fmt: skip
# Dataset and records, settings, outcome, and what the staged tables then say.
SCENES = {
    "a value that does not fit is discarded alone": (FULL_TIME, {}, "done", {
        EMPLOYEES: [(None,), (None,)],
        "SELECT extra_json->>'people.employees' FROM financials": [("12.5",)] * 2,
        "SELECT DISTINCT path, value, reason, effect, record_json FROM rejects": [
            ("people.employees", "12.5", "12.5 is no whole number", "value", None)
        ],
        "SELECT path, record_count FROM drift WHERE kind = 'discarded_value'": [("people.employees", 2)],
    }),
    "a record may be discarded for a value": (
        ("financials", [period(2024, people__employees=12.5), period(2023, people__newHires=0.5)]),
        {"values": {"financials.*": "discard_record", "financials.people.newHires": "discard_value"}}, "some_failed",
        {"SELECT year(end_date), employee_count, new_hire_count FROM financials": [(2023, 12, None)]},
    ),
    "a lookalike whose company is one text": (
        ("lookalikes", [{"companyId": "NL26123581", "score": 0.5}, {"companyId": "NL", "score": 0.5}]), {},
        "some_failed",
        {"SELECT lookalike_country, lookalike_company_number FROM lookalikes": [("NL", "26123581")]},
    ),
    "children under the name that a run told": (
        ("relationships", [CHILD, party(BOLT)]), {"rename": {"relationships.parents[].company": "identifier"}}, "done",
        {KINDS: [("company", "NL", "26123581", "Fille"), ("company", *BOLT, "Somebody")]},
    ),
    "a renamed company that is one text": (
        ("relationships", [{"entity": "NL-26123581", "name": "Fille"}, {"companyId": "NL26123581", "percentage": "x"}]),
        {"rename": {"relationships.entity": "identifier"}}, "done",
        {KINDS: [("company", "NL", "26123581", "Fille"), ("company", "NL", "26123581", None)]},
    ),
    "a rename beside children under another name": (
        ("relationships", [{"companyId": "NL26123581", "share": 0.5}, {"company": 1, "share": 0.5}]),
        {"rename": {"relationships.share": "percentage"}}, "done",
        {KINDS: [("company", "NL", "26123581", None), ("unknown", None, None, None)], STAKES: [(Decimal("0.5"),)] * 2},
    ),
    "scores of a hundred are said": (
        ("lookalikes", [lookalike(BOLT, 0.07), lookalike(ACME, 57.1)]), {}, "done",
        {"SELECT path, example FROM drift WHERE kind = 'other_scale'": [("score", "57.1")]},
    ),
    "and converted exactly": (
        ("lookalikes", [lookalike(BOLT, 0.07), lookalike(ACME, 57.1)]), {"scales": {"lookalikes.score": 100}}, "done",
        {"SELECT score FROM lookalikes ORDER BY rank": [(0.0007,), (0.571,)]},
    ),
}  # fmt: skip


_SLOW = ("scores of a hundred are said", "and converted exactly")


@pytest.mark.parametrize("name", [*(name for name in SCENES if name not in _SLOW), *slow(*_SLOW)])
def test_a_setting_says_what_becomes_of_a_value(folders, name):
    (dataset, records), contract, outcome, expected = SCENES[name]
    settings = Settings(contract=ContractSettings(**contract))
    run = land_run(folders, 0, {ACME: {dataset: records}}).read_by(settings.contract)
    manifest = stage(run)
    assert decide_outcome(settings, run, manifest, None, NOON).outcome == outcome
    with open_staged(settings, run, manifest.files) as staged:
        assert {sql: staged.execute(sql).fetchall() for sql in expected} == expected


@pytest.mark.slow
def test_a_replay_and_the_next_run_read_what_is_held_by_other_settings(folders):
    """Without a request, or from equal answers."""
    dataset, records = FULL_TIME
    run_of(folders, dataset, *records)
    types = {"financials.employee_count": "decimal"}
    run_of(folders, dataset, *records, day=1, types=types)
    assert query(folders, EMPLOYEES) == [(Decimal("12.5"),)] * 2
    replay(folders, lambda: NOON, contract=ContractSettings())
    assert query(folders, EMPLOYEES) == [(None,)] * 2
    replay(folders, lambda: NOON, contract=ContractSettings(types=types))
    assert query(folders, EMPLOYEES) == [(Decimal("12.5"),)] * 2
    assert all(check.agrees for check in verify(folders, lambda: NOON))


@pytest.mark.parametrize(
    ("records", "contract", "kept"),
    [
        ([party(None, percentage=each, name=str(each)) for each in (0.5, 1.2, 1.9)], {}, 0),
        ([*parties(12), party(None, percentage=51.0)], {}, 12),
        *slow(([*parties(2), party(None, percentage=51.0)], {"scales": {"relationships.stake_fraction": 1}}, 2)),
    ],
    ids=["of three, two are beyond 1", "an error among many", "a scale that is vouched for"],
)
def test_small_percentages_leave_their_field_empty_and_one_error_leaves_the_others(folders, records, contract, kept):
    assert run_of(folders, "relationships", *records, **contract) == "done"
    assert query(folders, COUNTS) == [(kept, len(records))]


def test_shares_in_doubt_are_told_judged_by_what_came_before_and_converted_by_one_setting(folders):
    """A share of 0.5 among percentages may be half a per cent, so all leave their field empty."""
    dataset, records = PER_CENT
    run_of(folders, dataset, *records)
    given = [("45.0",), ("0.5",), ("33.333333",)]
    assert query(folders, STAKES) == [(None,)] * 3
    assert query(folders, "SELECT extra_json->>'percentage' FROM relationships ORDER BY position") == given
    assert query(folders, "SELECT value FROM rejects WHERE effect = 'value' ORDER BY position") == given
    assert query(folders, "SELECT kind, record_count FROM drift WHERE path LIKE '%percentage' ORDER BY ALL") == [
        ("discarded_value", 2), ("other_scale", 2), ("withheld_value", 1),
    ]  # fmt: skip
    [line] = read_status(folders).last_run.doubts
    assert "stake_fraction is beyond 1 in 2 records, where it was discarded; values up to 2 (1) may be" in line
    assert 'contract.scales = {"relationships.stake_fraction" = 100}, or 1 if it does not, then `firmlake rep' in line
    run_of(folders, dataset, party(None, percentage=0.25), day=1, company=BOLT)
    assert query(folders, COUNTS) == [(0, 4)]
    doubt = "stake_fraction was discarded in 1 record, because earlier values are beyond 1"
    assert doubt in read_status(folders).last_run.doubts[0]
    replay(folders, lambda: NOON, contract=ContractSettings(scales={"relationships.stake_fraction": 100}))
    converted = query(folders, "SELECT stake_fraction FROM relationships ORDER BY stake_fraction")
    assert converted == [(Decimal(value),) for value in ("0.0025", "0.005", "0.333333", "0.45")]
    assert query(folders, "SELECT count(*) FROM rejects") == [(0,)]


@pytest.mark.slow
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


def test_a_run_may_be_stopped_and_publishes_nothing(folders):
    contract = {"values": {"*": "stop"}, "new_fields": {"financials.*": "freeze"}}
    for day, record, field in ((0, period(people__employees=12.5), "employees"), (1, period(unheardOf=1), "unheardOf")):
        with pytest.raises(DriftError, match=field) as stopped:
            run_of(folders, "financials", record, day=day, **contract)
        assert "contract." in stopped.value.next_step
        assert read_status(folders).next_step == stopped.value.next_step, "status gives the same advice"
    assert run_of(folders, "financials", period(), day=2, **contract) == "done"


@pytest.mark.parametrize(
    ("section", "theirs", "ours"),
    [
        ("types", "financials.employees", "decimal"),
        ("types", "financials.revenue", "decimal"),
        ("scales", "financials.revenue", 100),
        ("values", "nonsense.*", "stop"),
        *(("rename", "financials.netResult", ours) for ours in ("profitability.netProfits", "", "people.netProfit")),
    ],
)
def test_a_pattern_or_a_name_of_no_field_is_refused(section, theirs, ours):
    with pytest.raises(SettingsError, match=rf"contract\.{section}: '{re.escape(theirs)}'.* names no field"):
        check_contract(ContractSettings(**{section: {theirs: ours}}))


@pytest.mark.parametrize(
    ("theirs", "nearest"),
    [
        ("relationships.children.company", "relationships.company"),
        ("relationships.children[].details.company", "relationships.company"),
        ("relationships.children[]", "relationships.KEY"),
    ],
)
def test_a_place_that_no_record_can_have_is_refused_and_the_nearest_named(theirs, nearest):
    with pytest.raises(SettingsError, match="nothing would be renamed") as refused:
        check_contract(ContractSettings(rename={theirs: "identifier"}))
    assert f'{{"{nearest}" = "identifier"}}' in refused.value.next_step


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


@pytest.mark.slow
def test_a_renamed_field_is_read_from_the_records_before_and_after_it(folders):
    renamed = [with_key(period(1900 + number), "profitability", "netResult", "netProfit") for number in range(3)]
    run_of(folders, "financials", *renamed, period(2020))
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
