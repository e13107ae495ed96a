"""First contact with services that differ from the embedded one: check, then run with the settings that it wrote."""

from __future__ import annotations

from typing import Any

import pytest

from firmlake_sandbox.dialects import DIALECTS
from reliability.support import Lake

from .conftest import rows_of

PLAIN = [name for name, dialect in DIALECTS.items() if not dialect.ending]
SLICE = (
    ("body-short", "paging-skip-take", "language-header", "companies-20", "records-200", "credits-renamed"),
    ("body-silent", "zero-required", "page-100", "oldest-first", "errors-nested", "gzip"),
)
"""A sample of dialects, several at once."""


def assert_same(make_contact: Any, world: Lake, *dialects: str) -> Any:
    """Every value is that of the plain service, nobody is paid twice, and nothing is left to do."""
    contact = make_contact(*dialects)
    assert contact.check.code == 0, contact.check.out + contact.check.err
    assert contact.run.code == 0, contact.run.err
    ledger = contact.lake.ledger()
    assert ledger["companies_charged_again"] == 0
    assert contact.lake.call("verify", "--json").code == 0
    assert rows_of(contact.lake) == rows_of(world)
    return contact


@pytest.mark.parametrize("dialects", SLICE, ids="+".join)
def test_a_checked_service_gives_every_value(dialects: tuple[str, ...], make_contact: Any, world: Lake) -> None:
    assert_same(make_contact, world, *dialects)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_each_dialect_gives_every_value(name: str, make_contact: Any, world: Lake) -> None:
    assert_same(make_contact, world, name)


@pytest.mark.reliability
@pytest.mark.parametrize("seed", range(40))
def test_combinations_give_every_value(seed: int, make_contact: Any, world: Lake) -> None:
    assert_same(make_contact, world, f"seed:{seed}")


def test_nothing_differs_with_the_service_that_was_assumed(make_contact: Any) -> None:
    contact = make_contact()
    assert set(contact.verdicts.values()) == {"as_assumed", "not_observed"}
    assert contact.settings == {}
    assert contact.check.content["credits_charged"] == 2, "the third company does not exist"
    ledger = contact.lake.ledger()
    assert ledger["credits_charged"] == contact.run.content["expected_credit_count"] + 2
    ((requests, charged),) = contact.lake.query(
        f"SELECT count(*), sum(credits_charged) FROM requests WHERE run_id = '{contact.check.content['run_id']}'"
    )
    assert (requests > 15, charged) == (True, 2), "what was asked before the run landed in it"


def test_a_second_check_costs_nothing(make_contact: Any) -> None:
    contact = make_contact()
    spent = contact.lake.ledger()["credits_charged"]
    again = contact.lake.call("check", "--json")
    assert again.code == 0
    assert contact.lake.ledger()["credits_charged"] == spent
