"""Lists of contacts in any format; each line is a contact, a repetition, or refused with its reason."""

from __future__ import annotations

from datetime import date

import polars as pl
import pytest
from xlsxwriter import Workbook

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.service_lists.contacts import Contact, read_contact_list

ACME, BOLT = ("BE", "0403227515"), ("NL", "24202194")


@pytest.fixture
def read(tmp_path):
    def read(content, **options):
        path = tmp_path / "contacts"
        path.write_text(content)
        return read_contact_list(path, IntakeSettings(**options))

    return read


@pytest.mark.parametrize(
    "content",
    [
        "country,company_number,contact_id\nBE,0403.227.515,7\nNL,24202194,x-8\n",
        "Land;Ondernemingsnummer;KvK;Contactnummer\nBE;403227515;;7\nNL;;24202194;x-8\n",
        "pays\tnuméro TVA\tIdentifiant du contact\nBE\tBE0403227515\t7\n\nNL\t24202194\tx-8\n",
        '{"country":"BE","companyNumber":"0403227515","contactId":"7"}\n'
        '{"country":"NL","companyNumber":"24202194","contactId":"x-8"}\n',
    ],
)
def test_columns_are_found_by_their_names_in_any_text_format(read, content):
    assert read(content).contacts == [Contact(*ACME, "7"), Contact(*BOLT, "x-8")]


def test_workbooks_and_parquet_files_hold_contacts_too(tmp_path):
    frame = pl.DataFrame({"company_number": ["BE0403227515", "NL24202194"], "contact_id": [7, 8]})
    frame.write_parquet(tmp_path / "a")
    frame.write_excel(tmp_path / "b.xlsx")
    for path in (tmp_path / "a", tmp_path / "b.xlsx"):
        assert read_contact_list(path, IntakeSettings()).contacts == [Contact(*ACME, "7"), Contact(*BOLT, "8")]


def test_a_cell_that_does_not_hold_what_was_typed_into_it_is_refused(tmp_path):
    """A spreadsheet keeps 15 digits of a number; text keeps all."""
    cells = ["contact", 1234567890123456789, "1234567890123456789", True, date(2024, 1, 1), 123456789012345]
    with Workbook(tmp_path / "ids.xlsx", {"default_date_format": "yyyy-mm-dd"}) as book:
        sheet = book.add_worksheet()
        sheet.write_column(0, 0, ["kbo", *["0403227515"] * 5])
        for row, cell in enumerate(cells):
            sheet.write(row, 1, cell)
    found = read_contact_list(tmp_path / "ids.xlsx", IntakeSettings())
    assert [one.contact_id for one in found.contacts] == ["1234567890123456789", "123456789012345"]
    assert [(one.line, one.reason.split()[-1]) for one in found.refused] == [(2, "again"), (4, "text"), (5, "text")]


@pytest.mark.parametrize("value", ["[1,2]", '{"id":1}', "true"])
def test_a_value_of_json_that_is_no_single_id_is_refused(read, value):
    line = '{"kbo":"0403227515","contact":%s}\n'
    found = read(line % value + line % 1234567890123456789)
    assert [one.contact_id for one in found.contacts] == ["1234567890123456789"]
    assert "write the id as text" in found.refused[0].reason


def test_a_contact_counts_once_and_one_of_two_companies_is_two(read):
    found = read("kbo,contact\n403227515,1\n0403.227.515, 1 \nBE0403227515,1.0\n0202239951,1\n")
    assert found.contacts == [Contact(*ACME, "1"), Contact("BE", "0202239951", "1")]
    assert (found.repeated_count, found.repaired_count) == (2, 3)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0403227516,1", "mod 97"),
        ("0403227515,", "no contact id"),
        ("0403227515,   ", "no contact id"),
        ("0403227515,1.23E+15", "rounded"),
        ("0403227515,a b", "spaces, control"),
        ("0403227515,TRUE", "truth value"),
        ("0403227515,a\x1b[2J", "spaces, control"),
        (f"0403227515,{'9' * 65}", "more than 64"),
        (",5", "no company number"),
    ],
)
def test_a_line_that_names_no_contact_of_a_company_is_refused_and_the_others_go_on(read, line, reason):
    found = read(f"kbo,contact\n{line}\n0403227515,1\n")
    assert found.contacts == [Contact(*ACME, "1")]
    assert [one.line for one in found.refused] == [2]
    assert reason in found.refused[0].reason


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("kbo,contact\n1,1\n2,\n", "2 refused"),
        ("kbo,contact\n", "empty"),
        ("kbo,name\n0403227515,1\n", "no column looks like a contact id"),
    ],
)
def test_a_list_without_any_contact_is_an_error(read, content, error):
    with pytest.raises(CompanyListError, match=error):
        read(content)
