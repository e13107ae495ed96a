"""Every line of a list can be given back: with its number, its cells under unique names, and its company."""

import datetime
import io

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from xlsxwriter import Workbook

from firmlake.core.settings import IntakeSettings
from firmlake.intake.entries import read_entries
from firmlake.intake.identifiers import EMPTY
from firmlake.intake.table import cell, unique_names
from intake.test_binary_formats import parquet, workbook
from intake.test_people import ods


def cells(path, **options):
    """Give the columns of a list, and of each line: number, company, status, its cells, and the whole line."""
    entries = read_entries(path, IntakeSettings(**options))
    lines = pl.concat(entries.batches)
    own = [cell(n).alias(f"cell {n}") for n in range(entries.table.width)]
    return entries.table.columns, lines.select("line", "company_number", "status", *own, "text").rows()


def test_every_line_keeps_its_cells_whatever_happens_to_it(write):
    columns, lines = cells(
        write('naam;kbo;naam\n"a;b";0403227515;x\n\nKBC\n;1;;\nUCB;0403053608;x;y\n;0403.227.515;z\n')
    )
    assert columns == ("naam", "kbo", "naam_2")
    assert [(line[0], line[1], *line[3:]) for line in lines] == [
        (2, "0403227515", "a;b", "0403227515", "x", None),
        (3, None, "", None, None, ""),
        (4, None, "KBC", None, None, None),
        (5, None, "", "1", "", None),
        (6, "0403053608", "UCB", "0403053608", "x", "UCB;0403053608;x;y"),
        (7, "0403227515", "", "0403.227.515", "z", None),
    ]
    assert [line[2] for line in lines][:2] == ["accepted", "blank"]


def test_cells_of_workbooks_parquet_and_json_come_in_the_same_way(write):
    wanted = [(2, "0403227515", "accepted", "0403227515", "1.5", None), (3, None, "blank", None, None, None)]
    sheet = workbook([["kbo", ""], ["0403227515", 1.5], [], ["x", None]])
    assert cells(write(sheet))[0] == ("kbo", "column_2")
    assert cells(write(sheet))[1][:2] == wanted
    assert cells(write(parquet(kbo=["0403227515"], x=[1.5])))[1] == [(1, *wanted[0][1:])]
    assert cells(write('{"kbo":"0403227515","x":1.5}\n'))[1] == [(1, *wanted[0][1:])]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (pa.array([datetime.timedelta(hours=1)]), "3600000000"),
        (pa.array([datetime.time(9, 30)]), "09:30:00"),
        (pa.array([datetime.time(9, 30, 0, 500_000)]), "09:30:00.5"),
        (pa.array([1], pa.time64("ns")), "00:00:00.000000001"),
        (pa.array([{"a": [b"\xff"]}]), r'{"a":["\\xFF"]}'),
        (pa.array(['{"a":1}'], pa.json_()), '{"a":1}'),
        (pa.array([None], pa.list_(pa.int8())), None),
    ],
)
def test_a_parquet_column_of_any_type_is_read_beside_the_numbers(tmp_path, values, text):
    """A column that nobody needs must not stop the list."""
    pq.write_table(pa.table({"kbo": ["0403227515"], "odd": values}), tmp_path / "list.parquet")
    assert cells(tmp_path / "list.parquet")[1][0][4] == text


def test_names_are_unique_whatever_their_case_and_what_others_are_called():
    assert unique_names(["a", "a", "A_2", "", "column_4"]) == ("a", "a_3", "A_2", "column_4", "column_4_2")


def test_a_date_of_a_workbook_is_an_iso_date_without_the_time_it_does_not_have(write):
    day, moment = datetime.date(2026, 9, 1), datetime.datetime(2026, 9, 1, 12, 30)
    rows = [["kbo", "since", "text"], ["0403227515", day, "2026-09-01 00:00:00"], [None, moment]]
    _, lines = cells(write(workbook(rows)))
    assert [line[4] for line in lines] == ["2026-09-01", "2026-09-01 12:30:00"]
    assert lines[0][5] == "2026-09-01 00:00:00"


def test_a_time_of_a_workbook_is_a_time_also_at_midnight(write):
    content = workbook([["kbo", "at"], ["0403227515", datetime.time(0)], [None, datetime.time(9, 30)]])
    assert second_column(content, write) == ["00:00:00", "09:30:00"]


def second_column(content, write):
    return [line[4] for line in cells(write(content))[1]]


NUMBERS = {
    123456789.12: "123456789.12",
    -99999999.99: "-99999999.99",
    1000 / 3: "333.333333333333",
    0.1 + 0.2: "0.3",
    5.0: "5",
    0.155: "0.155",
    1e-7: "0.0000001",
    1e-12: "1.00000000000000E-12",
    999999999999999: "999999999999999",
    1e21: "1.00000000000000E+21",
}


@pytest.mark.parametrize(("number", "shown"), NUMBERS.items())
def test_a_number_of_a_workbook_is_read_with_the_15_digits_that_a_spreadsheet_shows(write, number, shown):
    """Without an exponent, unless the number is very large or very small."""
    assert second_column(workbook([["kbo", "omzet"], ["0403227515", number]]), write) == [shown]


def test_a_text_of_a_workbook_is_read_as_it_stands(write):
    texts = ["123456789.120000005", "1234567890123456", "0.3000000000000000", "true", "1e21", "007"]
    rows = [["kbo", "omzet"], ["0403227515", 1234567.891], *([None, text] for text in texts)]
    assert second_column(workbook(rows), write) == ["1234567.891", *texts]


def test_a_number_of_a_workbook_that_has_lost_digits_is_no_company_number(read):
    companies = read(workbook([["siret"], [55203253400646], [5520325340064612], [-55203253400646123]]))
    assert companies.companies["company_number"].to_list() == ["552032534"]
    assert companies.refused["given"].to_list() == ["5.52032534006461E+15", "-5.52032534006461E+16"]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["xls", "xlsx", "ods"])
def test_numbers_are_read_alike_from_the_workbooks_of_a_spreadsheet_program(write, converted, ending):
    content = workbook([["kbo", "omzet"], *(["0403227515", each] for each in NUMBERS)])
    assert second_column(converted("list.xlsx", content, ending), write) == list(NUMBERS.values())


def kinds(path, **options):
    kinds = pl.concat(read_entries(path, IntakeSettings(**options)).batches)["kinds"]
    return kinds.to_list() if kinds.count() else None


@pytest.mark.parametrize(
    ("values", "letters"),
    [
        ([1, "2", 3, "1.234,50", "007", "n/a"], "nsnsss"),
        ([1e-12, 1000 / 3, 1e21, -5, "12.12345678901234"], "nnnns"),
        ([True, False, "true", 1], "bbsn"),
        ([datetime.date(2026, 9, 1), "2026-09-01", datetime.datetime(2026, 9, 1, 12, 30), 5], "dsdn"),
        (["12:30:00", None], "ss"),
        (["some", "words"], "ss"),
    ],
)
def test_a_cell_of_a_workbook_keeps_its_kind_beside_its_text(write, values, letters):
    rows = [["kbo", "2024"], *(["0403227515", value] for value in values)]
    assert kinds(write(workbook(rows))) == [f"s{letter}" for letter in letters], "the header does not count"


def with_errors(*rows):
    """Make a workbook; a text that begins with `=` is an error."""
    file = io.BytesIO()
    with Workbook(file) as book:
        sheet = book.add_worksheet()
        for n, row in enumerate(rows):
            for place, value in enumerate(row):
                if isinstance(value, str) and value.startswith("="):
                    sheet.write_formula(n, place, "=1/0", None, value[1:])
                else:
                    sheet.write(n, place, value)
    return file.getvalue()


ERRORS = ["#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"]


@pytest.mark.parametrize(
    ("cell", "text", "letter"),
    [
        (("date", "2020-01-05", "5 jan"), "2020-01-05", "d"),
        (("date", "2020-01-05T00:00:00", "5 jan"), "2020-01-05", "d"),
        (("date", "2020-01-05T10:05:00", "5 jan 10:05"), "2020-01-05 10:05:00", "d"),
        (("time", "PT10H01M00S", "10:01"), "10:01:00", "d"),
        (("time", "PT30H00M00S", "30:00"), "30:00:00", "s"),
        ("2020-01-05", "2020-01-05", "s"),
        ("2020-01-05T10:05:00", "2020-01-05T10:05:00", "s"),
    ],
)
def test_dates_and_times_of_open_document_are_read_like_those_of_excel(write, cell, text, letter):
    """Duration cells of 24 hours or more are no time of a day: they are texts."""
    path = write(ods([["kbo", "dag"], ["0403227515", cell], ["0403091220", ("date", "2020-01-06T08:00:00", "")]]))
    assert cells(path)[1][0][4] == text
    assert kinds(path) == [f"s{letter}", "sd"]


def test_an_error_of_a_workbook_is_read_as_it_is_shown(write):
    path = write(with_errors(["kbo", "x"], *(["0403227515", f"={error}"] for error in ERRORS), ["0403227515", "#N/A"]))
    assert [line[4] for line in cells(path)[1]] == [*ERRORS, "#N/A"]
    assert kinds(path) == ["se"] * len(ERRORS) + ["ss"]


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_beside_a_company_number_says_no_more_than_an_empty_cell(read, error):
    rows = [["country", "kbo", "btw"], [f"={error}", "0403227515", f"={error}"], ["BE", f"={error}", "BE0403053608"]]
    found = read(with_errors(*rows, ["BE", f"={error}", None]))
    assert found.companies["company_number"].to_list() == ["0403227515", "0403053608"]
    assert found.refused["reason"].to_list() == [EMPTY]


def test_a_line_of_errors_in_a_workbook_is_blank_and_keeps_its_cells(write, read):
    """Formulas that were filled in below the last line are no refused lines."""
    content = with_errors(["kbo", "x"], ["0403227515", 1], ["=#N/A", "=#REF!"], [None, "=#N/A"], ["=#N/A", "x"])
    assert cells(write(content))[1][1:3] == [
        (3, None, "blank", "#N/A", "#REF!", None),
        (4, None, "blank", None, "#N/A", None),
    ]
    assert kinds(write(content))[1:3] == ["ee", "se"]
    found = read(content)
    assert (found.line_count, found.blank_count, found.refused["line"].to_list()) == (5, 2, [5])


def test_errors_do_not_hide_the_column_with_the_numbers(read):
    rows = [["a", "b"], ["n", "BE0403227515"], *(["n", f"={error}"] for error in ERRORS)]
    assert read(with_errors(*rows)).companies.height == 1


def test_parquet_columns_have_kinds_and_the_types_that_their_texts_can_be_cast_to(tmp_path):
    table = pa.table({"kbo": ["0403227515"], "n": [1.5], "b": [True], "d": [datetime.date(2026, 9, 1)], "l": [[1]]})
    pq.write_table(table, tmp_path / "list.parquet")
    assert kinds(tmp_path / "list.parquet") == ["snbds"]
    types = read_entries(tmp_path / "list.parquet", IntakeSettings()).table.types
    assert types == {1: "DOUBLE", 2: "BOOLEAN", 3: "DATE"}


def test_a_column_that_has_another_type_in_another_file_of_a_folder_is_text(tmp_path):
    for number, value in enumerate([1, "1"]):
        pq.write_table(pa.table({"kbo": ["0403227515"], "x": [value]}), tmp_path / f"{number}.parquet")
    assert kinds(tmp_path) == ["ss", "ss"]
    assert not read_entries(tmp_path, IntakeSettings()).table.types


def test_cells_of_text_files_have_no_kinds(write):
    assert kinds(write("kbo;customer\n0403227515;10023\n")) is None
    assert kinds(write('{"kbo":"0403227515","x":1.5}\n')) is None


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["xls", "xlsx", "ods"])
def test_cells_have_the_same_kinds_in_the_workbooks_of_a_spreadsheet_program(write, converted, ending):
    """Errors of ODS are read as text."""
    rows = [["kbo", "2024", "omzet", "bad"], *(["0403227515", str(n), n / 8, "=#N/A"] for n in range(3))]
    assert (
        kinds(write(converted("list.xlsx", with_errors(*rows), ending))) == ["ssns" if ending == "ods" else "ssne"] * 3
    )


def test_a_workbook_so_large_that_a_guarded_process_reads_it_gives_the_same_cells(write):
    rows = [["0403227515", f"{n * 7919 % 1_000_003}-{n}", n / 8] for n in range(3000)]
    content = workbook([["kbo", "text", "number"], *rows])
    assert len(content) > 2**15
    path = write(content)
    assert [line[3:6] for line in cells(path)[1]] == [(a, b, f"{c:g}") for a, b, c in rows]
    assert set(kinds(path)) == {"ssn"}
