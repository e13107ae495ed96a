"""Delimited text: delimiter, encoding, header and line ends are found."""

import csv
import gzip
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


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_delimiter_encoding_and_line_ends_are_found(read, delimiter, encoding, end):
    lines = (
        ["Société", "Pays", "Numéro d'entreprise"],
        ["L'Oréal, SA", "BE", "0403227515"],
        ["Danone", "FR", "552032534"],
    )
    written = end.join(
        delimiter.join(f'"{field}"' if delimiter in field else field for field in line) for line in lines
    )
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    assert found(read((mark + written).encode(encoding))) == COMPANIES


def test_windows_1252_is_read_where_the_file_is_not_utf_8(read):
    content = (
        "land;n\u00b0 d\u2019entreprise;nom\nBE;0403227516;\u0152uvres\nFR;552 032 534;\u20ac\n".encode("cp1252")
        + b"NL;x\x81;\n"
    )
    companies = read(content)
    assert found(companies) == [("FR", "552032534", 3)]
    assert companies.refused["line"].to_list() == [2, 4]


def test_an_encoding_without_mark_can_be_given(read):
    content = "land;kbo\nBE;0403227515\nFR;552032534\n".encode("utf-16-le")
    assert (
        found(
            read(
                content.replace(b"k\0b\0o\0", "nummer x".encode("utf-16-le")),
                encoding="utf-16-le",
                number_column="nummer x",
            )
        )
        == COMPANIES
    )


def test_gzip_is_read_through(read):
    assert found(read(gzip.compress(b"land;kbo;siren\n;0403227515;\n;;552032534\n"))) == COMPANIES


def test_a_line_with_too_many_fields_is_refused_and_the_others_go_on(read):
    """Missing fields are empty ones, and empty fields beyond the header are no fields: spreadsheets write both."""
    companies = read(
        'land;kbo;naam\nBE;0403091220\nBE;Gent;0403227515;KBC\nBE;0403053608;UCB;;\nBE;0202239951;P;""; \nBE\n'
    )
    assert found(companies) == [("BE", "0403091220", 2), ("BE", "0403053608", 4), ("BE", "0202239951", 5)]
    assert companies.refused.rows() == [
        (3, "BE;Gent;0403227515;KBC", "number of fields: 4 instead of 3; quote fields that hold the delimiter"),
        (6, "", "no company number: fill it in, or remove the line"),
    ]


def test_a_field_too_many_does_not_refuse_what_the_columns_show_unless_it_may_have_moved_them(read):
    companies = read("naam;ref;kvk\nA;1;17085815;x\nA;B;12345678;27120091\nA;10000001;33011433\n")
    assert found(companies) == [("NL", "17085815", 2), ("NL", "33011433", 4)]
    assert companies.repaired["reason"].to_list() == ["fields beyond the last column left out"]
    assert companies.refused["given"].to_list() == ["A;B;12345678;27120091"], "both numbers are valid"


def test_an_empty_name_too_many_in_the_header_does_not_move_its_columns(read):
    companies = read("naam;;kvk;stad\nKBC;17085815;x\nUCB;27120091;y\n")
    assert found(companies) == [("NL", "17085815", 2), ("NL", "27120091", 3)]
    assert "the empty name at position 2 is left out" in companies.guesses[0]
    assert found(read(";kvk;x;naam\n;17085815;x\n;27120091;y\n")) == [("NL", "17085815", 2), ("NL", "27120091", 3)]


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        ('land,kbo\nBE,0403227515\nBE,"0403091220\nFR,552032534\n', [(3, 'BE,"0403091220')]),
        ('land,"kbo\nBE,0403227515\nFR,552032534\n', []),
        ('kbo,naam\n1,"a\nBE0403227515,"b"\nFR552032534,c\n', [(2, '1,"a')]),
        ('kbo,naam\nBE0403227515,x\n1,"' + "a,b\n" * 1500 + '"\n', None),
    ],
    ids=["last field", "header", "closed by the next line", "over too many lines"],
)
def test_a_quotation_mark_left_open_costs_its_line_and_not_the_file(read, content, refused):
    companies = read(content)
    assert companies.companies["company_number"][0] == "0403227515"
    assert refused is None or [row[:2] for row in companies.refused.rows()] == refused
    assert "is not closed" in " ".join(companies.refused["reason"]) or not refused


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
        "x" * 10_000_000,
        '"' + '""' * 100_000 + '"',
        "\x85\u2028\x0b\x0c\x1c",
        "a\ufeffb",
        "\U0001f600",
        '"a\nb"',
    ],
    ids=["NUL", "10 MB", "marks", "separators of Unicode", "byte order mark", "emoji", "line end"],
)
def test_hostile_content_in_another_column_does_no_harm(read, field):
    companies = read(f"naam;kbo\n{field};0403227515\nUCB;0403053608\n" + "KBC;0403227515\n" * 20)
    assert companies.companies["company_number"].to_list() == ["0403227515", "0403053608"]
    assert (companies.repeated_count, companies.refused.height) == (20, 0)


def test_hostile_content_in_the_number_is_refused_and_cut(read):
    companies = read("kbo\n0403\x00227515\n" + "9" * 10_000_000 + "\n" + "0403227515\n" * 20)
    assert companies.refused["line"].to_list() == [2, 3]
    assert companies.refused["given"].str.len_chars().max() == 200


def test_very_many_columns_are_no_trouble(read):
    names = ";".join(f"c{n}" for n in range(16_000))
    values = ";".join("1" for _ in range(16_000))
    assert found(read(f"{names};kbo\n{values};0403227515\n")) == [("BE", "0403227515", 2)]


def test_a_line_that_is_quoted_as_a_whole_is_refused_with_that_reason(read):
    """A line with one field and no number below the table is no such line."""
    companies = read(
        'naam,kbo,plaats\nKBC,0403227515,Brussel\n"UCB,0403053608,""Brussel, Anderlecht"""\n"Bron: SAP, EUR"\nTotaal\n'
    )
    first, note, total = companies.refused["reason"]
    assert first.startswith("number of fields: 1 instead of 3; the whole line is in quotation marks")
    assert note.startswith("no company number")
    assert total.startswith("no company number")
    assert companies.companies["company_number"].to_list() == ["0403227515"]
