"""Open any list file as a table; the content decides which reader is used."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.columns import Synonyms
from firmlake.intake.detect import find_format, too_large
from firmlake.intake.ndjson import open_ndjson
from firmlake.intake.parquet import open_parquet, open_parquet_folder
from firmlake.intake.table import TextTable
from firmlake.intake.text import beginning, open_delimited, open_text
from firmlake.intake.unpack import open_member
from firmlake.intake.workbook import open_workbook

__all__ = ["open_table"]


def open_table(path: Path, options: IntakeSettings, synonyms: Synonyms) -> TextTable:
    """Open a list of any format as a table.

    Args:
        path: CSV, TSV, plain text or NDJSON (also compressed with gzip), a workbook (XLSX, XLS, XLSB, ODS), Parquet, a
            folder of Parquet files, or a ZIP archive with one of these.
        options: How to read the file.
        synonyms: Known header names by role.

    Raises:
        CompanyListError: The file cannot be used; the message names the file and, if possible, the line. Follow the
            next step.
    """
    table = _open(path, options, synonyms)
    if table.width > options.max_columns:
        raise too_large(path, options.max_columns, "columns", "intake.max_columns")
    return table


def _open(path: Path, options: IntakeSettings, synonyms: Synonyms) -> TextTable:
    match find_format(path, options):
        case "parquet":
            return open_parquet(path, options)
        case "folder":
            return open_parquet_folder(path, options)
        case "xlsx":
            return open_workbook(path, options, synonyms, is_xlsx=True)
        case "workbook":
            return open_workbook(path, options, synonyms, is_xlsx=False)
        case "zip":
            return open_member(path, lambda member: open_table(member, options, synonyms))
        case "text":
            return _open_text(path, options, synonyms)


def _open_text(path: Path, options: IntakeSettings, synonyms: Synonyms) -> TextTable:
    file = open_text(path, options)
    start = beginning(file)
    if start.startswith("{"):
        return open_ndjson(file, options)
    if start.startswith("<"):
        raise CompanyListError(
            f"{path} is an HTML or XML document, whatever its name says",
            "Open it in a spreadsheet program and save it as XLSX",
        )
    if start in {"[{", "[]"}:
        raise CompanyListError(
            f"{path} is a JSON array",
            f"Write one object on each line (NDJSON): jq -c '.[]' {quote(str(path))} > list.ndjson",
        )
    return open_delimited(file, options, synonyms)
