import stdnum.be.vat
import stdnum.fr.siren
from hypothesis import given, settings
from hypothesis import strategies as st

from firmlake_sandbox.numbers import COUNTRIES, END, parse_number, sample_numbers, spell_number

nodes = st.integers(0, 2).flatmap(
    lambda country: st.integers(0, END[country] - 1).map(lambda base: country << 32 | base)
)


@given(nodes)
@settings(deadline=None)
def test_every_node_has_one_number_and_every_number_one_node(node: int) -> None:
    assert parse_number(COUNTRIES[node >> 32], spell_number(node)) == node


@given(st.integers(0, END[0] - 1), st.integers(0, 99))
@settings(deadline=None)
def test_belgian_check_digits_are_those_of_the_register(base: int, check: int) -> None:
    text = f"{base:08d}{check:02d}"
    is_right = check == 97 - base % 97
    assert (parse_number("BE", text) is not None) == is_right
    assert stdnum.be.vat.is_valid(text) or not is_right or base == 0


@given(st.integers(0, 10**9 - 1))
@settings(deadline=None)
def test_french_numbers_are_those_of_the_register(number: int) -> None:
    text = f"{number:09d}"
    assert (parse_number("FR", text) is not None) == stdnum.fr.siren.is_valid(text)


def test_real_numbers_are_well_formed_in_every_spelling() -> None:
    assert parse_number("BE", "403227515") == parse_number("BE", "0403227515") is not None
    assert parse_number("FR", "356000000") is not None
    assert parse_number("NL", "02045200") is not None


def test_other_lengths_and_check_digits_are_no_company() -> None:
    wrong = [("BE", "0403227516"), ("BE", "40322751"), ("BE", "2403227515"), ("NL", "2045200"), ("FR", "356000001")]
    assert [parse_number(country, number) for country, number in wrong] == [None] * 5


def test_a_sample_has_no_company_twice_and_begins_alike_for_the_same_seed() -> None:
    sample = sample_numbers(20_000, seed=3)
    assert len(set(sample)) == 20_000
    assert sample_numbers(500, seed=3) == sample[:500]
    assert sample_numbers(500, seed=4) != sample[:500]
    assert {country for country, _ in sample} == {"BE", "NL", "FR"}


def test_a_sample_holds_the_countries_asked_for() -> None:
    assert {country for country, _ in sample_numbers(1000, countries=("NL",))} == {"NL"}
