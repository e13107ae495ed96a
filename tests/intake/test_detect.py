"""Files that cannot be used are refused whole, and the next step is named."""

import gzip
import os
import zipfile
from types import SimpleNamespace

import pytest
import python_calamine

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.columns import COMPANY_COLUMNS
from firmlake.intake.lines import read_company_list
from firmlake.intake.table import Reading
from firmlake.intake.workbook import list_others, open_workbook
from intake.test_binary_formats import parquet
from intake.test_people import archive, book

LIST = "country,company_number\nBE,0403227515\nBE,0403091220\n"


def xlsx() -> bytes:
    return book(("Sheet1", [["country", "company number"], ["BE", "0403227515"]]))


def listed(*names: str) -> bytes:
    return archive(dict.fromkeys(names, LIST))


UNUSABLE = {
    "no bytes": (b"", "is empty"),
    "a byte order mark alone": (b"\xef\xbb\xbf", "is empty"),
    "blank lines": (b"\n \r\n\t\n", "is empty"),
    "header only": (b"country,company_number\n", "only a header"),
    "header and blank lines": (b"country,company_number\n\n,\n", "only a header"),
    "picture": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "a PNG picture"),
    "document": (b"%PDF-1.7\n", "a PDF document"),
    "web page": (b"<html><table>", "an HTML or XML document"),
    "web page behind a byte order mark": (b"\xef\xbb\xbf\r\n<html><table>", "an HTML or XML document"),
    "old spreadsheet": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000), "cannot be read as a workbook"),
    "password": (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
        "protected with a password",
    ),
    "any bytes": (bytes(range(256)) * 10, "is binary"),
    "UTF-16 without mark": (LIST.encode("utf-16-le"), "is binary"),
    "UTF-16 cut in a character": (LIST.encode("utf-16")[:-1], "is not utf-16 throughout"),
    "gzip cut": (gzip.compress(LIST.encode())[:-10], "truncated or damaged gzip file"),
    "gzip damaged": (gzip.compress(LIST.encode())[:20] + b"damage" * 10, "truncated or damaged gzip file"),
    "archive": (listed("a.csv", "b.csv"), "a ZIP archive with 2 files"),
    "a document of Numbers": (listed("Index/Document.iwa", "Metadata/Properties.plist"), "a document of Numbers"),
    "a Word document": (listed("[Content_Types].xml", "word/document.xml"), "a Word document"),
    "an OpenDocument file without its type": (listed("content.xml", "styles.xml"), "without a spreadsheet"),
    "workbook cut": (xlsx()[:2000], "truncated or damaged ZIP or XLSX"),
    "workbook cut at its end": (xlsx()[:-30], "truncated or damaged ZIP or XLSX"),
    "Parquet cut": (parquet(siren=["552032534"])[:-3], "a damaged Parquet file"),
    "Parquet damaged": (b"PAR1" + bytes(20) + b"PAR1", "damaged Parquet file"),
    "JSON array": (b'[{"country": "BE"}]', "a JSON array"),
    "JSON over several lines": (b'{"country":\n"BE"}', "none of its first lines is an object"),
    "NDJSON cut": (b'{"siren":"552032534"}\n{"siren":"4048330', "its last line is incomplete"),
    "no column": (b"id,place\n7,Leuven\n", "no column looks like a company number"),
    "names alone": (b"name,place\nKBC,Leuven\n", "has no company numbers, which the service needs"),
}


@pytest.mark.parametrize(("content", "message"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_file_that_is_no_usable_list_is_refused_whole(refusal, content, message):
    assert message in refusal(content).message


@pytest.mark.parametrize("name", ["~$klanten.xlsx", ".~lock.klanten.ods#"])
def test_the_lock_file_of_an_open_workbook_is_refused_with_its_meaning(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x0bAn Peeters" + bytes(40))
    with pytest.raises(CompanyListError, match="a workbook is open") as caught:
        read_company_list(tmp_path / name)
    assert caught.value.next_step == "Name the workbook itself"


def test_a_password_that_only_the_reader_of_cells_meets_is_named(tmp_path, monkeypatch):
    """XLS and OpenDocument files with a password have no mark that their first bytes show."""

    def from_path(_):
        raise python_calamine.CalamineError("calamine error: Xls error: Workbook is password protected")

    monkeypatch.setattr(python_calamine, "CalamineWorkbook", SimpleNamespace(from_path=from_path))
    with pytest.raises(CompanyListError, match="is protected with a password"):
        open_workbook(Reading(tmp_path / "list.xls", IntakeSettings(), COMPANY_COLUMNS), list_others)


def test_what_is_no_file_is_refused(tmp_path):
    for path, message in ((tmp_path / "none.csv", "No such file"), (tmp_path, "a folder without Parquet files")):
        with pytest.raises(CompanyListError, match=message):
            read_company_list(path)


def test_a_pipe_is_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CompanyListError, match="not a regular file"):
        read_company_list(tmp_path / "pipe")


def test_a_workbook_with_one_flipped_byte_in_a_cell_is_refused(write):
    """A damaged cell could read as another company: the check sums of the archive are looked at first."""
    content = bytearray(xlsx())
    place = content.index(b"xl/worksheets/sheet1.xml") + 100
    content[place] ^= 1
    with pytest.raises(CompanyListError, match=r"damaged in xl/worksheets/sheet1.xml|cut or damaged"):
        read_company_list(write(bytes(content)))


def test_a_list_in_which_every_line_is_refused_says_the_first_reasons(refusal):
    message = refusal("kbo\n" + "0403227516\n" * 5).message
    assert "no line names a company, 5 refused" in message
    assert message.count("wrong check digits") == 3
    assert "line 2 (0403227516)" in message


def test_an_unknown_encoding_or_delimiter_is_refused(refusal):
    assert "encoding 'utf-9'" in refusal(LIST, encoding="utf-9").message
    assert "cannot be the delimiter" in refusal(LIST, delimiter='"').message


def test_json_nested_beyond_any_reader_is_refused(tmp_path):
    path = tmp_path / "deep.ndjson"
    path.write_text('{"country":"BE","company_number":"0403227515","x":' + "[" * 100_000 + "]" * 100_000 + "}\n")
    with pytest.raises(CompanyListError, match="none of its first lines is an object"):
        read_company_list(path, IntakeSettings())


def test_a_damaged_lzma_member_is_named_as_damage(tmp_path):
    path = tmp_path / "list.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("list.csv", LIST * 20)
    damaged = bytearray(path.read_bytes())
    damaged[60:90] = bytes(byte ^ 0x5A for byte in damaged[60:90])
    path.write_bytes(damaged)
    with pytest.raises(CompanyListError, match="truncated or damaged ZIP"):
        read_company_list(path, IntakeSettings())
