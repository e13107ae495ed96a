"""Each company once, and every line accounted for."""

import csv
import hashlib
import io
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.core.settings import IntakeSettings
from firmlake.intake.lines import CompanyList, read_company_list
from support import examples

SAMPLE = Path(__file__).parents[2] / "data" / "intake" / "sample.csv"


def is_complete(companies: CompanyList) -> bool:
    """Whether every line is accounted for."""
    accounted = companies.header_count + companies.companies.height + companies.refused.height
    return companies.line_count == accounted + companies.repeated_count + companies.blank_count


def test_all_lines_of_the_sample_are_accepted():
    companies = read_company_list(SAMPLE)
    assert companies.companies["country"].value_counts().sort("country").rows() == [("BE", 30), ("FR", 35), ("NL", 13)]
    assert companies.companies["line"].to_list() == list(range(2, 80))
    assert companies.refused.height == companies.repeated_count == companies.blank_count == 0
    assert companies.repaired.select("given", "company_number", "reason").rows() == [
        ("400378485", "0400378485", "leading zero restored"),
        ("403834160", "0403834160", "leading zero restored"),
    ]
    assert is_complete(companies)


def test_each_company_is_named_once_whatever_its_spellings(read):
    companies = read(
        "land;nummer bedrijf;btw\nBE;;BE 0403.227.515\nBE;;403227515\nBE;;0403227515\nFR;;83404833048\nFR;;404833048\n"
    )
    assert companies.companies.rows() == [
        ("BE", "0403227515", 2, "BE 0403.227.515"),
        ("FR", "404833048", 5, "83404833048"),
    ]
    assert companies.repeated_count == 3
    assert companies.repaired["line"].to_list() == [3, 5]  # dots and a prefix are no repairs


def test_the_same_digits_in_two_countries_are_two_companies(read):
    assert read("country;company number\nBE;403227515\nFR;403227515\n").companies.height == 2


def test_the_identity_is_that_of_the_set_of_companies(read):
    """Order, spelling, repetition, refused lines and format do not change it; a company more or less does."""
    first = read("land,kbo,siren\nBE,0403227515,\nFR,,552032534\nBE,0403091220,\n").sha256
    assert first == read("FR 552 032 534\nBE 0403.091.220\nBE 1\nBE403227515\nBE0403227515\n").sha256
    assert first == hashlib.sha256(b"BE 0403091220\nBE 0403227515\nFR 552032534\n").hexdigest()
    assert first != read("FR 552 032 534\nBE 0403.091.220\n").sha256


def test_the_frames_have_the_same_columns_and_types_whatever_they_hold(read):
    text, whole = pl.String, pl.Int64
    for companies in (read("kbo\n0403227515\n"), read("land,kbo\n,BE403227515\n,1\n,BE403227515\n\nBE\n")):
        assert dict(companies.companies.schema) == {
            "country": text,
            "company_number": text,
            "line": whole,
            "given": text,
        }
        assert dict(companies.refused.schema) == {"line": whole, "given": text, "reason": text}
        assert dict(companies.repaired.schema) == {
            "line": whole,
            "given": text,
            "country": text,
            "company_number": text,
            "reason": text,
        }


cells = st.sampled_from(
    ["BE", "NL", "de", "", "0403227515", "BE 0403.091.220", "17085815", "1", "a;b", 'x"y', "p\nq", " "]
)
rows = st.lists(st.lists(cells, min_size=3, max_size=3) | st.lists(cells, max_size=4), max_size=12)


@examples(30)
@given(rows, st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_no_line_is_lost_and_each_keeps_its_number(tmp_path_factory, drawn, has_header, end):
    """header + companies + refused + repeated + blank = lines, and the lines are those the standard library counts."""
    written = io.StringIO()
    writer = csv.writer(written, delimiter=";", lineterminator=end)
    header = [["land", "company number", "naam"]] if has_header else []
    # Without header most lines say how many fields there are.
    writer.writerows([*header, *[["BE", "0403053608", "UCB"]] * (1 if has_header else 13), *drawn])
    path = tmp_path_factory.mktemp("lines") / "list.csv"
    path.write_text(written.getvalue(), newline="")
    named = {} if has_header else {"header": "no", "country_column": "1", "number_column": "2", "delimiter": ";"}
    companies = read_company_list(path, IntakeSettings(**named))
    reader = csv.reader(io.StringIO(written.getvalue(), newline=""), delimiter=";")
    ends = [0, *(reader.line_num for _ in reader)]
    assert companies.line_count == len(ends) - 1
    assert is_complete(companies)
    seen = pl.concat([companies.companies.select("line"), companies.refused.select("line")])["line"]
    assert seen.is_unique().all()
    assert set(seen) <= {end + 1 for end in ends[int(has_header) : -1]}


@pytest.mark.parametrize("given_text", ["", "x" * 500, "0403\n2275"])
def test_a_refused_line_keeps_its_number_value_and_reason(read, given_text):
    companies = read(f'kbo;naam\n0403227515;a\n"{given_text}";b\n')
    [(line, given_back, reason)] = companies.refused.rows()
    assert (line, given_back) == (3, given_text[:200])
    assert reason
