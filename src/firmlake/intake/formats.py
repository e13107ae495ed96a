"""What kind of file a list is, told by its bytes and not by its name; what is no list is refused here."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Final, Literal

from firmlake.core.errors import CompanyListError

__all__ = ["GZIP", "Format", "find_format"]

Format = Literal["text", "xlsx", "parquet"]

GZIP: Final = b"\x1f\x8b"
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_PARQUET: Final = b"PAR1"
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_WORKBOOK: Final = "xl/workbook.xml"
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_MAX_INFLATED_BYTES: Final = 8 * 2**30
"""The largest worksheet (1,048,576 rows) inflates to about 1 GB; far beyond that an archive is made to do harm."""

_SAVE_AS: Final = "Save the list as CSV or XLSX"
_NO_LIST: Final = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"%PDF": "a PDF document",
    b"{\\rtf": "an RTF document",
    b"BZh91AY&SY": "a bzip2 archive",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"\xfd7zXZ": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a Zstandard archive",
    b"ARROW1": "an Arrow file",
    b"SQLite format 3": "an SQLite database",
    b"<": "an HTML or XML document",
}
"""First bytes of files that get mistaken for lists."""


def find_format(path: Path) -> Format:
    """Give the format of a list; everything that is not binary is text, also inside gzip.

    Raises:
        CompanyListError: The file is missing, unreadable, empty, cut, damaged, encrypted or no list at all; correct the
            path or save the list in another format.
    """
    start = _first_bytes(path)
    for magic, kind in _NO_LIST.items():
        if start.startswith(magic):
            raise CompanyListError(f"{path} is {kind}, not a list", _SAVE_AS)
    if start.startswith(_OLE):
        raise _ole_error(path)
    if start.startswith(_PARQUET):
        return _whole_parquet(path)
    if start.startswith(_ZIP):
        return _whole_workbook(path)
    return "text"


def _first_bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise CompanyListError(f"{path} is a directory", "Name one file")
        if path.exists() and not path.is_file():
            raise CompanyListError(f"{path} is not a regular file", "Copy its content to a file first")
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise CompanyListError(
            f"{path} cannot be read: {error.strerror}", "Check the path and its permissions"
        ) from error
    if not start:
        raise CompanyListError(f"{path} is empty", "Export the list again")
    return start


def _ole_error(path: Path) -> CompanyListError:
    if _ENCRYPTED in path.read_bytes():
        return CompanyListError(f"{path} is protected with a password", "Save it without one")
    return CompanyListError(f"{path} is an old Office file (.xls or .doc)", _SAVE_AS)


def _whole_parquet(path: Path) -> Format:
    with path.open("rb") as file:
        file.seek(-len(_PARQUET), 2)
        if file.tell() >= 2 * len(_PARQUET) and file.read() == _PARQUET:
            return "parquet"
    raise CompanyListError(f"{path} is a Parquet file that was cut: its end is missing", "Copy or export it again")


def _whole_workbook(path: Path) -> Format:
    """Check every part of the archive, since a damaged worksheet can be read as other numbers."""
    try:
        with zipfile.ZipFile(path) as archive:
            if _WORKBOOK not in archive.namelist():
                raise CompanyListError(
                    f"{path} is a ZIP archive, but not an XLSX workbook", "Unpack it and name one file"
                )
            if sum(part.file_size for part in archive.infolist()) > _MAX_INFLATED_BYTES:
                raise CompanyListError(f"{path} inflates to more than 8 GiB", _SAVE_AS)
            damaged = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise CompanyListError(
            f"{path} is a ZIP or XLSX file that was cut or damaged", "Copy or export it again"
        ) from error
    if damaged:
        raise CompanyListError(f"{path} is damaged in {damaged}", "Copy or export it again")
    return "xlsx"
