"""Every line of a list can be given back: with its number, its cells under unique names, and its company."""

import datetime

import polars as pl

from firmlake.intake.company_list import IntakeOptions
from firmlake.intake.entries import read_entries
from firmlake.intake.table import BLANK, field, unique_names
from intake.test_binary_formats import parquet, workbook


def cells(path, **options):
    """Give the columns of a list, and of each line: number, company, problem, its cells, and the whole line."""
    entries = read_entries(path, IntakeOptions(**options), with_cells=True)
    lines = pl.concat(entries.batches)
    names = ["line", "company_number", "problem", *map(field, range(len(entries.columns))), "text"]
    return entries.columns, lines.select(names).rows()


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


def test_names_are_unique_whatever_their_case_and_what_others_are_called():
    assert unique_names(["a", "a", "A_2", "", "column_4"]) == ("a", "a_3", "A_2", "column_4", "column_4_2")


def test_a_date_of_a_workbook_is_an_iso_date_without_the_time_it_does_not_have(write):
    day, moment = datetime.date(2026, 9, 1), datetime.datetime(2026, 9, 1, 12, 30)
    rows = [["kbo", "since", "text"], ["0403227515", day, "2026-09-01 00:00:00"], [None, moment]]
    _, lines = cells(write(workbook(rows)))
    assert [line[4] for line in lines] == ["2026-09-01", "2026-09-01 12:30:00"]
    assert lines[0][5] == "2026-09-01 00:00:00"
