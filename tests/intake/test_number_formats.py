"""The columns of an XLSX sheet come with the number formats that most of their cells have."""

import contextlib
import io
import zipfile
from datetime import date, time

import pytest
from xlsxwriter import Workbook

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.entries import read_entries
from firmlake.intake.lines import read_company_list


def formatted(*columns, at=(0, 0), sheet="Blad1"):
    """Make a workbook: of each column the header, the cells, and their number formats."""
    file = io.BytesIO()
    with Workbook(file) as book:
        page = book.add_worksheet("Before")
        page = book.add_worksheet(sheet)
        for place, (name, *cells) in enumerate(columns, at[1]):
            page.write(at[0], place, name)
            for row, (value, code) in enumerate(cells, at[0] + 1):
                page.write(row, place, value, book.add_format({"num_format": code}))
    return file.getvalue()


def replaced(workbook, old, new):
    """Replace bytes in each part of a workbook."""
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook)) as before, zipfile.ZipFile(content, "w") as after:
        for name in before.namelist():
            after.writestr(name, before.read(name).replace(old, new))
    return content.getvalue()


NUMBERS = ("kbo", ("0403227515", ""), ("0403053608", ""), ("0417497106", ""))


def formats(path):
    return read_entries(path, IntakeSettings()).table.formats


@pytest.mark.parametrize("code", ["0.0%", '#,##0.00 "€"', "0000000000", "#'##0", "[Red]-0.00;<&>0", 4, 10])
def test_a_column_has_the_number_format_of_its_cells(write, code):
    assert formats(write(formatted(NUMBERS, ("x", (1, code), (2.5, code))))) == {1: {"n": code}}


@pytest.mark.parametrize("code", ["dd/mm/yyyy", 14, 22])
def test_numbers_and_dates_of_a_column_have_formats_of_their_own(write, code):
    """The code of a built-in format is that format: 9 is 0%."""
    cells = [(date(2026, 9, 1), code), (1, "0%"), (date(2026, 9, 2), code)]
    assert formats(write(formatted(NUMBERS, ("x", *cells)))) == {1: {"d": code, "n": 9}}


def test_the_most_frequent_format_counts_and_text_and_empty_cells_do_not(write):
    cells = [("n/a", "0.000"), (1, "0.0"), (None, "0.000"), (2, "0.0"), (3, "0.00"), ("", "0.000")]
    assert formats(write(formatted(NUMBERS, ("x", *cells)))) == {1: {"n": "0.0"}}
    assert formats(write(formatted(NUMBERS, ("x", (1, ""), (2, ""), (3, "0.00"))))) == {}


def test_a_sheet_that_begins_somewhere_else_and_has_a_name_to_escape_has_its_formats(write):
    content = formatted(NUMBERS, ("x", (1, "0%")), ("t", (time(9), "hh:mm")), at=(4, 27), sheet="A & B")
    assert formats(write(content)) == {1: {"n": 9}, 2: {"d": "hh:mm"}}


def test_a_format_without_its_code_is_none(write):
    """Its number means another format, or none, in the file that is written."""
    content = formatted(NUMBERS, ("x", (1, "0.000")))
    assert formats(write(replaced(replaced(content, b"numFmts", b"others"), b"<numFmt ", b"<other "))) == {}


def test_a_number_of_a_format_that_no_spreadsheet_has_is_none(write):
    content = formatted(NUMBERS, ("x", (1, 10)))
    assert formats(write(replaced(content, b'<xf numFmtId="10"', b'<xf numFmtId="%s"' % (b"1" * 5000)))) == {}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("end", "beginning"), [(b"</worksheet>", b"<c "), (b"</styleSheet>", b"<numFmt ")])
def test_a_hundred_thousand_tags_that_do_not_end_are_read_or_refused_in_one_line(write, end, beginning):
    path = write(replaced(formatted(NUMBERS, ("x", (1, "0.0%"))), end, beginning * 100_000))
    with contextlib.suppress(CompanyListError):
        assert read_company_list(path).companies.height == 3


def test_other_files_have_none(write):
    assert formats(write("kbo;x\n0403227515;5%\n")) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "expected"), [("xlsx", {1: {"n": "0000"}}), ("xls", {}), ("ods", {})])
def test_formats_are_read_from_xlsx_alone(write, converted, ending, expected):
    assert formats(write(converted("list.xlsx", formatted(NUMBERS, ("x", (7, "0000"))), ending))) == expected


def test_only_kept_columns_bring_their_kinds_types_and_formats(write):
    path = write(formatted(NUMBERS, ("x", (1, "0%")), ("y", (2, "0.0")), ("z", ("a", ""))))
    options = IntakeSettings(keep_columns=("y", "kbo"))
    lines = read_company_list(path, options).lines
    assert lines.columns.names == ("kbo", "y")
    assert lines.columns.formats == {"y": {"n": "0.0"}}
    assert next(lines.batches())["kinds"].to_list() == ["sn", "ss", "ss"]
