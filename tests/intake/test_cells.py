"""Every line of a list can be given back: with its number, its cells under unique names, and its company."""

import datetime

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firmlake.intake.company_list import IntakeOptions
from firmlake.intake.entries import read_entries
from firmlake.intake.sheet import load_guarded, load_sheets
from firmlake.intake.table import BLANK, field, unique_names
from intake.test_binary_formats import parquet, workbook


def cells(path, **options):
    """Give the columns of a list, and of each line: number, company, problem, its cells, and the whole line."""
    entries = read_entries(path, IntakeOptions(**options), with_cells=True)
    lines = pl.concat(entries.batches)
    names = ["line", "company_number", "problem", *map(field, range(entries.table.width)), "text"]
    return entries.table.columns, lines.select(names).rows()


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
        (6, None, "UCB", "0403053608", "x", "UCB;0403053608;x;y"),
        (7, "0403227515", "", "0403.227.515", "z", None),
    ]
    assert [line[2] for line in lines][:2] == [None, BLANK]


def test_cells_of_workbooks_parquet_and_json_come_in_the_same_way(write):
    wanted = [(2, "0403227515", None, "0403227515", "1.5", None), (3, None, BLANK, None, None, None)]
    sheet = workbook([["kbo", ""], ["0403227515", 1.5], [], ["x", None]])
    assert cells(write(sheet))[0] == ("kbo", "column_2")
    assert cells(write(sheet))[1][:2] == wanted
    assert cells(write(parquet(kbo=["0403227515"], x=[1.5])))[1] == [(1, *wanted[0][1:])]
    assert cells(write('{"kbo":"0403227515","x":1.5}\n'))[1] == [(1, *wanted[0][1:])]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (pa.array([datetime.timedelta(hours=1)]), "PT1H"),
        (pa.array([{"a": [b"\xff"]}]), '{"a":["/w=="]}'),
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


def text_columns(path):
    table = read_entries(path, IntakeOptions()).table
    text = tuple(table.text_columns)
    assert not table.typed_columns or {*text, *table.typed_columns} == {*range(table.width)}, "the others are typed"
    return text


@pytest.mark.parametrize(
    ("values", "is_text"),
    [
        (["10023"], True),
        ([10023], False),
        ([1, "2", 3], True),
        (["1.234,50", None], True),
        (["-0.5", "n/a"], True),
        ([5, "n/a", "-", "", "A10"], False),
        ([1e-12, 1000 / 3, 1e21, True, datetime.date(2026, 9, 1)], False),
        ([True, False, None, ""], False),
        ([True, "true"], True),
        (["2026-09-01", datetime.date(2026, 9, 1)], True),
        (["12:30:00"], True),
        pytest.param([5, "12.12345678901234"], False, id="a spreadsheet holds 15 digits"),
    ],
)
def test_a_column_of_a_workbook_is_text_if_a_text_cell_reads_like_a_number_truth_value_or_date(write, values, is_text):
    rows = [["kbo", "2024"], *(["0403227515", value] for value in values)]
    assert text_columns(write(workbook(rows))) == ((1,) if is_text else ()), "the header is text anyway"


def test_only_workbooks_have_text_columns(write):
    assert not read_entries(write("kbo;customer\n0403227515;10023\n"), IntakeOptions()).table.typed_columns
    assert text_columns(write("kbo;customer\n0403227515;10023\n")) == ()
    assert text_columns(write(parquet(kbo=["0403227515"], customer=["10023"]))) == ()


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["xls", "xlsx", "ods"])
def test_text_cells_are_found_in_the_workbooks_of_a_spreadsheet_program(write, converted, ending):
    rows = [["kbo", "2024", "omzet"], *(["0403227515", str(n), n / 8] for n in range(3))]
    assert text_columns(write(converted("list.xlsx", workbook(rows), ending))) == (1,)


@pytest.mark.slow
def test_a_process_of_its_own_reads_a_sheet_in_the_same_way(write):
    path = write(workbook([["kbo", "2024"], ["0403227515", "1"], ["0403227515", 2]]))
    (guarded, _), (sheet, _) = load_guarded(path, "", 1000), load_sheets(path)
    assert guarded.cells.equals(sheet.cells)
    assert guarded.text_ends == sheet.text_ends == (0, 2)
