"""Read the subjects to forget, from the command line or from a file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.intake.identifiers import read_company
from firmlake.privacy.tombstones import Subject

__all__ = ["read_subject", "read_subjects"]

_FORMS = "person NAME, person NAME COUNTRY NUMBER, contact ID, or company COUNTRY NUMBER"
_NUMBER_OF_PARTS = {"person": (1, 3), "contact": (1,), "company": (1, 2)}


def read_subject(parts: Sequence[str]) -> Subject:
    """Read a subject from its parts: its kind, then a name, an id, or a country and a company number.

    Raises:
        UsageError: The parts are not a valid subject. The message does not repeat them, because logs keep messages.
    """
    kind, *rest = (part.strip() for part in parts)
    if len(rest) not in _NUMBER_OF_PARTS.get(kind, ()) or not all(rest):
        raise UsageError("This is not a person, contact or company", f"Give {_FORMS}")
    if kind == "company" and len(rest) == 1:
        rest = [rest[0][:2], rest[0][2:]]  # as in `firmlake changes --company "BE 0403227515"`
    company = _read_company(*rest[-2:]) if len(rest) > 1 else None
    if kind == "company":
        return Subject("company", "", company)
    return Subject("person", rest[0], company) if kind == "person" else Subject("contact", rest[0])


def read_subjects(path: Path) -> list[Subject]:
    """Read a file with one subject on each line, its parts separated by commas, semicolons or tabs.

    Raises:
        UsageError: The file cannot be read, or a line is not a valid subject. The message gives the line number.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from None
    subjects = []
    for number, line in enumerate(lines, 1):
        delimiter = max(",;\t", key=line.count)
        for parts in csv.reader([line], delimiter=delimiter) if line.strip() else ():
            try:
                subjects.append(read_subject([part for part in parts if part.strip()]))
            except UsageError as error:
                raise UsageError(f"{path}, line {number}: {error.message}", error.next_step) from None
    return subjects


def _read_company(country: str, number: str) -> Company:
    try:
        return read_company(country.upper(), number)
    except UsageError:
        raise UsageError("The company number is not valid for this country", f"Give {_FORMS}") from None
