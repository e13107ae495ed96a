"""Delimited text: delimiter, encoding, header and line ends are found."""

import csv
import io

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.core.settings import IntakeSettings
from firmlake.intake.entries import read_entries
from firmlake.intake.table import cell
from support import examples

COMPANIES = [("BE", "0403227515", 2), ("FR", "552032534", 3)]


def found(companies):
    return companies.companies.select("country", "company_number", "line").rows()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "latin-1"])
def test_delimiter_encoding_and_line_ends_are_found(read, encoding):
    lines = (
        ["Société", "Pays", "Numéro d'entreprise"],
        ["L'Oréal, SA", "BE", "0403227515"],
        ["Danone", "FR", "552032534"],
    )
    for delimiter, end in {",": "\n", ";": "\r\n", "\t": "\r", "|": "\r\n"}.items():
        fields = [[f'"{field}"' if delimiter in field else field for field in line] for line in lines]
        text = end.join(map(delimiter.join, fields))
        assert found(read(("\ufeff" * (encoding == "utf-16-be") + text).encode(encoding))) == COMPANIES


def test_a_quotation_mark_left_open_over_too_many_lines_costs_its_line_and_not_the_file(read):
    companies = read('kbo,naam\nBE0403227515,x\n1,"' + "a,b\n" * 1500 + '"\n')
    assert companies.companies["company_number"][0] == "0403227515"
    assert "is not closed" in companies.refused["reason"][0]


table = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(st.text(st.sampled_from('ab",;\n é'), max_size=6), min_size=width, max_size=width))
)


@examples(25)
@given(table, st.sampled_from(",;\t"), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_what_was_written_as_csv_is_read_back_cell_by_cell(tmp_path_factory, rows, delimiter, quoting):
    written = io.StringIO()
    writer = csv.writer(written, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    width = len(rows[0]) if rows else 1
    writer.writerows(
        [["kbo", *"xyzw"[:width]], ["0403227515", *["a"] * width], *(["0403227515", *row] for row in rows)]
    )
    path = tmp_path_factory.mktemp("cells") / "list.csv"
    path.write_text(written.getvalue())
    lines = pl.concat(read_entries(path, IntakeSettings(delimiter=delimiter)).batches)
    assert [list(row) for row in lines.select(cell(n).alias(str(n)) for n in range(1, width + 1)).rows()[1:]] == rows


@pytest.mark.parametrize(
    "field",
    [
        "\x00",
        "x" * 1_000_000,
        '"' + '""' * 100_000 + '"',
        "\x85\u2028\x0b\x0c\x1c",
        "a\ufeffb",
        "\U0001f600",
        '"a\nb"',
    ],
    ids=["NUL", "1 MB", "marks", "separators of Unicode", "byte order mark", "emoji", "line end"],
)
def test_hostile_content_in_another_column_does_no_harm(read, field):
    companies = read(f"naam;kbo\n{field};0403227515\nUCB;0403053608\n" + "KBC;0403227515\n" * 20)
    assert companies.companies["company_number"].to_list() == ["0403227515", "0403053608"]
    assert (companies.repeated_count, companies.refused.height) == (20, 0)


def test_hostile_content_in_the_number_is_refused_and_cut(read):
    companies = read("kbo\n0403\x00227515\n" + "9" * 1_000_000 + "\n" + "0403227515\n" * 20)
    assert companies.refused["line"].to_list() == [2, 3]
    assert companies.refused["given"].str.len_chars().max() == 200


def test_very_many_columns_are_no_trouble(read):
    names = ";".join(f"c{n}" for n in range(4_000))
    values = ";".join("1" for _ in range(4_000))
    assert found(read(f"{names};kbo\n{values};0403227515\n")) == [("BE", "0403227515", 2)]


@pytest.mark.slow
def test_of_very_many_columns_of_numbers_forty_are_read_and_that_is_said(read):
    lines = [";".join([text] * 100) for text in ("kbo", "0403227515", "0403091220")]
    companies = read("\n".join([*lines, ""]))
    assert companies.companies.height == 2
    assert "not from 'kbo' at position 41 (0403227515, 0403091220) and" in companies.guesses[0]
    assert " and 57 more; to choose" in companies.guesses[0]
