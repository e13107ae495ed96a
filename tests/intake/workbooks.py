"""Workbooks as JSON, so that a case can be read: sheets and their cells, and what the file keeps in another way.

A cell is null, a text, a number, true or false, or an object: `{"value": 1, "format": "0%"}`, `{"date": "2026-09-01"}`
(with `format`, if another than yyyy-mm-dd), `{"time": "09:30:00"}`, `{"error": "#N/A"}` or `{"formula": "=1+1"}`, whose
value is 777. `replaced` are pairs of texts: the first is replaced by the second in every part of the file.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import xlsxwriter


def list_of(case: Path, scratch: Path) -> Path:
    """Return the list of a case: its file, or one that is made of the workbook that it describes."""
    if (case / "list").exists():
        return case / "list"
    path = scratch / f"{case.name}.xlsx"
    path.write_bytes(make_workbook(**json.loads((case / "workbook.json").read_text())))
    return path


def make_workbook(
    sheets: Mapping[str, Sequence[Sequence[Any]]], hidden: Sequence[str] = (), replaced: Sequence[Sequence[str]] = ()
) -> bytes:
    """Make an XLSX file."""
    file = io.BytesIO()
    with xlsxwriter.Workbook(file, {"in_memory": True, "strings_to_formulas": False}) as book:
        for name, rows in sheets.items():
            page = book.add_worksheet(name)
            for row, cells in enumerate(rows):
                for column, cell in enumerate(cells):
                    _write(book, page, row, column, cell)
            if name in hidden:
                page.hide()
    return edit_parts(file.getvalue(), lambda _, part: _replace(part, replaced))


def edit_parts(content: bytes, edit: Callable[[str, bytes], bytes]) -> bytes:
    """Edit the parts of an archive, given their names and contents."""
    with zipfile.ZipFile(io.BytesIO(content)) as before:
        return archive({name: edit(name, before.read(name)) for name in before.namelist()})


def archive(files: Mapping[str, str | bytes]) -> bytes:
    """Make a ZIP archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return file.getvalue()


def _write(book: Any, page: Any, row: int, column: int, cell: Any) -> None:
    match cell:
        case {"value": value, "format": code}:
            page.write(row, column, value, book.add_format({"num_format": code}))
        case {"date": text, **more}:
            moment = datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)
            page.write_datetime(row, column, moment, book.add_format({"num_format": more.get("format", "yyyy-mm-dd")}))
        case {"time": text}:
            page.write_datetime(row, column, time.fromisoformat(text), book.add_format({"num_format": "hh:mm"}))
        case {"error": text}:
            page.write_formula(row, column, "=1/0", None, text)
        case {"formula": text}:
            page.write_formula(row, column, text, None, 777)
        case value if value is not None:
            page.write(row, column, value)


def _replace(part: bytes, pairs: Sequence[Sequence[str]]) -> bytes:
    for old, new in pairs:
        part = part.replace(old.encode(), new.encode())
    return part
