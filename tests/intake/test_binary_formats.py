"""XLSX, Parquet and NDJSON give what a text file with the same lines gives."""

import datetime
import decimal
import io
import json

import polars as pl
import pytest
import xlsxwriter

LINES = [("BE", "0403227515", 2), ("FR", "552032534", 3)]


def workbook(rows, sheet="Blad1", formats=None):
    """A workbook with these rows; None leaves a cell out, a date gets the format of a date."""
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        page = book.add_worksheet(sheet)
        book.add_worksheet("Leeg")
        date = book.add_format({"num_format": "yyyy-mm-dd"})
        for row, cells in enumerate(rows):
            for column, cell in enumerate(cells):
                if isinstance(cell, datetime.date | datetime.time):
                    page.write_datetime(row, column, cell, date)
                elif cell is not None:
                    page.write(row, column, cell)
    return buffer.getvalue()


def found(companies):
    return companies.companies.select("country", "company_number", "line").rows()


def parquet(**columns):
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()


def test_cells_of_a_workbook_are_read_as_numbers_and_as_text(read):
    companies = read(
        workbook([["land", "nummer bedrijf", "btw"], ["BE", None, 403227515], ["FR", None, "552 032 534"]])
    )
    assert found(companies) == LINES
    assert companies.repaired["reason"].to_list() == ["leading zero restored"]


def test_rows_keep_the_number_they_have_in_the_sheet(read):
    """Whatever rows are empty: those above the data belong to the header, those between them count as blank."""
    companies = read(workbook([[], [], [None, "kbo"], [], [None, "0403227515"], [None, " "], [None, 403091220]]))
    assert found(companies) == [("BE", "0403227515", 5), ("BE", "0403091220", 7)]
    assert (companies.line_count, companies.blank_count, companies.header_count) == (7, 1, 4)


def test_a_workbook_without_header_is_read_by_content(read):
    assert found(read(workbook([["KBC", "BE", 403227515], ["Danone", "FR", 552032534]]))) == [
        ("BE", "0403227515", 1),
        ("FR", "552032534", 2),
    ]


def test_no_date_of_a_workbook_is_read_as_a_number(read):
    companies = read(workbook([["KvK"], [datetime.date(2023, 3, 15)], [17085815], [True]]))
    assert found(companies) == [("NL", "17085815", 3)]
    assert "a date" in companies.refused["reason"][0]


def test_the_sheet_can_be_chosen(read, refusal):
    content = workbook([["kbo"], [403227515]], sheet="Klanten")
    assert read(content, sheet="Klanten").companies.height == 1
    assert "'Klanten'" in refusal(content, sheet="Klant").next_step
    assert "'Klanten', 'Leeg'" in refusal(content, sheet="x").next_step
    assert "worksheet 'Leeg' is empty" in refusal(content, sheet="Leeg").message, "the others are not"


@pytest.mark.parametrize(
    "numbers",
    [
        ["0403227515", "0403.091.220"],
        [403227515, 403091220],
        [403227515.0, 403091220.0],
        [decimal.Decimal("403227515.00"), decimal.Decimal("403091220.00")],
        pl.Series(["0403227515", "0403.091.220"], dtype=pl.Categorical),
    ],
    ids=["text", "integers", "floats", "decimals", "categories"],
)
def test_columns_of_parquet_may_be_text_or_numbers(read, numbers):
    companies = read(parquet(name=["KBC", "Solvay"], kbo=numbers))
    assert found(companies) == [("BE", "0403227515", 1), ("BE", "0403091220", 2)]
    assert companies.header_count == 0


def test_a_missing_value_of_parquet_is_refused_as_empty(read):
    companies = read(parquet(kbo=["0403227515", None]))
    assert companies.refused.rows() == [(2, "", "no company number: fill it in, or remove the line")]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pl.Series([33011433.0], dtype=pl.Float32), "holds only 7 digits"),
        (pl.Series([["17085815"]]), "not text"),
        (pl.Series([{"a": "17085815"}]), "not text"),
        (pl.Series([], dtype=pl.String), "is empty"),
        (pl.Series([datetime.date(2023, 1, 1)]), "a date"),
    ],
)
def test_a_column_of_parquet_that_cannot_hold_numbers_is_refused(refusal, column, message):
    """A 32-bit float would round one KVK number to another."""
    assert message in refusal(parquet(kvk=column)).message


def test_objects_on_lines_are_read(read):
    companies = read(
        '{"Land":"BE","Numéro d\'entreprise":"0403.227.515","x":{"y":[1]}}\n'
        "\n"
        '{"Numéro d\'entreprise": 552032534, "Land": "FR"}\n'
        '{"Land":"BE"\n'
        '{"Land":"BE"}\n'
        "[1]\n"
        '{"Land":"NL","Num\\u00e9ro d\'entreprise":1.7085815e7}\n'
        '{"Land":"NL","Numéro d\'entreprise":["17085815"]}\n'
    )
    assert found(companies) == [("BE", "0403227515", 1), ("FR", "552032534", 3), ("NL", "17085815", 7)]
    assert companies.refused.select("line", pl.col("reason").str.head(20)).rows() == [
        (4, "not a JSON object: w"),
        (5, "no company number: f"),
        (6, "not a JSON object: w"),
        (8, "wrong length: a Dutc"),
    ]
    assert (companies.line_count, companies.blank_count) == (8, 1)


@pytest.mark.parametrize("key", ["a.b['c'] $é", 'a"b', "a\\b"])
def test_keys_can_be_mapped_whatever_their_characters(read, key):
    line = json.dumps({key: "BE0403227515"})
    assert read(f"{line}\n", number_column=key).companies.height == 1


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["xls", "xlsx", "ods"])
def test_workbooks_of_a_spreadsheet_program_are_read_as_the_text_they_were_made_of(read, converted, ending):
    lines = ["Klanten;;", "Klantnr.;Ondernemingsnr.;Omzet", "K1;0403.091.220;1.234,50", "K2;417497106;7", "K3;x;"]
    text = "\r\n".join([*lines, ""]).encode("cp1252")
    made = read(converted("klanten.csv", text, ending, "--infilter=CSV:59,34,1252,1"))
    assert found(made) == found(read(text))
    assert made.refused.rows() == read(text).refused.rows()
