"""Lists of contacts: each line is a contact, a repetition, or refused with its reason."""

from __future__ import annotations

import pytest

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.service_lists.contacts import Contact, read_contact_list
from intake.workbooks import make_workbook

ACME, BOLT, OTHER = ("BE", "0403227515"), ("NL", "24202194"), ("BE", "0202239951")
BOTH = [Contact(*ACME, "7"), Contact(*BOLT, "x-8")]


@pytest.fixture
def read(tmp_path):
    def read(content: str | bytes, **options):
        path = tmp_path / "contacts"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_contact_list(path, IntakeSettings(**options))

    return read


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("Land;Ondernemingsnummer;KvK;Contactnummer\nBE;403227515;;7\nNL;;24202194;x-8\n", {}),
        (
            make_workbook(
                {"Blad1": [["nummer", "Identifiant du contact"], ["BE0403227515", 7], ["NL24202194", "x-8"]]}
            ),
            {},
        ),
        ("kbo;persoon\nBE0403227515;7\nNL24202194;x-8\n", {"contact_column": "persoon"}),
        ("BE0403227515;7\nNL24202194;x-8\n", {"contact_column": "2"}),
    ],
)
def test_columns_are_found_by_their_names_or_mapped_by_name_or_position(read, content, options):
    assert read(content, **options).contacts == BOTH


def test_a_cell_that_does_not_hold_what_was_typed_into_it_is_refused(read):
    """A spreadsheet keeps 15 digits of a number; text keeps all."""
    cells = [1234567890123456789, "1234567890123456789", True, {"date": "2024-01-01"}, 123456789012345]
    found = read(make_workbook({"ids": [["kbo", "contact"], *(["0403227515", cell] for cell in cells)]}))
    assert [one.contact_id for one in found.contacts] == ["1234567890123456789", "123456789012345"]
    assert [(one.line, one.reason.split()[-1]) for one in found.refused] == [(2, "again"), (4, "text"), (5, "text")]


def test_a_contact_counts_once_and_one_of_two_companies_is_two(read):
    found = read("kbo,contact\n403227515,1\n0403.227.515, 1 \nBE0403227515,1.0\n0202239951,1\n")
    assert found.contacts == [Contact(*ACME, "1"), Contact(*OTHER, "1")]
    assert (found.repeated_count, found.repaired_count) == (2, 3)


JSON = '{{"kbo":"0403227515","contact":{}}}\n{{"kbo":"0403227515","contact":"1"}}\n'
REFUSED = {
    "kbo,contact\n0403227516,1\n0403227515,1\n": "mod 97",
    "kbo,contact\n0403227515,\n0403227515,1\n": "no contact id",
    "kbo,contact\n0403227515,   \n0403227515,1\n": "no contact id",
    "kbo,contact\n0403227515,1.23E+15\n0403227515,1\n": "rounded",
    "kbo,contact\n0403227515,a b\n0403227515,1\n": "spaces, control",
    "kbo,contact\n0403227515,TRUE\n0403227515,1\n": "truth value",
    "kbo,contact\n0403227515,a\x1b[2J\n0403227515,1\n": "spaces, control",
    f"kbo,contact\n0403227515,{'9' * 65}\n0403227515,1\n": "more than 64",
    "kbo,contact\n,5\n0403227515,1\n": "no company number",
    **{JSON.format(value): "write the id as text" for value in ("[1,2]", '{"id":1}', "true")},
}


@pytest.mark.parametrize("content", REFUSED)
def test_a_line_that_names_no_contact_of_a_company_is_refused_and_the_others_go_on(read, content):
    found = read(content)
    assert found.contacts == [Contact(*ACME, "1")]
    assert [one.line for one in found.refused] == [1 + content.startswith("kbo")]
    assert REFUSED[content] in found.refused[0].reason


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("kbo,contact\n1,1\n2,\n", "2 refused"),
        ("kbo,contact\n", "empty"),
        ("kbo,name\n0403227515,1\n", "no column looks like a contact id"),
        ("BE403227515;12\n", "no column looks like a contact id"),
    ],
)
def test_a_list_without_any_contact_is_an_error(read, content, error):
    with pytest.raises(CompanyListError, match=error):
        read(content)
