"""Which company a number names; python-stdnum is the oracle."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import luhn
from stdnum.be import vat as be_vat
from stdnum.fr import siren as fr_siren
from stdnum.fr import siret as fr_siret
from stdnum.fr import tva as fr_tva

from firmlake.intake.identifiers import identify
from support import examples


def identified(country, *texts, column_country=None):
    """Identify texts of one country: rows of country, company number, repairs as texts, problem."""
    frame = identify(
        pl.Series(texts, dtype=pl.String), pl.Series([country] * len(texts), dtype=pl.String), column_country
    )
    named = [repair.split("; ") if repair else [] for repair in frame["repair"]]
    return list(zip(frame["country"], frame["company_number"], named, frame["problem"], strict=True))


timeless = examples(30)  # the first call is slower than the others

ZERO = "leading zero restored"
SIRET = "SIRET shortened to its SIREN"
VAT = "VAT number shortened to its SIREN"
MARK = "text mark of a spreadsheet removed"
FLOAT = "decimal zero of a spreadsheet removed"
SCIENTIFIC = "scientific notation written out"
INVISIBLE = "invisible characters removed"


@pytest.mark.parametrize(
    ("country", "text", "number", "repairs"),
    [
        ("BE", "0403227515", "0403227515", []),
        ("BE", "1000123448", "1000123448", []),
        ("BE", "0403.227.515", "0403227515", []),
        ("BE", "BE0403227515", "0403227515", []),
        ("BE", "be 0403-227-515", "0403227515", []),
        ("BE", "BE BE 0403227515", "0403227515", []),
        ("BE", "BE (0)403.227.515", "0403227515", []),
        ("BE", "BTW BE 0403.227.515", "0403227515", []),
        ("BE", "KBO nr.: 0403/227/515", "0403227515", []),
        ("BE", "RPR Brussel 0403.227.515", "0403227515", []),
        ("BE", "BTW BE 0403.227.515 - RPM Bruxelles", "0403227515", []),
        ("BE", "0403.227.515 (RPR Gent, afdeling Kortrijk)", "0403227515", []),
        (None, "0403.227.515 RPR Brussel", "0403227515", []),
        ("BE", "BCE n° 0403.227.515", "0403227515", []),
        ("BE", "403227515", "0403227515", [ZERO]),
        ("BE", "BE403227515", "0403227515", [ZERO]),
        ("BE", "403227515.0", "0403227515", [FLOAT, ZERO]),
        ("BE", "403227515,00", "0403227515", [FLOAT, ZERO]),
        ("BE", "4.03227515E8", "0403227515", [SCIENTIFIC, ZERO]),
        ("BE", "4,03227515e+08", "0403227515", [SCIENTIFIC, ZERO]),
        ("BE", '="0403227515"', "0403227515", [MARK]),
        ("BE", "=0403227515", "0403227515", [MARK]),
        ("BE", "'0403227515", "0403227515", [MARK]),
        ("BE", "\u20190403227515", "0403227515", [MARK]),
        ("BE", " 0403227515\u00a0", "0403227515", []),
        ("BE", "0403\u202f227\u2009515", "0403227515", []),
        ("BE", "0403\u2011227\u2013515", "0403227515", []),
        ("BE", "0403\u200b227515\ufeff", "0403227515", [INVISIBLE]),
        ("BE", "0403227515_x000D_\n", "0403227515", [INVISIBLE]),
        ("BE", "0403\n227515", "0403227515", []),
        ("NL", "17085815", "17085815", []),
        ("NL", "1708 5815", "17085815", []),
        ("NL", "NL17085815", "17085815", []),
        ("NL", "KvK 17085815", "17085815", []),
        ("NL", "2045200", "02045200", [ZERO]),
        ("NL", "2045200.0", "02045200", [FLOAT, ZERO]),
        ("NL", "1.7085815E7", "17085815", [SCIENTIFIC]),
        ("FR", "552032534", "552032534", []),
        ("FR", "552 032 534", "552032534", []),
        ("FR", "552 032 534 R.C.S. Paris", "552032534", []),
        (None, "RCS Paris B 552 032 534", "552032534", []),
        ("FR", "SIREN 552 032 534", "552032534", []),
        ("FR", "55203253400687", "552032534", [SIRET]),
        ("FR", "5.5203253400687E13", "552032534", [SCIENTIFIC, SIRET]),
        ("FR", "35600000000048", "356000000", [SIRET]),  # La Poste, head office
        ("FR", "35600000049837", "356000000", [SIRET]),  # La Poste, a branch: its digits add up to a multiple of 5
        ("FR", "83404833048", "404833048", [VAT]),
        ("FR", "FR 83 404 833 048", "404833048", [VAT]),
        ("FR", "FRK7399859412", "399859412", [VAT]),
        ("FR", "FR4Z123456782", "123456782", [VAT]),
        ("FR", "54806526", "054806526", [ZERO]),
        ("FR", "54806526.0", "054806526", [FLOAT, ZERO]),
        ("FR", "5480652600015", "054806526", [ZERO, SIRET]),
    ],
)
def test_a_number_is_repaired_with_a_reason_for_each_step(country, text, number, repairs):
    of = country or {10: "BE", 9: "FR"}[len(number)]
    assert identified(country, text) == [(of, number, repairs, None)]


@pytest.mark.parametrize(
    ("country", "text", "problem"),
    [
        ("BE", "0403227516", "wrong check digits (mod 97)"),
        ("BE", "BE0403227516", "wrong check digits (mod 97)"),
        ("BE", "403227516", "with a leading zero, its check digits are wrong"),
        ("BE", "04032275151", "10 digits and begins with 0 or 1"),
        ("BE", "3227515", "10 digits"),
        ("BE", "2403227515", "establishment unit"),
        ("BE", "8403227515", "establishment unit"),
        ("BE", "9403227515", "begins with 0 or 1"),
        ("BE", "0000000000", "wrong check digits"),
        ("BE", "DE123456789", "another country"),
        ("BE", "BEO403227515", "a letter O, I or L instead of a digit"),
        ("NL", "l7085815", "write 0 for O, and 1 for I or L"),
        (None, "O4O3227515", "write 0 for O, and 1 for I or L"),
        ("BE", "RPR Brussel 0403.227.516", "wrong check digits (mod 97)"),
        ("BE", "0403.227.515 RPR Brussel 0403.091.220", "10 digits"),
        ("BE", "0403.227.515 Brussel", "10 digits"),
        ("BE", "4.03E+08", "has lost some digits"),
        ("BE", "4.032275E8", "has lost some digits"),
        ("BE", "403227515.5", "a decimal number"),
        ("NL", "40322751.5", "a decimal number"),
        ("NL", "2023-05-05", "a date"),
        ("NL", "2023-05-05 00:00:00", "a date"),
        ("NL", "05.05.2023", "a date"),
        ("NL", "2023/05/05", "a date"),
        ("NL", "4.3517103", "a decimal number"),
        ("NL", "00000000", "all zeros"),
        ("NL", "0000000", "all zeros"),
        ("NL", "123456", "8 digits"),
        ("NL", "123456789", "RSIN"),
        ("NL", "NL123456789B01", "Dutch VAT"),
        ("NL", "NL00449544B01", "Dutch VAT"),
        ("NL", "1234.56.789.B.01", "or find it with `firmlake match`"),
        ("NL", "000017085815", "branch number"),
        ("FR", "552032535", "wrong check digit (Luhn)"),
        ("FR", "000000000", "all zeros"),
        ("FR", "55203253400688", "not a SIRET"),
        ("FR", "55203253500687", "not a SIRET"),
        ("FR", "35600000049836", "not a SIRET"),
        ("FR", "FR84404833048", "wrong VAT number"),
        ("FR", "FRK7399859413", "wrong VAT number"),
        ("FR", "FRIO399859412", "another country"),
        ("FR", "FR57000062850", "Monaco"),
        ("FR", "5520325341", "wrong length"),
        ("FR", "5480652", "wrong length"),
        ("FR", "54806527", "with a leading zero, its check digit is wrong"),
        (None, "0403227515", "nothing names its country"),
        (None, "GB123456789", "another country"),
        (None, "KBC Groep", "not a company number"),
        (None, "0403\x00227515", "not a company number"),
        *(
            (country, text, "no company number")
            for country in ("BE", None)
            for text in ("", "  ", "-", "n/a", "NULL", "nan", None)
        ),
    ],
)
def test_a_number_that_names_no_company_is_refused_with_the_reason(country, text, problem):
    [(*company, _, reason)] = identified(country, text)
    assert company == [None, None]
    assert problem in reason


def test_a_prefix_names_the_country_before_anything_else():
    """A prefix or label goes before the country given, and contradicts a column of another register."""
    assert identified("NL", "BE 0403.227.515", "KvK 17085815", "FR552032534")[0][:2] == ("BE", "0403227515")
    assert identified(None, "NL17085815")[0][:2] == ("NL", "17085815")
    assert identified("BE", "552032534", column_country="FR")[0][:2] == ("FR", "552032534")
    assert "a different country than" in identified(None, "BE0403227515", column_country="FR")[0][3]


def digits(length):
    return st.text("0123456789", min_size=length, max_size=length)


def with_siren(build):
    return digits(8).map(lambda eight: build(eight + luhn.calc_check_digit(eight)))


@timeless
@given(st.lists(digits(10) | digits(8).map(lambda eight: f"{eight}{97 - int(eight) % 97:02d}"), max_size=20))
def test_belgian_numbers_are_those_of_the_oracle(numbers):
    """The oracle also takes 00, 98 and 99 for check digits, which 97 minus a remainder cannot be."""
    accepted = [row[1] is not None for row in identified("BE", *numbers)]
    assert accepted == [be_vat.is_valid(number) and 1 <= int(number[8:]) <= 97 for number in numbers]


@timeless
@given(st.lists(digits(9) | with_siren(str), max_size=20))
def test_sirens_are_those_of_the_oracle(numbers):
    accepted = [row[1] == number for row, number in zip(identified("FR", *numbers), numbers, strict=True)]
    assert accepted == [fr_siren.is_valid(number) and int(number) > 0 for number in numbers]


la_poste = digits(5).map(lambda five: "356000000" + five)
sirets = with_siren(str).flatmap(
    lambda siren: digits(4).map(lambda four: siren + four + luhn.calc_check_digit(siren + four))
)


@timeless
@given(st.lists(digits(14) | la_poste | sirets, max_size=20))
def test_sirets_are_those_of_the_oracle(numbers):
    found = [row[1] for row in identified("FR", *numbers)]
    assert found == [fr_siret.to_siren(number) if fr_siret.is_valid(number) else None for number in numbers]


keys = st.text("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=2, max_size=2).filter(
    lambda key: key != "FR"  # reads like the prefix written twice
)
vat_numbers = with_siren(lambda siren: fr_siren.to_tva(siren)) | keys.flatmap(
    lambda key: with_siren(lambda siren: key + siren) | digits(9).map(lambda number: key + number)
)


def is_french_vat(number):
    has_key = set(number[:2]).isdisjoint("IO")
    return fr_tva.is_valid(number) if number.isdigit() else has_key and fr_siren.is_valid(number[2:])


@timeless
@given(st.lists(vat_numbers, max_size=20))
def test_french_vat_numbers_are_those_of_the_oracle(numbers):
    """A key with letters is not checked, but the SIREN is; numbers of Monaco (000) name no SIREN."""
    found = [row[1] for row in identified("FR", *("FR" + number for number in numbers))]
    assert found == [number[2:] if is_french_vat(number) and number[2:5] != "000" else None for number in numbers]


enterprise_numbers = st.integers(1, 19_999_999).map(lambda first: f"{first:08d}{97 - first % 97:02d}")
companies = st.one_of(
    st.tuples(st.just("BE"), enterprise_numbers),
    st.tuples(st.just("NL"), st.integers(1, 99_999_999).map(lambda number: f"{number:08d}")),
    st.tuples(st.just("FR"), with_siren(str).filter(lambda siren: int(siren) > 0)),
)
spaces = st.sampled_from(["", " ", ".", "-", "\u00a0", "\u200b", " - ", "/"])


@st.composite
def spelled(draw):
    """A company and a spelling of it: separators anywhere, prefix or not, marks of spreadsheets."""
    country, number = draw(companies)
    body = "".join(digit + draw(spaces) for digit in number)
    prefix = draw(st.sampled_from(["", country, country.lower() + " ", "VAT " + country]))
    before, after = draw(st.sampled_from([("", ""), ('="', '"'), ("'", ""), (" ", "\t")]))
    return country, number, f"{before}{prefix}{body}{after}"


@timeless
@given(st.lists(spelled(), max_size=20))
def test_no_spelling_changes_the_company(cases):
    """Save that digits written as a date or a decimal number are refused."""
    texts, countries = [text for *_, text in cases], [country for country, *_ in cases]
    frame = identify(pl.Series(texts, dtype=pl.String), pl.Series(countries, dtype=pl.String))
    for (country, number, _), row in zip(cases, frame.rows(named=True), strict=True):
        found = row["country"], row["company_number"]
        assert found == (country, number) or row["problem"].startswith(("this is a date", "this is a decimal"))


@timeless
@given(companies.filter(lambda company: company[0] != "NL"), st.data())
def test_one_wrong_digit_is_always_found(company, data):
    country, number = company
    place = data.draw(st.integers(0, len(number) - 1))
    digit = data.draw(st.sampled_from([digit for digit in "0123456789" if digit != number[place]]))
    assert identified(country, number[:place] + digit + number[place + 1 :])[0][1] is None


@timeless
@given(st.lists(st.text(max_size=20) | st.none(), max_size=20))
def test_any_text_is_identified_or_refused_in_its_place(texts):
    rows = identified("BE", *texts)
    assert len(rows) == len(texts)
    assert all((row[1] is None) == (row[3] is not None) for row in rows)
