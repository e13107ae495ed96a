"""Files made to do harm: each is refused in one line, and takes little memory."""

import contextlib
import gzip
from pathlib import Path

import polars as pl
import pytest

from firmlake.core.errors import CompanyListError
from firmlake.intake.lines import read_company_list
from intake.workbooks import archive, edit_parts, make_workbook
from support import slow

BE = "0403227515"
ODS = (Path(__file__).parent / "cases" / "opendocument" / "list").read_bytes()
SHEET = "xl/worksheets/sheet1.xml"
LONG = f"kbo;note\n0403227515;{'x' * 1_100_000}\n"
SMALL = make_workbook({"Blad1": [["kbo"], [BE]]})


def edited(content: bytes, part: str, *pairs: tuple[str, str]) -> bytes:
    """Replace texts in the parts of a workbook whose name ends so."""

    def edit(name: str, text: bytes) -> bytes:
        for old, new in pairs if name.endswith(part) else ():
            text = text.replace(old.encode(), new.encode())
        return text

    return edit_parts(content, edit)


def with_cell(place: str) -> bytes:
    """A workbook with one more cell, far away."""
    row = "".join(filter(str.isdigit, place))
    cell = f'<row r="{row}"><c r="{place}"><v>1</v></c></row></sheetData>'
    return edited(SMALL, SHEET, ("</sheetData>", cell))


@pytest.mark.parametrize("place", ["CV1048576", *slow("XFD1048576")])
@pytest.mark.slow
def test_a_cell_far_away_is_refused_before_anything_is_allocated(refusal, place):
    assert "holds more than 25,000,000 cells" in refusal(with_cell(place)).message


@pytest.mark.slow
def test_cells_without_a_place_are_counted_by_a_process_with_a_limit(refusal):
    cells = f"<sheetData><row>{'<c><v>1</v></c>' * 16_000}</row>"
    assert "intake.max_cells" in refusal(edited(with_cell("A1048576"), SHEET, ("<sheetData>", cells))).next_step


@pytest.mark.slow
def test_a_sheet_of_open_document_that_repeats_a_cell_is_refused(refusal):
    repeat = (
        ("<table:table-row>", "<table:table-row table:number-rows-repeated='1000000'>"),
        ("<table:table-cell office", "<table:table-cell table:number-columns-repeated='16000' office"),
    )
    assert refusal(edited(ODS, "content.xml", *repeat)).next_step


@pytest.mark.slow
def test_a_long_text_that_many_cells_share_is_refused_for_its_memory(refusal):
    content = make_workbook({"Blad1": [["kbo"], [BE], *[["shared"]] * 2_000]})
    content = edited(content, "sharedStrings.xml", ("<t>shared<", f"<t>{'y' * 250_000}<"))
    assert len(content) < 40_000
    assert "of memory to read" in refusal(content).message


@pytest.mark.slow
def test_a_workbook_that_may_abort_its_reader_is_read_in_a_guarded_process_in_an_archive_too(read, monkeypatch):
    def fail(*_):
        raise AssertionError("calamine runs in the process that holds the token")

    monkeypatch.setattr("python_calamine.CalamineWorkbook", fail)
    for content in (ODS, archive({"a": ODS})):
        assert read(content).companies["company_number"][0] == BE


@pytest.mark.slow
def test_a_workbook_so_large_that_a_guarded_process_reads_it_gives_the_same_cells(write):
    rows = [[BE, f"{n * 7919 % 1_000_003}-{n}", n / 8] for n in range(3000)]
    content = make_workbook({"Blad1": [["kbo", "text", "number"], *rows]})
    assert len(content) > 2**15
    found = pl.concat(read_company_list(write(content)).lines.batches())
    cells = found["columns"].str.json_decode(pl.Struct(dict.fromkeys(("kbo", "text", "number"), pl.String)))
    assert cells.struct.unnest().rows() == [(a, b, f"{c:g}") for a, b, c in rows]
    assert set(found["kinds"]) == {"ssn"}


@pytest.mark.parametrize(
    ("content", "options", "setting"),
    [
        (gzip.compress(LONG.encode()), {"max_inflated_megabytes": 1}, "max_inflated_megabytes"),
        *slow((archive({"a": LONG}), {"max_inflated_megabytes": 1}, "max_inflated_megabytes")),
        ("kbo\n" + "0403227515\n" * 11, {"max_rows": 10}, "max_rows"),
        ("kbo;a;b\n0403227515\n", {"max_columns": 2}, "max_columns"),
        *slow((make_workbook({"Blad1": [["kbo", "x"], [BE]]}), {"max_cells": 3}, "max_cells")),
    ],
    ids=["gzip", "zip", "rows", "columns", "cells"],
)
def test_every_limit_is_a_setting_and_the_refusal_names_it(write, refusal, content, options, setting):
    assert f"raise intake.{setting}" in refusal(content, **options).next_step
    assert read_company_list(write(content)).companies.height == 1, "at the default it is read"


FORMATTED = make_workbook({"Blad1": [["kbo", "x"], [BE, {"value": 1, "format": "0.0%"}], ["0403053608"]]})


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("end", "beginning"), [("</worksheet>", "<c "), ("</styleSheet>", "<numFmt ")])
@pytest.mark.slow
def test_a_hundred_thousand_tags_that_do_not_end_are_read_or_refused_in_one_line(write, end, beginning):
    path = write(edited(FORMATTED, "xml", (end, beginning * 100_000)))
    with contextlib.suppress(CompanyListError):
        assert read_company_list(path).companies.height == 2


@pytest.mark.slow
def test_a_number_of_a_format_that_no_spreadsheet_has_is_none(read):
    content = edited(FORMATTED, "styles.xml", ('<xf numFmtId="164"', f'<xf numFmtId="{"1" * 5000}"'))
    assert read(content).lines.columns.formats == {}
