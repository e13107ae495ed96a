"""Detect the format of a list by its bytes, not its name, and refuse files that are no lists."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Final, Literal

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings

Format = Literal["text", "xlsx", "workbook", "parquet", "folder", "zip"]
"""`workbook` is any workbook but XLSX; `zip` is an archive with one file."""

GZIP: Final = b"\x1f\x8b"
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_PARQUET: Final = b"PAR1"
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_XLSX: Final = "xl/workbook.xml"
_XLSB: Final = "xl/workbook.bin"
_OPEN_DOCUMENT: Final = "content.xml"
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")

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
}
"""First bytes of files that are mistaken for lists."""

_NO_SPREADSHEET: Final = {
    "Index/Document.iwa": "a document of Numbers, Pages or Keynote",
    "word/document.xml": "a Word document",
    "ppt/presentation.xml": "a PowerPoint presentation",
    _OPEN_DOCUMENT: "an OpenDocument file without a spreadsheet",
}
"""Parts of archives that are mistaken for lists."""

_ARCHIVE_ERRORS: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, OSError, ValueError,
)  # fmt: skip
_LOCKS: Final = ("~$", ".~lock.")
"""How the names of files begin that Excel and LibreOffice keep beside a workbook while it is open."""


def find_format(path: Path, options: IntakeSettings) -> Format:
    """Return the format of a list. Everything that is not a known binary format is text, including gzip.

    Raises:
        CompanyListError: The file is missing, unreadable, empty, truncated, damaged, encrypted or not a list. Correct
            the path, or save the list in another format.
    """
    if path.is_dir():
        return "folder"
    if path.name.startswith(_LOCKS):
        raise CompanyListError(
            f"{path} only marks that a workbook is open in a spreadsheet program", "Name the workbook itself"
        )
    start = _first_bytes(path)
    for magic, kind in _NO_LIST.items():
        if start.startswith(magic):
            raise CompanyListError(f"{path} is {kind}, not a list", _SAVE_AS)
    if start[8:12] == b"DUCK":
        raise CompanyListError(
            f"{path} is a DuckDB database, not a list",
            "Keep this file as LIST, and give a query that returns the list: --sql 'FROM my_table'",
        )
    if start.startswith(_OLE):
        if _ENCRYPTED in path.read_bytes():
            raise CompanyListError(f"{path} is protected with a password", "Save it without a password")
        return "workbook"
    if start.startswith(_PARQUET):
        return _whole_parquet(path)
    if start.startswith(_ZIP):
        return _find_archive(path, options)
    return "text"


class TooLargeError(CompanyListError):
    """The file holds more than a setting allows."""


def too_large(path: Path | str, limit: int, unit: str, setting: str) -> TooLargeError:
    """Return the error for a file that holds more than a setting allows."""
    return TooLargeError(
        f"{path} holds more than {limit:,} {unit}", f"Check that it is a list; if it is, raise {setting}"
    )


def only_member(archive: zipfile.ZipFile) -> zipfile.ZipInfo | None:
    """Return the only file of an archive, ignoring files that macOS adds; None if there are several."""
    files = [
        part
        for part in archive.infolist()
        if not part.is_dir() and not part.filename.startswith("__MACOSX/") and not part.filename.endswith(".DS_Store")
    ]
    return files[0] if len(files) == 1 else None


def _first_bytes(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise CompanyListError(
                f"{path} is not a regular file", f"Read it as standard input: `firmlake run - < {quote(str(path))}`"
            )
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise CompanyListError(
            f"{path} cannot be read: {error.strerror}", "Check the path and its permissions"
        ) from error
    if not start:
        raise CompanyListError(f"{path} is empty", "Export the list again")
    return start


def _whole_parquet(path: Path) -> Format:
    with path.open("rb") as file:
        file.seek(-len(_PARQUET), 2)
        if file.tell() >= 2 * len(_PARQUET) and file.read() == _PARQUET:
            return "parquet"
    raise CompanyListError(f"{path} is a truncated Parquet file: its end is missing", "Copy or export it again")


def check_archive(path: Path) -> None:
    """Check every part of an archive, because a damaged worksheet may yield wrong numbers.

    Raises:
        CompanyListError: A part is damaged. Copy the file again.
    """
    with _opened(path) as archive:
        damaged = archive.testzip()
    if damaged:
        raise CompanyListError(f"{path} is damaged in {damaged}", "Copy or export it again")


def _find_archive(path: Path, options: IntakeSettings) -> Format:
    limit = options.max_inflated_megabytes
    with _opened(path) as archive:
        if sum(part.file_size for part in archive.infolist()) > limit << 20:
            raise too_large(path, limit, "MB", "intake.max_inflated_megabytes")
        if any(part.flag_bits & 1 for part in archive.infolist()):
            raise CompanyListError(f"{path} is protected with a password", "Save it without a password")
        return _archive_kind(path, archive)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except _ARCHIVE_ERRORS as error:
        raise CompanyListError(
            f"{path} is a truncated or damaged ZIP or XLSX file", "Copy or export it again"
        ) from error


def _archive_kind(path: Path, archive: zipfile.ZipFile) -> Format:
    names = archive.namelist()
    if _XLSX in names:
        return "xlsx"
    if _XLSB in names or ("mimetype" in names and b"spreadsheet" in archive.open("mimetype").read(100)):
        return "workbook"
    for part, kind in _NO_SPREADSHEET.items():
        if part in names and len(names) > 1:
            raise CompanyListError(f"{path} is {kind}, not a list", _SAVE_AS)
    if only_member(archive) is None:
        raise CompanyListError(
            f"{path} is a ZIP archive with {len(names)} files and no XLSX workbook", "Unpack it and name one file"
        )
    return "zip"
