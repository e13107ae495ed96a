"""A list comes back with every line once, in its order, with its own cells and what is held of its companies."""

from __future__ import annotations

import csv
import io
from contextlib import nullcontext
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import fastexcel
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xlsxwriter import Workbook

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.core.rows import guard
from firmlake.core.settings import IntakeSettings
from firmlake.core.settings_layers import load_settings
from firmlake.delivery import list_file
from firmlake.delivery.files import write_rows
from firmlake.delivery.list_file import FileBack, check_file_back, choose_added, write_list
from firmlake.enrich.run import enrich
from firmlake.intake.entries import read_entries
from firmlake.intake.lines import read_company_list
from support import ACME, BOLT, UNASKED, publish_list, with_views


class Kept(NamedTuple):
    """A list of which nothing has landed: a company for each line (None: refused), and the cells of each."""

    companies: list[Company | None]
    cells: list[dict[str, str]]
    more: dict[str, Any] | None = None


KINDS = [
    ("n", "5", 5.0),
    ("n", "-0.30000000000000004", -0.3),
    ("n", "1.23456789012346E+18", 1.23456789012346e18),
    ("n", "1234567890123456789", "1234567890123456789"),
    ("n", "NaN", "NaN"),
    ("n", "damaged", "damaged"),
    ("b", "true", True),
    ("b", "damaged", "damaged"),
    ("d", "2026-09-01 12:30:00.000000000", datetime(2026, 9, 1, 12, 30)),
    ("d", "1850-01-01", "1850-01-01"),
    ("e", "#N/A", None),
    ("e", "=1+1", "=1+1"),
    *(("s", text, text) for text in ("5", "true", "2026-09-01", "#N/A", "=1+1")),
]
"""Kind and text of cells, and the cell that comes back; None is an error, which our reader leaves empty."""
KIND_CELLS = {f"column {n}": text for n, (_, text, _) in enumerate(KINDS)}
DELIMITERS = {";": ";", "": ",", ",": ",", "\t": "\t", "|": "|"}
OF_WORKBOOK = [{"crm_id": "00123", "turnover": "12.5", "note": "=1+1"}, {"crm_id": "7", "turnover": "-3", "note": "-2"}]
LISTS = {
    "lines": Kept([ACME, None, BOLT, ACME], [{"id": str(n)} for n in range(4)]),
    "a column called line": Kept([ACME, None, BOLT], [{"line": text} for text in ("7", "10", "2")]),
    "called like ours": Kept([ACME], [{"Name": "mine", "status": "gold", "firmlake_status": "x"}]),
    "workbook": Kept([ACME, None], OF_WORKBOOK, {"kinds": ["sns", "sns"]}),
    "unread": Kept([ACME, None], [{"a": "1"}, {"a": "2"}], {"kinds": [None, ""], "given": "2;3;4"}),
    "kinds": Kept([None], [{"kbo": "x"} | KIND_CELLS], {"kinds": ["s" + "".join(kind for kind, *_ in KINDS)]}),
    "error": Kept([None], [{"kbo": "#REF!"}], {"kinds": ["e"]}),
    "lost": Kept([ACME], [{"kbo": "0403227515", "omzet": "5"}], {"kinds": ["sn"]}),
    **{
        f"delimiter {n}": Kept([ACME, BOLT], [{"id": "a;b", "omzet": "1.234,50"}] * 2, {"delimiter": delimiter})
        for n, delimiter in enumerate(DELIMITERS)
    },
}


@pytest.fixture(scope="module")
def given_back(tmp_path_factory):
    """Write one of the lists back; nobody changes the data folder that holds them all."""
    folders = Folders(tmp_path_factory.mktemp("lists") / "data")
    for day, (name, kept) in enumerate(LISTS.items()):
        run = publish_list(folders, kept.companies, cells=kept.cells, day=day, name=name, **(kept.more or {}))
        if name == "lost":
            run.path("list").unlink()
    with_views(folders)
    return lambda name, path: write_list(folders, name, FileBack(path), "256MB")


def give_back(folders, path, columns=(), name="customers"):
    return write_list(folders, name, FileBack(path, columns), "256MB").path


def settings_of(sandbox, tmp_path):
    flags = {"api.base_url": sandbox.base_url, "api.requests_per_minute": "0", "paths.data": str(tmp_path / "data")}
    return load_settings(flags=flags, environment=UNASKED)[0]


def read_csv(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("companies_at_once", [1, 32_768])
def test_every_line_comes_back_once_and_in_order_whatever_came_of_it(
    given_back, tmp_path, monkeypatch, companies_at_once
):
    monkeypatch.setattr(list_file, "_PORTION", companies_at_once)
    rows = read_csv(given_back("lines", tmp_path / "out.csv").path)
    assert [row["id"] for row in rows] == ["0", "1", "2", "3"]
    assert [row["status"] for row in rows] == ["waiting", "refused", "waiting", "repeated"]
    assert rows[3]["reason"] == "line 2 names the same company"
    assert [row["company"] for row in rows] == [" ".join(ACME), "", " ".join(BOLT), " ".join(ACME)]
    assert [row["line"] for row in rows] == ["2", "3", "4", "5"], "by which reasons name a line"


def test_a_column_of_the_list_that_is_called_line_does_not_change_the_order(given_back, tmp_path):
    rows = read_csv(given_back("a column called line", tmp_path / "out.csv").path)
    assert [row["line"] for row in rows] == ["7", "10", "2"]


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=12)


@pytest.mark.slow
@settings(max_examples=6)
@given(
    names=st.lists(NAMES, min_size=1, max_size=4, unique_by=str.casefold),
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20), min_size=8, max_size=8),
)
def test_whatever_columns_and_cells_hold_they_come_back_as_they_were(tmp_path_factory, names, texts):
    folder = tmp_path_factory.mktemp("list")
    cells = [{name: texts[(row + n) % 8] for n, name in enumerate(names)} for row in range(2)]
    folders = Folders(folder / "data")
    publish_list(folders, [ACME, None], cells=cells)
    with_views(folders)
    found = pl.read_parquet(give_back(folders, folder / "out.parquet", ("name",)))
    assert found.select(names).to_dicts() == cells
    with give_back(folders, folder / "out.csv", ("name",)).open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    assert [row[: len(names)] for row in rows[1:]] == [[guard(line[name]) for name in names] for line in cells]


def test_an_added_column_that_the_list_has_itself_is_renamed_and_said(given_back, tmp_path):
    out = tmp_path / "out.csv"
    written = given_back("called like ours", out)
    assert written.renamed == {"status": "list_lines_status", "name": "firmlake_name"}
    (row,) = read_csv(out)
    assert (row["Name"], row["status"], row["list_lines_status"]) == ("mine", "gold", "waiting")


def test_a_workbook_has_text_as_text_numbers_as_numbers_and_a_sheet_for_each_question(given_back, tmp_path):
    book = fastexcel.read_excel(given_back("workbook", tmp_path / "out.xlsx").path)
    assert book.sheet_names == ["workbook", "Columns", "Refused lines", "Incomplete"]
    rows = book.load_sheet("workbook").to_polars()
    assert rows.select("crm_id", "turnover", "note").rows() == [("00123", 12.5, "=1+1"), ("7", -3.0, "-2")]
    explained = book.load_sheet("Columns").to_polars()
    assert explained["column"].to_list() == rows.columns[3:]
    assert explained["meaning"].null_count() == 0
    assert "Empty: the line names no company." in explained["meaning"][2], "cells are empty, not null"
    assert book.load_sheet("Refused lines").to_polars().rows() == [(3.0, "x", "wrong form")]


def test_a_line_whose_fields_cannot_be_told_comes_back_whole(given_back, tmp_path):
    (tmp_path / "list.csv").write_text("kbo;note\n0403227515;a\n2;3;4\n")
    [lines] = read_company_list(tmp_path / "list.csv").lines.batches()
    assert lines.select("given", "kinds").rows() == [("0403227515", None), ("2;3;4", "")]
    rows = read_csv(given_back("unread", tmp_path / "out.csv").path)
    assert [row["unread_line"] for row in rows] == ["", "2;3;4"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["name", "portfolio.days_to_file"], ["company_figures.name", "portfolio.days_to_file"]),
        (["company_status.*"], ["company_status.status", "company_status.reason"]),
        (["place", "place"], ["company_figures.place"]),
    ],
)
def test_columns_are_chosen_by_name_or_view(names, expected):
    assert [each.full_name for each in choose_added(names)] == expected


@pytest.mark.parametrize(
    ("name", "near"), [("revnue", "revenue"), ("portfolo.*", "portfolio.*"), ("portfolio.plac", "portfolio.place")]
)
def test_a_wrong_column_is_refused_with_the_nearest_ones(name, near):
    with pytest.raises(UsageError) as refused:
        choose_added([name])
    assert near in refused.value.next_step


@pytest.mark.parametrize(
    ("name", "lines", "said"),
    [
        ("out.pdf", 1, r"cannot be written as \.pdf"),
        ("out", 1, ".csv, .parquet, .xlsx"),
        ("missing/out.csv", 1, "missing"),
        (".", 1, r"."),
        ("list.csv", 1, "the list itself"),
        ("a.xlsx", 1_048_576, r"1,048,576 lines.*\.csv or \.parquet"),
        ("a.xlsx", 1_048_575, None),
        ("a.csv", 1_048_576, None),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_fetched(tmp_path, name, lines, said):
    (tmp_path / "list.csv").write_text("x")
    with nullcontext() if said is None else pytest.raises(UsageError, match=said):
        check_file_back(FileBack(tmp_path / name), tmp_path / "." / "list.csv", lines)


@pytest.mark.parametrize("n", range(len(DELIMITERS)))
def test_a_csv_has_the_delimiter_of_the_list_and_with_semicolons_decimal_commas(given_back, tmp_path, n):
    expected = list(DELIMITERS.values())[n]
    path = given_back(f"delimiter {n}", tmp_path / "out.csv").path
    text = path.read_text("utf-8-sig")
    row = next(csv.DictReader(text.splitlines(), delimiter=expected))
    assert (row["id"], row["omzet"]) == ("a;b", "1.234,50")


def test_numbers_have_the_decimal_sign_that_belongs_to_the_delimiter():
    schema = {"id": pl.String, "revenue": pl.Decimal(18, 2), "growth": pl.Float64}
    batches = pl.DataFrame([["1,5", Decimal("-1234.50"), 0.25], [None, None, None]], schema, orient="row")
    written = {}
    for delimiter in (";", ","):
        table, file = batches.to_arrow(), io.BytesIO()
        write_rows(file, table.to_reader(), delimiter)
        written[delimiter] = file.getvalue().decode("utf-8-sig").splitlines()[1:]
    assert written == {";": ['"1,5";-1234,50;0,25', ";;"], ",": ['"1,5",-1234.50,0.25', ",,"]}


def cell_types(path):
    """Map each column of the first sheet to the types of its cells: number, text or date; None for an empty cell.

    An error cell is empty to this reader.
    """
    load = partial(fastexcel.read_excel(path).load_sheet, 0)
    texts, numbers, moments = (load(dtypes=kind).to_polars() for kind in ("string", "boolean", "datetime"))
    return {
        name: [
            None if text is None else "number" if number is not None else "date" if moment else "text"
            for text, number, moment in zip(texts[name], numbers[name], moments[name], strict=True)
        ]
        for name in texts.columns
    }


def test_a_cell_whose_kind_is_known_comes_back_as_that_if_a_spreadsheet_can_hold_it(given_back, tmp_path):
    """Each in a column of its own."""
    sheet = fastexcel.read_excel(given_back("kinds", tmp_path / "out.xlsx").path).load_sheet(0)
    found = [sheet.to_polars()[name][0] for name in KIND_CELLS]
    assert [(type(value), value) for value in found] == [(type(value), value) for *_, value in KINDS]


def test_an_error_cell_comes_back_as_one(given_back, tmp_path):
    sheet = fastexcel.read_excel(given_back("error", tmp_path / "out.xlsx").path).load_sheet(0, dtypes="string")
    failed = sheet.to_arrow_with_errors()[1]
    assert [each.detail for each in failed.errors] == ["Expected string but got 'Error(Ref)'"]
    assert read_csv(given_back("error", tmp_path / "out.csv").path)[0]["kbo"] == "#REF!"


def test_a_list_whose_stored_lines_are_lost_comes_back_as_texts(given_back, tmp_path):
    assert cell_types(given_back("lost", tmp_path / "out.xlsx").path)["omzet"] == ["text"]


def test_the_columns_of_a_parquet_list_come_back_with_their_types(sandbox, tmp_path, monkeypatch):
    """In a workbook, its numbers, dates and truth values are cells of their type; nested values stay JSON text."""
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    moment = datetime(2026, 7, 1, 12, 30)
    table = pa.table({
        "kbo": ["0403227515", None],
        "id": pa.array([10023, None], pa.int32()),
        "share": pa.array([0.1 + 0.2, float("inf")]),
        "amount": pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
        "since": pa.array([20_697, 6_668_000], pa.int32()).cast(pa.date32()),  # 2026-09-01, and the year 20226
        "seen": pa.array([moment, None], pa.timestamp("ms")),
        "sent": pa.array([moment, None], pa.timestamp("us", "Europe/Brussels")),
        "at": [time(9, 30), None],
        "active": [True, False],
        "tags": [["a", "b"], None],
    })  # fmt: skip
    path = tmp_path / "customers.parquet"
    pq.write_table(table, path)
    chosen = settings_of(sandbox, tmp_path)
    enrich(chosen, path, "a test")
    given = give_back(Folders.of(chosen), tmp_path / "out.parquet")
    back = pq.read_table(given).select(table.column_names)
    plain = table.drop(["sent", "tags"])
    assert back.drop(["sent", "tags"]).cast(plain.schema).equals(plain)
    assert back.select(plain.column_names).schema.types == plain.schema.types
    assert pa.types.is_timestamp(back.schema.field("sent").type)
    assert back["sent"].to_pylist()[0] == table["sent"].to_pylist()[0]
    assert back["tags"].to_pylist() == ['["a","b"]', None]
    types = cell_types(give_back(Folders.of(chosen), tmp_path / "out.xlsx"))
    first = {name: types[name][0] for name in table.column_names}
    assert first == {
        "kbo": "text", "id": "number", "share": "number", "amount": "number", "since": "date", "seen": "date",
        "sent": "text", "at": "date", "active": "number", "tags": "text",
    }  # fmt: skip


def test_numbers_and_dates_of_a_workbook_keep_their_formats_however_often_it_is_given_back(
    sandbox, tmp_path, monkeypatch
):
    """A format code or the number of a built-in format; text cells and columns without one have none."""
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    path = tmp_path / "customers.xlsx"
    cells = {
        "kbo": (403227515, "0000000000"),
        "eur": (5, '#,##0.00 "€"'),
        "since": (date(2026, 9, 1), 14),
        "x": (1, ""),
    }
    with Workbook(path) as book:
        sheet = book.add_worksheet()
        for place, (name, (value, code)) in enumerate(cells.items()):
            sheet.write_column(0, place, [name, "0403053608" if name == "kbo" else "n/a"])
            sheet.write(2, place, value, book.add_format({"num_format": code}))
    chosen = settings_of(sandbox, tmp_path)
    for name in ("first", "second"):
        enrich(chosen, path, "a test")
        path = write_list(Folders.of(chosen), path.stem, FileBack(tmp_path / f"{name}.xlsx"), "256MB").path
        formats = read_entries(path, IntakeSettings()).table.formats
        own = {column: formats.get(n) for n, column in enumerate(cells)}
        assert own == {"kbo": {"n": "0000000000"}, "eur": {"n": '#,##0.00 "€"'}, "since": {"d": 14}, "x": None}
    assert fastexcel.read_excel(path).load_sheet(0, dtypes="string").to_polars()["since"].to_list() == [
        "n/a",
        "2026-09-01 00:00:00",
    ]


@pytest.mark.parametrize("name", ["out.xlsx", "out.csv"])
def test_a_blank_line_comes_back_blank_and_is_no_refused_line_of_the_next_list(sandbox, tmp_path, monkeypatch, name):
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    path = tmp_path / "customers.csv"
    path.write_text("kbo,note\n0403227515,a\n\n , \n0403053608,b\n")
    chosen = settings_of(sandbox, tmp_path)
    enrich(chosen, path, "a test")
    read = read_company_list(give_back(Folders.of(chosen), tmp_path / name))
    assert (read.line_count, read.blank_count, read.refused.height) == (5, 2, 0)
