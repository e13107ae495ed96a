"""First contact with services that differ from the embedded one: check, then run with the settings that it wrote."""

from __future__ import annotations

from typing import Any

import pytest

from firmlake_sandbox.dialects import DIALECTS, combine
from reliability.support import Lake
from support import slow

from .conftest import rows_of

PLAIN = [name for name, dialect in DIALECTS.items() if not dialect.ending]
SLICE = (
    ("body-short", "paging-skip-take", "language-header", "companies-20", "records-200", "credits-renamed"),
    ("body-silent", "zero-required", "page-100", "oldest-first", "errors-nested", "gzip"),
)
"""A sample of dialects, several at once."""
_NAMES = ("related_identifier_name", "related_place")
UNSAID = {"children-company-id": _NAMES, "children-flat": _NAMES, "functions-new": ("function",)}
"""What a dialect leaves unsaid, or says otherwise: columns."""
NAMELESS = ({"nulls-omitted", "fields-added"}, {"empties-omitted", "fields-added"})
"""Each two leave persons without `identifier` but with undocumented fields: unknown rather than named parties."""


def resolve_names(dialects: tuple[str, ...]) -> list[str]:
    return [name for given in dialects for name in (combine(int(given[5:])) if ":" in given else [given])]


def assert_same(make_contact: Any, world: Lake, *dialects: str) -> Any:
    """Every value is that of the plain service, nobody is paid twice, and nothing is left to do."""
    contact = make_contact(*dialects)
    assert contact.check.code == 0, contact.check.out + contact.check.err
    assert contact.run.code == 0, contact.run.err
    ledger = contact.lake.ledger()
    assert ledger["companies_charged_again"] == 0
    assert contact.lake.call("verify", "--json").code == 0
    names = resolve_names(dialects)
    left_out = {column for name in names for column in UNSAID.get(name, ())}
    left_out |= {"related_kind"} if any(two <= {*names} for two in NAMELESS) else set()
    assert rows_of(contact.lake, left_out) == rows_of(world, left_out)
    return contact


@pytest.mark.parametrize("dialects", [SLICE[0], *slow((SLICE[1],))], ids="+".join)
def test_a_checked_service_gives_every_value(dialects: tuple[str, ...], make_contact: Any, world: Lake) -> None:
    assert_same(make_contact, world, *dialects)


@pytest.mark.reliability
@pytest.mark.parametrize("seed", range(40))
def test_combinations_give_every_value(seed: int, make_contact: Any, world: Lake) -> None:
    assert_same(make_contact, world, f"seed:{seed}")


@pytest.mark.slow
def test_nothing_differs_with_the_service_that_was_assumed(make_contact: Any) -> None:
    contact = make_contact()
    assert set(contact.verdicts.values()) == {"as_assumed", "not_observed"}
    assert contact.settings == {"api.totals": "company"}
    assert contact.check.content["credits_charged"] == 2, "the third company does not exist"
    ledger = contact.lake.ledger()
    assert ledger["credits_charged"] == contact.run.content["expected_credit_count"] + 2
    ((requests, charged),) = contact.lake.query(
        f"SELECT count(*), sum(credits_charged) FROM requests WHERE run_id = '{contact.check.content['run_id']}'"
    )
    assert (requests > 15, charged) == (True, 2), "what was asked before the run landed in it"


@pytest.mark.slow
def test_a_second_check_costs_nothing(make_contact: Any) -> None:
    contact = make_contact(runs=False)
    spent = contact.lake.ledger()["credits_charged"]
    again = contact.lake.call("check", "--json")
    assert again.code == 0
    assert contact.lake.ledger()["credits_charged"] == spent


# Endings that a dialect states.


def assert_ending(make_contact: Any, name: str, *, check: int, run: int) -> Any:
    contact = make_contact(name)
    assert (contact.check.code, contact.run.code) == (check, run), contact.check.out + contact.run.err
    assert contact.lake.ledger()["companies_charged_again"] == 0
    return contact


@pytest.mark.slow
def test_a_forbidden_dataset_needs_a_person_and_the_others_are_published(make_contact: Any, world: Lake) -> None:
    contact = assert_ending(make_contact, "forbidden", check=1, run=3)
    assert contact.verdicts["endpoints of relationships"] == "needs_you"
    rows = rows_of(contact.lake)
    assert rows["relationships"] == []
    assert {table: rows[table] for table in ("financials", "lookalikes")} == {
        table: rows_of(world)[table] for table in ("financials", "lookalikes")
    }


@pytest.mark.slow
def test_a_dataset_that_is_down_needs_a_person_and_the_others_are_published(make_contact: Any, world: Lake) -> None:
    contact = assert_ending(make_contact, "down", check=1, run=3)
    assert contact.verdicts["endpoints of lookalikes"] == "needs_you"
    rows = rows_of(contact.lake)
    assert rows["lookalikes"] == []
    assert rows["financials"] == rows_of(world)["financials"]


def test_where_no_bulk_request_is_understood_runs_ask_by_get(make_contact: Any, world: Lake) -> None:
    contact = make_contact("wrapped")
    assert contact.check.code == 0, contact.check.out
    assert contact.verdicts["bulk body"] == "covered"
    assert "not an array of elements" in contact.seen["bulk body"]
    assert contact.settings["api.requests.lookalikes"].startswith("GET /v1/companies/{country}/{number}/lookalikes")
    assert contact.run.code == 0, contact.run.err
    assert rows_of(contact.lake) == rows_of(world)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("decimal-integers", {"health_indicator", "employee_count", "reject_count"}),
        ("children-unknown", {"reject_count"}),
        ("health-hundred", {"health_indicator"}),
        ("language-default", {"name", "place", "related_identifier_name", "related_place", "related_name"}),
    ],
)
def test_what_a_dialect_costs_is_what_it_states(name: str, left_out: set[str], make_contact: Any, world: Lake) -> None:
    contact = assert_ending(make_contact, name, check=0, run=0)
    found, expected = rows_of(contact.lake, left_out), rows_of(world, left_out)
    apart = {"relationships"} if name == "children-unknown" else set()
    assert {table: rows for table, rows in found.items() if table not in apart} == {
        table: rows for table, rows in expected.items() if table not in apart
    }
    if name == "children-unknown":
        counts = "SELECT direction, related_kind = 'unknown', count(*) FROM relationships GROUP BY ALL ORDER BY ALL"
        children = {kind: count for direction, kind, count in contact.lake.query(counts) if direction == "child"}
        expected_children = world.query("SELECT count(*) FROM relationships WHERE direction = 'child'")[0][0]
        assert children.get(True, 0) <= expected_children


def test_credits_bound_a_check(make_contact: Any) -> None:
    contact = make_contact(check=("--companies", "1"), runs=False)
    assert contact.check.content["credits_charged"] == 1
    assert contact.verdicts["company not found"] == "not_observed"


def test_a_check_without_credits_asks_nothing(make_contact: Any) -> None:
    contact = make_contact(check=("--set", "run.max_credits=0"), runs=False)
    assert contact.check.code == 4
    assert "max_credits" in contact.check.err


def test_a_token_that_is_refused_ends_with_5(make_contact: Any) -> None:
    contact = make_contact(check=("--companies", "1"), runs=False)
    contact.lake.environment["FIRMLAKE_API_TOKEN"] = "wrong"
    assert contact.lake.call("check").code == 5


@pytest.mark.slow
def test_a_person_sees_a_table_and_what_to_do(make_contact: Any) -> None:
    contact = make_contact("forbidden", check=("--companies", "1"), runs=False)
    shown = contact.lake.call("check", "--company", "BE 0403.091.220").out
    assert "endpoints of relationships" in shown
    assert "differs, needs you" in shown
    assert "- endpoints of relationships: GET 403, POST 403: forbidden. Ask the service to allow or repair" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--company", "0403227515"), "does not begin with BE, NL or FR"),
        (("--company", "BE 0403227516"), "0403227516"),
        (("--company", "NL 33011433", "--company", "FR 552032534", "--companies", "1"), "2 companies are named"),
    ],
)
def test_companies_that_cannot_be_asked_for_are_a_matter_of_usage(
    options: tuple[str, ...], said: str, make_contact: Any
) -> None:
    contact = make_contact(check=options, runs=False)
    assert contact.check.code == 2
    assert said in contact.check.err
    assert contact.lake.ledger()["requests"] == 0
