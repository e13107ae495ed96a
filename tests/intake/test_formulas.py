"""Formulas without values, as programs that are no spreadsheets write them, are named instead of passed over."""

import io

import pytest
from xlsxwriter import Workbook

from firmlake.core.errors import CompanyListError
from firmlake.intake.lines import read_company_list
from intake.test_number_formats import replaced

BE = "0403227515"


def book(*rows, kept=b"<v>777</v>"):
    """A workbook whose formulas have `kept` in place of their values; the other cells are texts."""
    file = io.BytesIO()
    with Workbook(file) as made:
        page = made.add_worksheet("Blad1")
        for number, cells in enumerate(rows):
            for column, cell in enumerate(cells, 1):
                if cell.startswith("="):
                    page.write_formula(number, column, cell, value=777)
                else:
                    page.write(number, column, cell)
    return replaced(file.getvalue(), b"<v>777</v>", kept)


@pytest.mark.parametrize("kept", [b"<v></v>", b"<v/>", b"<v />", b""])
def test_a_column_of_formulas_without_values_is_named_with_the_way_to_compute_them(write, kept):
    path = write(book(["kbo", "dubbel"], [BE, "=1+1"], kept=kept))
    [guess, _] = read_company_list(path).guesses
    assert "formulas without their values, which are read as empty cells, in 'dubbel'" in guess
    assert "Open the list in a spreadsheet program, save it" in guess


def test_numbers_that_are_formulas_without_values_refuse_the_list_with_that_reason(write):
    path = write(book(["naam", "kbo"], ["KBC", '="0403227515"'], kept=b"<v/>"))
    with pytest.raises(CompanyListError, match=r"formulas without their values.* in 'kbo'") as caught:
        read_company_list(path)
    assert caught.value.next_step.startswith("Open the list in a spreadsheet program")


def test_a_few_formulas_without_values_among_the_numbers_do_not_refuse_the_list(write):
    companies = read_company_list(write(book(["kbo", "naam"], [BE, "KBC"], ['="x"', "UCB"], kept=b"<v/>")))
    assert (companies.companies.height, companies.refused.height) == (1, 1)
    assert "in 'kbo'" in companies.guesses[0]


@pytest.mark.parametrize(
    "content",
    [
        book(["kbo", "dubbel"], [BE, "=1+1"]),  # with its value
        book(["kbo", '=""', "naam"], [BE, "x", "y"], kept=b"<v/>"),  # in the header
        replaced(book(["kbo", "leeg"], [BE, '=""']), b'"><f>""</f><v>777</v>', b'" t="str"><f>""</f><v></v>'),
        "kbo;dubbel\n0403227515;=1+1\n",
    ],
)
def test_formulas_with_values_even_empty_ones_and_those_above_the_data_are_not_named(write, content):
    assert not any("formulas" in guess for guess in read_company_list(write(content)).guesses)
