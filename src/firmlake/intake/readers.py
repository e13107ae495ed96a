"""Any list file as a table: the reader is chosen by what the file holds."""

from __future__ import annotations

from pathlib import Path

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.columns import Synonyms
from firmlake.intake.delimited import open_delimited
from firmlake.intake.formats import find_format
from firmlake.intake.ndjson import open_ndjson
from firmlake.intake.parquet import open_parquet
from firmlake.intake.table import Table
from firmlake.intake.text import beginning, find_encoding
from firmlake.intake.workbook import open_workbook

__all__ = ["open_table"]


def open_table(path: Path, options: IntakeSettings, synonyms: Synonyms) -> Table:
    """Open a list of any format as a table.

    Args:
        path: CSV, TSV, plain text or NDJSON (also compressed with gzip), XLSX or Parquet.
        options: How to read it.
        synonyms: Header names by which the first line is known to be a header.

    Raises:
        CompanyListError: The file cannot be used; the message names it, and the line where there is one; do what the
            next step says.
    """
    match find_format(path):
        case "parquet":
            return open_parquet(path)
        case "xlsx":
            return open_workbook(path, options, synonyms)
        case "text":
            return _open_text(path, options, synonyms)


def _open_text(path: Path, options: IntakeSettings, synonyms: Synonyms) -> Table:
    encoding = find_encoding(path, options.encoding)
    start = beginning(path, encoding)
    if start.startswith("{"):
        return open_ndjson(path, encoding)
    if start in {"[{", "[]"}:
        raise CompanyListError(f"{path} is a JSON array", "Write one object on each line (NDJSON)")
    return open_delimited(path, encoding, options, synonyms)
