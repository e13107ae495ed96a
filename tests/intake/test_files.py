"""Files that cannot be used are refused whole, and the next step is named."""

import gzip
import io
import os
import zipfile
from pathlib import Path

import polars as pl
import pytest

from firmlake.core.errors import CompanyListError
from firmlake.intake.lines import read_company_list
from intake.workbooks import archive, edit_parts, make_workbook

LIST = "country,company_number\nBE,0403227515\nBE,0403091220\n"
XLSX = make_workbook({"Sheet1": [["country", "company number"], ["BE", "0403227515"]]})
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def parquet() -> bytes:
    file = io.BytesIO()
    pl.DataFrame({"siren": ["552032534"]}).write_parquet(file)
    return file.getvalue()


def flipped(content: bytes, place: int, count: int = 1) -> bytes:
    """Damage some bytes."""
    return content[:place] + bytes(byte ^ 0x5A for byte in content[place : place + count]) + content[place + count :]


def lzma() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as made:
        made.writestr("list.csv", LIST * 20)
    return file.getvalue()


UNUSABLE = {
    "no bytes": (b"", "is empty"),
    "a byte order mark alone": (b"\xef\xbb\xbf", "is empty"),
    "blank lines": (b"\n \r\n\t\n", "is empty"),
    "header only": (b"country,company_number\n", "only a header"),
    "header and blank lines": (b"country,company_number\n\n,\n", "only a header"),
    "picture": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "is binary"),
    "web page": (b"<html><table>", "an HTML or XML document"),
    "web page behind a byte order mark": (b"\xef\xbb\xbf\r\n<html><table>", "an HTML or XML document"),
    "old spreadsheet": (OLE + bytes(1000), "cannot be read as a workbook"),
    "password": (OLE + "EncryptedPackage".encode("utf-16-le"), "protected with a password"),
    "any bytes": (bytes(range(256)) * 10, "is binary"),
    "UTF-16 cut in a character": (LIST.encode("utf-16")[:-1], "is not utf-16 throughout"),
    "gzip cut": (gzip.compress(LIST.encode())[:-10], "truncated or damaged gzip file"),
    "gzip damaged": (gzip.compress(LIST.encode())[:20] + b"damage" * 10, "truncated or damaged gzip file"),
    "archive": (archive({"a.csv": LIST, "b.csv": LIST}), "a ZIP archive or a document, with 2 parts"),
    "workbook cut": (XLSX[:2000], "truncated or damaged ZIP or XLSX"),
    "workbook cut at its end": (XLSX[:-30], "truncated or damaged ZIP or XLSX"),
    # A damaged cell could read as another company: the check sums of the archive are looked at first.
    "workbook with a flipped byte": (flipped(XLSX, XLSX.index(b"xl/worksheets/sheet1.xml") + 100), "damaged"),
    "LZMA member damaged": (flipped(lzma(), 60, 30), "truncated or damaged ZIP"),
    "Parquet cut": (parquet()[:-3], "a damaged Parquet file"),
    "Parquet damaged": (b"PAR1" + bytes(20) + b"PAR1", "damaged Parquet file"),
    "JSON array": (b'[{"country": "BE"}]', "a JSON array"),
    "JSON over several lines": (b'{"country":\n"BE"}', "none of its first lines is an object"),
    "JSON nested": (b'{"kbo":"0403227515","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "none of its first lines"),
    "NDJSON cut": (b'{"siren":"552032534"}\n{"siren":"4048330', "its last line is incomplete"),
}


@pytest.mark.parametrize(("content", "message"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_file_that_is_no_usable_list_is_refused_whole(refusal, content, message):
    assert message in refusal(content).message


def test_a_password_of_open_document_is_named(tmp_path):
    """Only the reader of its cells meets it."""
    says = (
        b'<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><manifest:file-entry'
        b' manifest:full-path="content.xml"><manifest:encryption-data/></manifest:file-entry></manifest:manifest>'
    )
    path, plain = tmp_path / "list.ods", Path(__file__).parent / "cases" / "opendocument" / "list"
    path.write_bytes(edit_parts(plain.read_bytes(), lambda name, part: says if "manifest" in name else part))
    with pytest.raises(CompanyListError, match="is protected with a password"):
        read_company_list(path)


def test_what_is_no_file_is_refused_and_a_pipe_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    said = {"none.csv": "No such file", "": "a folder without Parquet files", "pipe": "not a regular file"}
    for path, message in said.items():
        with pytest.raises(CompanyListError, match=message):
            read_company_list(Path(tmp_path, path))
