"""Lists as people have them: each folder of `cases` holds a list and what reading it shows.

`further_cases` has more examples of rules that a case shows; only `-m slow` reads them.

To add a case, make a folder whose name says the rule, with

- `list`, or `workbook.json` (see `intake.workbooks`),
- `options.json`: settings of `intake`, if any,
- `followed.json`: settings under which the list, or another column of it, is read: those that the hint of its refusal
  or guess names (`named`), and those that nobody but the reader knows (`beside`),

run `PYTHONPATH=tests python tests/intake/test_cases.py NAME`, and check the `expected.json` that it writes.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.lines import CompanyList, read_company_list
from intake.workbooks import list_of, make_workbook
from support import slow

CASES, FURTHER = (Path(__file__).parent / name for name in ("cases", "further_cases"))
SPELLED = {
    "number_column": "--map number=",
    "country_column": "--map country=",
    "sheet": "--set intake.sheet=",
    "header_row": "--set intake.header_row=",
}
"""How a hint spells a setting that it does not spell `intake.NAME`."""

_TEXT, _WHOLE = pl.String(), pl.Int64()
FRAMES = {
    "companies": {"country": _TEXT, "company_number": _TEXT, "line": _WHOLE, "given": _TEXT},
    "refused": {"line": _WHOLE, "given": _TEXT, "reason": _TEXT},
    "repaired": {"line": _WHOLE, "given": _TEXT, "country": _TEXT, "company_number": _TEXT, "reason": _TEXT},
}


def options_of(folder: Path, name: str = "options") -> dict[str, Any]:
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def observe(path: Path, options: dict[str, Any]) -> tuple[dict[str, Any], CompanyList | None]:
    """Read a list: the refusal; or its companies, every line, what is known of its columns, counts and guesses."""
    try:
        companies = read_company_list(path, IntakeSettings(**options))
        assert companies.lines
        lines = pl.concat(companies.lines.batches())
    except CompanyListError as error:
        return {name: getattr(error, name).replace(str(path), "LIST") for name in ("message", "next_step")}, None
    named = companies.companies.select("line", "country", "company_number")
    cells = lines.select("line", "status", "reason", "given", "columns", "kinds")
    columns = {name: known for name in ("types", "formats") if (known := getattr(companies.lines.columns, name))}
    return {
        "companies": [" ".join(map(str, row)) for row in named.rows()],
        "lines": [" | ".join("" if cell is None else str(cell) for cell in row) for row in cells.rows()],
        **columns,
        "counts": f"{companies.line_count} lines, {companies.header_count} above the data, "
        f"{companies.blank_count} blank, {companies.repeated_count} repeated",
        "guesses": list(companies.guesses),
    }, companies


@pytest.mark.parametrize(
    "folder", [*sorted(CASES.iterdir()), *slow(*sorted(FURTHER.iterdir()))], ids=lambda path: path.name
)
def test_a_list_is_read_as_its_case_says_and_every_line_of_it_is_accounted_for(folder, tmp_path):
    """And the hint of a refusal or guess leads to the list."""
    path, given = list_of(folder, tmp_path), options_of(folder)
    found, companies = observe(path, given)
    assert found == json.loads((folder / "expected.json").read_text())
    if companies:
        assert companies.line_count == sum([
            companies.header_count, companies.companies.height, companies.refused.height,
            companies.repeated_count, companies.blank_count,
        ])  # fmt: skip
        assert {frame: dict(getattr(companies, frame).schema) for frame in FRAMES} == FRAMES
    if followed := options_of(folder, "followed"):
        hint = " ".join([found.get("message", ""), found.get("next_step", ""), *found.get("guesses", ())])
        for setting, value in followed["named"].items():
            assert (str(value) if setting in given else SPELLED.get(setting, f"intake.{setting}")) in hint
        again, companies = observe(path, {**given, **followed["named"], **followed.get("beside", {})})
        assert companies
        assert again["companies"] != found.get("companies")


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["xls", "xlsx", "ods"])
def test_the_workbooks_of_a_spreadsheet_program_are_read_alike(converted, write, ending):
    """Errors of ODS are read as text, and number formats come from XLSX alone."""
    numbers = CASES / "workbook_numbers"
    content = make_workbook(**json.loads((numbers / "workbook.json").read_text()))
    found, _ = observe(write(converted("numbers.xlsx", content, ending)), {})
    assert found["lines"] == json.loads((numbers / "expected.json").read_text())["lines"]
    cells = ["0403227515", "2024", 1.5, {"error": "#N/A"}, {"value": 7, "format": "0000"}]
    content = make_workbook({"Blad1": [["kbo", "year", "omzet", "bad", "code"], cells]})
    found, _ = observe(write(converted("kinds.xlsx", content, ending)), {})
    assert found["lines"][0].endswith("| ssnsn" if ending == "ods" else "| ssnen")
    assert found.get("formats") == ({"code": {"n": "0000"}} if ending == "xlsx" else None)
    text = b"Klanten;;\r\nKlantnr.;Ondernemingsnr.;Omzet\r\nK1;0403.091.220;1.234,50\r\nK2;417497106;7\r\nK3;x;\r\n"
    made = converted("klanten.csv", text, ending, "--infilter=CSV:59,34,1252,1")
    assert observe(write(made), {})[0]["companies"] == observe(write(text), {})[0]["companies"]


if __name__ == "__main__":
    for case in sys.argv[1:]:
        with TemporaryDirectory() as scratch:
            found, _ = observe(list_of(CASES / case, Path(scratch)), options_of(CASES / case))
        text = json.dumps(found, indent=1, ensure_ascii=False)
        (CASES / case / "expected.json").write_text(f"{text}\n")
