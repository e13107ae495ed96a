"""The companies of a list: each once, no line lost, one identity whatever the file; and the list as it is stored."""

import csv
import hashlib
import io
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.core.settings import IntakeSettings
from firmlake.intake.lines import read_columns, read_company_list, store_lines
from support import examples

SAMPLE = Path(__file__).parents[2] / "data" / "intake" / "sample.csv"


def test_all_lines_of_the_sample_are_accepted():
    companies = read_company_list(SAMPLE)
    assert companies.companies["country"].value_counts().sort("country").rows() == [("BE", 30), ("FR", 35), ("NL", 13)]
    assert companies.companies["line"].to_list() == list(range(2, 80))
    assert companies.refused.height == companies.repeated_count == companies.blank_count == 0
    assert companies.repaired.select("given", "company_number", "reason").rows() == [
        ("400378485", "0400378485", "leading zero restored"),
        ("403834160", "0403834160", "leading zero restored"),
    ]


def test_the_identity_is_that_of_the_set_of_companies(read):
    """Order, spelling, repetition, refused lines and format do not change it; a company more or less does."""
    first = read("land,kbo,siren\nBE,0403227515,\nFR,,552032534\nBE,0403091220,\n").sha256
    assert first == read("FR 552 032 534\nBE 0403.091.220\nBE 1\nBE403227515\nBE0403227515\n").sha256
    assert first == hashlib.sha256(b"BE 0403091220\nBE 0403227515\nFR 552032534\n").hexdigest()
    assert first != read("FR 552 032 534\nBE 0403.091.220\n").sha256


cells = st.sampled_from(
    ["BE", "NL", "de", "", "0403227515", "BE 0403.091.220", "17085815", "1", "a;b", 'x"y', "p\nq", " "]
)
rows = st.lists(st.lists(cells, min_size=3, max_size=3) | st.lists(cells, max_size=4), max_size=12)


@examples(30)
@given(rows, st.booleans(), st.sampled_from(["\n", "\r\n"]))
@pytest.mark.slow
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
    found = read_company_list(path, IntakeSettings(**named))
    reader = csv.reader(io.StringIO(written.getvalue(), newline=""), delimiter=";")
    ends = [0, *(reader.line_num for _ in reader)]
    accounted = found.header_count + found.companies.height + found.refused.height
    assert found.line_count == len(ends) - 1 == accounted + found.repeated_count + found.blank_count
    seen = pl.concat([found.companies.select("line"), found.refused.select("line")])["line"]
    assert seen.is_unique().all()
    assert set(seen) <= {end + 1 for end in ends[int(has_header) : -1]}


def test_a_list_as_it_was_read_is_stored_once_whatever_file_it_comes_from(tmp_path):
    """Companies, refused, repaired and blank lines are queries on it."""
    text = "naam;kbo\nKBC;403227515\nUCB;x\n\nKBC;BE 0403.227.515\n"
    stored = []
    for name, content in {"a.csv": text, "b.csv": text, "c.csv": text + "x;y\n"}.items():
        (tmp_path / name).write_text(content)
        lines = read_company_list(tmp_path / name).lines
        stored.append(store_lines(tmp_path / "lists", lines.columns, lines.batches()))
    assert stored[0] == stored[1] != stored[2]
    assert sorted((tmp_path / "lists").iterdir()) == sorted(set(stored))
    lines = pl.read_parquet(stored[0])
    assert lines["status"].to_list() == ["accepted", "refused", "blank", "accepted"]
    assert (
        lines.filter(status="refused")
        .select("line", "given", "reason")
        .equals(read_company_list(tmp_path / "a.csv").refused)
    )
    assert lines["columns"][0] == '{"naam":"KBC","kbo":"403227515"}'
    assert (read_columns(stored[0]).names, read_columns(stored[0]).delimiter) == (("naam", "kbo"), ";")
