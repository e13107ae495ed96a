"""Company numbers: check digits as in the registers, every spelling, and samples."""

from __future__ import annotations

import stdnum.be.vat
import stdnum.fr.siren
from hypothesis import given
from hypothesis import strategies as st

from firmlake_sandbox.numbers import COUNTRIES, END, parse_number, sample_numbers, spell_number

from .test_world import nodes


@given(nodes)
def test_every_node_has_one_number_and_every_number_one_node(node):
    assert parse_number(COUNTRIES[node >> 32], spell_number(node)) == node


@given(st.integers(0, END[0] - 1), st.integers(0, 99), st.integers(0, 10**9 - 1))
def test_check_digits_are_those_of_the_registers(base, check, number):
    text = f"{base:08d}{check:02d}"
    is_right = check == 97 - base % 97
    assert (parse_number("BE", text) is not None) == is_right
    assert stdnum.be.vat.is_valid(text) or not is_right or base == 0
    assert (parse_number("FR", f"{number:09d}") is not None) == stdnum.fr.siren.is_valid(f"{number:09d}")


def test_real_numbers_are_well_formed_in_every_spelling_and_others_are_no_company():
    assert parse_number("BE", "403227515") == parse_number("BE", "0403227515") is not None
    assert parse_number("FR", "356000000") is not None
    assert parse_number("NL", "02045200") is not None
    wrong = [("BE", "0403227516"), ("BE", "40322751"), ("BE", "2403227515"), ("NL", "2045200"), ("FR", "356000001")]
    assert [parse_number(country, number) for country, number in wrong] == [None] * 5


def test_a_sample_has_no_company_twice_and_begins_alike_for_the_same_seed():
    sample = sample_numbers(20_000, seed=3)
    assert len(set(sample)) == 20_000
    assert sample_numbers(500, seed=3) == sample[:500]
    assert sample_numbers(500, seed=4) != sample[:500]
    assert {country for country, _ in sample} == {"BE", "NL", "FR"}
    assert {country for country, _ in sample_numbers(1000, countries=("NL",))} == {"NL"}
