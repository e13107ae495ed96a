"""Beneficial owners by Regulation (EU) 2024/1624, as one finds them by hand and by plain Python."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from .figures import Figures, list_of, own


def world(*stakes, listed):
    """A warehouse with stakes (child, owner, fraction); an owner is a company by number or a person by name."""
    made = Figures()
    for child, owner, stake in stakes:
        own(made, child, **{"parent" if isinstance(owner, int) else "name": owner}, stake=stake)
    list_of(made, "customers", *((company, "1") for company in listed))
    return made.made()


def listed(made, columns="owner_name, effective_fraction::DOUBLE, basis", of="customers"):
    return made.ask(f"SELECT {columns} FROM beneficial_owners('{of}') ORDER BY ALL")


def test_stakes_are_multiplied_along_chains_and_added_over_them():
    made = world(
        (1, "Ann", 0.2), (1, 2, 0.3), (1, 3, 0.5), (2, "Ann", 0.4), (2, "Bob", 0.6),
        (3, 4, 0.51), (3, "Cid", 0.49), (4, "Dee", 1), listed=(1, 4),
    )  # fmt: skip
    columns = (
        "company_number[-1:], owner_name, effective_fraction::DOUBLE, basis, presumed_same, "
        "presumed_same_fraction::DOUBLE, capital_explained::DOUBLE"
    )
    assert listed(made, columns, "Customers") == [
        # Ann directly 20 % and through 2 30 % x 40 %: together 32 %, if it is one person.
        ("1", "Ann", 0.12, "ownership if equal names are one person", 1, 0.32, 1.0),
        ("1", "Ann", 0.2, "ownership if equal names are one person", 1, 0.32, 1.0),
        # Bob has 18 %, but more than half of 2, which holds 30 %.
        ("1", "Bob", 0.18, "control of owners", 0, 0.18, 1.0),
        # Cid has 24.5 %. Dee has 51 % of 50 %.
        ("1", "Dee", 0.255, "ownership", 0, 0.255, 1.0),
        ("4", "Dee", 1.0, "ownership", 0, 1.0, 1.0),
    ]


def test_a_chain_of_majorities_is_control_and_a_company_without_owners_is_told():
    made = world((1, 2, 0.6), (2, 3, 0.6), (3, "Ann", 0.6), (1, 9, 0.4), listed=(1,))
    assert listed(made, "owner_name, effective_fraction::DOUBLE, basis, capital_explained::DOUBLE") == [
        ("Ann", 0.216, "control", 0.216),
        ("company 9", 0.4, "no owner known above it", 0.216),
    ]


def test_companies_under_one_control_are_added_up_art_54_a():
    """Ann controls 2 and 3, which directly hold 13 % and 12 %; Bob only 3, and 12 % himself: 24 %."""
    made = world((1, 2, 0.13), (1, 3, 0.12), (2, "Ann", 0.51), (3, 4, 0.51), (4, "Bob", 0.51), (1, "Bob", 0.12),
                 (2, 5, 0.49), (5, 3, 0.51), (3, "Ann", 0.3), listed=(1,))  # fmt: skip
    assert listed(made) == []
    made = world((1, 2, 0.13), (1, 3, 0.12), (2, 6, 0.51), (3, 6, 0.51), (6, "Ann", 0.51), listed=(1,))
    assert listed(made) == [("Ann", 0.065025, "control of owners")]


def test_an_own_share_makes_the_stakes_of_the_others_larger():
    """2 holds 20 % of itself, so Ann's 40 % are half; 3 is owned by itself alone and so the last owner of 30 %."""
    made = world((1, 2, 0.5), (2, 2, 0.2), (2, "Ann", 0.4), (1, 3, 0.3), (3, 3, 0.4), listed=(1,))
    assert listed(made) == [("Ann", 0.25, "ownership"), ("company 3", 0.3, "no owner known above it")]


def test_one_company_may_be_asked_for_by_its_id():
    made = world((1, "Ann", 1), (2, "Bob", 1), listed=(1,))
    assert listed(made, "company_number, owner_name", "NL00000002") == [("00000002", "Bob")]
    assert listed(made, of="nobody") == []


@pytest.mark.parametrize("seed", range(3))
def test_owners_in_a_drawn_world_with_rings_are_those_that_plain_python_finds(seed):
    chance = random.Random(seed)
    companies = range(1, 41)
    stakes = {}
    for company in companies:
        left = 1.0
        for owner in [chance.choice(companies) for _ in range(chance.randint(0, 2))] + [
            f"{chance.choice('ABCDE')} {chance.randint(1, 3)}" for _ in range(chance.randint(0, 3))
        ]:
            stake = round(chance.uniform(0, left), 2)
            if stake and owner != company and (company, owner) not in stakes:
                stakes[company, owner] = stake
                left -= stake
    made = world(*((*pair, stake) for pair, stake in stakes.items()), listed=companies)
    above = defaultdict(dict)
    for (child, owner), stake in stakes.items():
        above[child][owner if isinstance(owner, int) else (child, owner)] = stake
    expected = defaultdict(list)
    for company in companies:
        for owner, (stake, basis) in _owners(above, company).items():
            expected[f"{company:08}", owner[1]].append((stake, basis))
    found = {}
    for number, name, stake, basis in made.ask(
        "SELECT company_number, owner_name, effective_fraction::DOUBLE, basis FROM beneficial_owners('customers') "
        "WHERE owner_kind <> 'company' AND basis NOT LIKE '%equal names%'"
    ):
        found.setdefault((number, name), []).append((stake, basis))
    assert len(expected) > 20
    assert {pair: sorted(rows) for pair, rows in found.items()} == {
        pair: [(pytest.approx(stake, abs=2e-6), basis) for stake, basis in sorted(rows)]
        for pair, rows in expected.items()
    }


def _owners(above, company):
    """Persons with a basis, by walks of at most 200 steps; a person is (company, name)."""
    controllers = _controllers(above, company)
    interests = _interests(above, company)
    directly = {}
    for owner, stake in above[company].items():
        for person in {owner} | _controllers(above, owner) - {company}:
            directly[person] = directly.get(person, 0) + stake
    found = {}
    for person, stake in interests.items():
        through = [_interests(above, each).get(person, 0) for each in controllers if isinstance(each, int)]
        grounds = [
            (stake >= 0.25 - 1e-9, "ownership"),
            (person in controllers, "control"),
            (directly.get(person, 0) >= 0.25 - 1e-9, "control of owners"),
            (max(through, default=0) >= 0.25 - 1e-9, "ownership of a controller"),
        ]
        basis = next((basis for holds, basis in grounds if holds), None)
        if basis and not isinstance(person, int):
            found[person] = stake, basis
    return found


def _interests(above, company):
    level, total = {company: 1.0}, defaultdict(float)
    for _ in range(200):
        higher = defaultdict(float)
        for owned, share in level.items():
            for owner, stake in above[owned].items() if isinstance(owned, int) else ():
                if owner != company:
                    higher[owner] += share * stake
        level = {owner: share for owner, share in higher.items() if share > 1e-9}
        for owner, share in level.items():
            total[owner] += share
    return total


def _controllers(above, company):
    found, waiting = set(), [company]
    while waiting:
        owned = waiting.pop()
        for owner, stake in above[owned].items() if isinstance(owned, int) else ():
            if stake > 0.5 and owner not in found and owner != company:
                found.add(owner)
                waiting.append(owner)
    return found
