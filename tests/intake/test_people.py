"""Lists as people have them: files of the kind that programs and persons write, each with the same companies."""

import gzip
import io
import zipfile

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.lines import read_company_list

BE, NL, FR = "0403227515", "17085815", "552032534"


def book(*sheets, hidden=(), merged=None):
    """A workbook with these sheets: name and rows."""
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as file:
        for name, rows in sheets:
            page = file.add_worksheet(name)
            if merged:
                page.merge_range(0, 0, 0, 3, merged)
            for number, cells in enumerate(rows):
                for column, cell in enumerate(cells):
                    if cell is not None:
                        page.write(number, column, cell)
            if name in hidden:
                page.hide()
    return buffer.getvalue()


def _ods_cell(cell):
    if isinstance(cell, int):
        return f'<table:table-cell office:value-type="float" office:value="{cell}"><text:p>{cell}</text:p>'
    if isinstance(cell, tuple):  # a date or time: kind, value, and the text as shown
        kind, value, text = cell
        return f'<table:table-cell office:value-type="{kind}" office:{kind}-value="{value}"><text:p>{text}</text:p>'
    return f'<table:table-cell office:value-type="string"><text:p>{cell}</text:p>'


def ods(rows):
    """A LibreOffice sheet, by the standard: with the repeated empty cells and rows at its end."""
    cells = "".join(
        "<table:table-row>"
        + "".join(_ods_cell(cell) + "</table:table-cell>" for cell in row)
        + '<table:table-cell table:number-columns-repeated="16380"/></table:table-row>'
        for row in rows
    )
    spaces = "".join(
        f' xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{prefix}:1.0"'
        for prefix in ("office", "table", "text")
    )
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content{spaces} office:version="1.2"><office:body>'
        f'<office:spreadsheet><table:table table:name="Blad1">{cells}<table:table-row '
        'table:number-rows-repeated="1048000"><table:table-cell table:number-columns-repeated="16384"/>'
        "</table:table-row></table:table></office:spreadsheet></office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    manifest = (
        '<?xml version="1.0" encoding="UTF-8"?><manifest:manifest '
        'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0" manifest:version="1.2">'
        f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/></manifest:manifest>'
    )
    return archive({"mimetype": kind, "content.xml": content, "META-INF/manifest.xml": manifest})


def archive(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return buffer.getvalue()


PLAIN = f"land;nummer\nBE;{BE}\nNL;{NL}\nFR;{FR}\n"
ROWS = [["BE", BE], ["NL", NL], ["FR", FR]]


@pytest.mark.parametrize("moment", ["2024-03-01T10:15:00", "2024-03-01 10:15:00", "01/03/2024"])
def test_a_date_above_the_header_is_no_company_number(write, moment):
    """The line of the header is found below it, whatever the form of the date."""
    companies = read_company_list(write(f"Printed at;{moment}\nland;kbo\nBE;{BE}\n"))
    assert (companies.header_count, companies.refused.height) == (2, 0)


def test_a_guess_is_said_with_three_examples(write):
    [guess] = read_company_list(write(PLAIN)).guesses
    assert guess.startswith(f"Company numbers are read from column 'nummer' ({BE}, {NL}, {FR})")
    titled = read_company_list(write("Klanten\n\n" + PLAIN)).guesses
    assert "The header is on line 3 ('land', 'nummer')" in titled[0]
    sheets = book(("Cover", [["x"], ["y"]]), ("Data", [["land", "kbo"], ["BE", BE]]))
    assert "Worksheet 'Data' is read" in read_company_list(write(sheets)).guesses[0]
    assert not read_company_list(write(f"land;kbo\nBE;{BE}\n")).guesses


def test_worksheets_with_more_companies_that_are_not_read_are_named(write):
    """A workbook has a sheet for each country, and only one sheet is the list."""
    sheets = book(
        ("België", [["kbo"], [BE]]), ("Notes", [["x"]]), ("Nederland", [["kvk"], [NL]]), ("France", [["siren"], [FR]])
    )
    guess = read_company_list(write(sheets)).guesses[0]
    assert guess == (
        "Worksheet 'België' is read (company numbers in 'Nederland', 'France' are not read); "
        "to choose another: --set intake.sheet=NAME"
    )
    alone = read_company_list(write(sheets), IntakeSettings(sheet="France"))
    assert not any("Worksheet" in guess for guess in alone.guesses)


def test_a_guess_can_be_overruled(write):
    text = f"naam;nummer;land\nKBC;{BE};BE\nx;y;z\nnaam;nr2;land\nASML;{NL};NL\n"
    companies = read_company_list(write(text), IntakeSettings(header_row=4))
    assert companies.companies["company_number"].to_list() == [NL]
    assert companies.header_count == 4
    two = f"nummer;nr klant\n{BE};0403091220\n"
    assert read_company_list(write(f"land;{two}".replace("\n0", "\nBE;0")), IntakeSettings(number_column="nr klant"))


def test_of_two_columns_that_qualify_equally_the_hint_names_one_that_can_be_mapped(write):
    path = write(f"land;nummer 1;nummer 2\nBE;{BE};0403091220\nBE;0403053608;0202239951\n")
    with pytest.raises(CompanyListError, match=r"'nummer 1' .* and 'nummer 2' .* hold company numbers") as caught:
        read_company_list(path)
    column = caught.value.next_step.split("--map number='")[1].split("'")[0]
    assert read_company_list(path, IntakeSettings(number_column=column)).companies["company_number"].to_list() == [
        BE, "0403053608",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["Nummer", ""])
def test_a_column_whose_name_is_not_unique_can_be_mapped_by_its_position(write, name):
    """Two lists side by side: the hint gives a position, which chooses one of them."""
    path = write(f"Klant;{name};;Leverancier;{name}\nA;BE{BE};;B;BE0403091220\nC;BE0403053608;;D;BE0202239951\n")
    with pytest.raises(CompanyListError, match=r"2 \(BE0403.* and .*5 \(BE0403091220") as caught:
        read_company_list(path)
    assert "--map number=2 " in caught.value.next_step
    companies = read_company_list(path, IntakeSettings(number_column="5"))
    assert companies.companies["company_number"].to_list() == ["0403091220", "0202239951"]


def test_a_name_goes_before_a_position(write):
    companies = read_company_list(write(f"3;naam;x\nBE{BE};a;BE0403091220\n"), IntakeSettings(number_column="3"))
    assert companies.companies["company_number"].to_list() == [BE]


def test_where_two_lists_side_by_side_disagree_the_refusal_names_the_way_to_choose(write):
    path = write(f"naam;kbo;;naam;kbo\na;{BE};;b;0403091220\n")
    with pytest.raises(CompanyListError, match="two columns disagree") as caught:
        read_company_list(path)
    assert "positions from 1: --map number=COLUMN" in caught.value.next_step
    assert read_company_list(path, IntakeSettings(number_column="5")).companies["company_number"].item() == "0403091220"


@pytest.mark.parametrize(
    "text", ["land;telefoon\nNL;06123456\nNL;06123457\n", "land;datum\nNL;20240101\nNL;20240102\n"]
)
def test_eight_digits_alone_are_no_company_number(write, text):
    with pytest.raises(CompanyListError, match="no column looks like a company number"):
        read_company_list(write(text))


def test_names_without_numbers_are_told_to_be_looked_up(write):
    with pytest.raises(CompanyListError, match="which the service needs") as caught:
        read_company_list(write("Klant;Plaats\nKBC;Leuven\n"))
    assert "firmlake match " in caught.value.next_step


def test_a_folder_of_parquet_with_partitions_is_one_list(tmp_path):
    for country, number in ROWS:
        folder = tmp_path / "list" / f"land={country}"
        folder.mkdir(parents=True)
        pl.DataFrame({"reg_no": [number]}).write_parquet(folder / "0.parquet")
    companies = read_company_list(tmp_path / "list")
    assert set(companies.companies.select("country", "company_number").rows()) == set(map(tuple, ROWS))
    assert companies.companies["line"].to_list() == [1, 2, 3]


# Files made to do harm: each is refused in one line, and takes little memory -----------------------------------------


def _with_cell(place):
    """A workbook with one more cell, far away."""
    source = zipfile.ZipFile(io.BytesIO(book(("Blad1", [["kbo"], [BE]]))))
    row = "".join(filter(str.isdigit, place))
    files = {name: source.read(name).decode() for name in source.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    files[sheet] = files[sheet].replace("</sheetData>", f'<row r="{row}"><c r="{place}"><v>1</v></c></row></sheetData>')
    return archive(files)


@pytest.mark.parametrize("place", ["XFD1048576", "CV1048576"])
def test_a_cell_far_away_is_refused_before_anything_is_allocated(refusal, place):
    assert "holds more than 25,000,000 cells" in refusal(_with_cell(place)).message


def test_cells_without_a_place_are_counted_by_a_process_with_a_limit(refusal):
    source = zipfile.ZipFile(io.BytesIO(_with_cell("A1048576")))
    files = {name: source.read(name).decode() for name in source.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    files[sheet] = files[sheet].replace("<sheetData>", f"<sheetData><row>{'<c><v>1</v></c>' * 16_000}</row>")
    assert "intake.max_cells" in refusal(archive(files)).next_step


def test_a_sheet_of_open_document_that_repeats_a_cell_is_refused(refusal):
    content = ods([["kbo"]])
    source = zipfile.ZipFile(io.BytesIO(content))
    files = {name: source.read(name).decode() for name in source.namelist()}
    files["content.xml"] = (
        files["content.xml"]
        .replace("<table:table-row>", '<table:table-row table:number-rows-repeated="1000000">')
        .replace("<table:table-cell office", '<table:table-cell table:number-columns-repeated="16000" office', 1)
    )
    assert refusal(archive(files)).next_step


def test_a_workbook_that_may_abort_its_reader_is_read_in_a_guarded_process_in_an_archive_too(read, monkeypatch):
    def fail(*_):
        raise AssertionError("calamine runs in the process that holds the token")

    monkeypatch.setattr("python_calamine.CalamineWorkbook", fail)
    for content in (ods([["kbo"], [BE]]), archive({"a": ods([["kbo"], [BE]])})):
        assert read(content).companies["company_number"].to_list() == [BE]


@pytest.mark.parametrize(
    ("content", "options", "setting"),
    [
        (gzip.compress(b"kbo\n" + b"0403227515\n" * 200_000), {"max_inflated_megabytes": 1}, "max_inflated_megabytes"),
        (archive({"a": "kbo\n" + "0403227515\n" * 200_000}), {"max_inflated_megabytes": 1}, "max_inflated_megabytes"),
        ("kbo\n" + "0403227515\n" * 11, {"max_rows": 10}, "max_rows"),
        ("kbo;a;b\n0403227515\n", {"max_columns": 2}, "max_columns"),
        (book(("Blad1", [["kbo", "x"], [BE]])), {"max_cells": 3}, "max_cells"),
    ],
    ids=["gzip", "zip", "rows", "columns", "cells"],
)  # fmt: skip
def test_every_limit_is_a_setting_and_the_refusal_names_it(write, refusal, content, options, setting):
    assert f"raise intake.{setting}" in refusal(content, **options).next_step
    assert read_company_list(write(content)).companies.height == 1, "at the default it is read"


def test_the_rows_of_parquet_are_counted_from_its_footer(tmp_path):
    path = tmp_path / "list.parquet"
    pl.DataFrame({"kbo": [BE]}).select(pl.col("kbo").repeat_by(5_000_000).explode()).write_parquet(path)
    with pytest.raises(CompanyListError, match="more than 1,000,000 lines"):
        read_company_list(path, IntakeSettings(max_rows=1_000_000))


def test_a_long_text_in_every_row_of_parquet_is_refused(tmp_path):
    path = tmp_path / "list.parquet"
    rows = pa.array([0] * 50_000, pa.int32())
    columns = {"kbo": BE, "note": "x" * 100_000}
    pq.write_table(pa.table({k: pa.DictionaryArray.from_arrays(rows, [v]) for k, v in columns.items()}), path)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(CompanyListError, match=r"takes more than .* of memory to read"):
        read_company_list(path)


def test_a_long_text_that_many_cells_share_is_refused_for_its_memory(refusal):
    rows = [["kbo"], [BE], *[["shared"]] * 2_000]
    source = zipfile.ZipFile(io.BytesIO(book(("Blad1", rows))))
    files = {name: source.read(name).decode() for name in source.namelist()}
    files["xl/sharedStrings.xml"] = files["xl/sharedStrings.xml"].replace("<t>shared<", f"<t>{'y' * 250_000}<")
    content = archive(files)
    assert len(content) < 40_000
    assert "of memory to read" in refusal(content).message


def test_of_two_sheets_that_may_hold_the_numbers_both_are_named_and_the_hint_chooses(read, refusal):
    content = book(("Klanten FR", [["Code"], ["552032534"], ["552081317"]]), ("Rest", [["KBO-nummer"], ["0403091220"]]))
    error = refusal(content)
    assert "'Rest'" in error.message
    assert "'Klanten FR'" in error.message
    settings = [part.split(", or ")[0] for part in error.next_step.split("--set intake.sheet=")[1:]]
    assert settings[0] == "Rest"
    assert read(content, sheet="Rest").companies["company_number"].to_list() == ["0403091220"]
    assert settings[1].startswith("'Klanten FR'")
    chosen = read(content, sheet="Klanten FR", number_column="Code", default_country="FR")
    assert chosen.companies.height == 2
