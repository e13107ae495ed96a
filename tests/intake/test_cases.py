"""Lists as people have them: each folder of `cases` holds a list and what reading it shows.

To add a case: write `cases/NAME/list` (and `cases/NAME/options.json` with settings of `intake`, if any), run
`python tests/intake/test_cases.py NAME`, and check the `expected.json` that it writes.
"""

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.lines import read_company_list

CASES = Path(__file__).parent / "cases"


def observe(folder: Path) -> dict[str, Any]:
    """Read the list of a case: the refusal, or the companies with their lines, every line, counts and guesses."""
    path, options = folder / "list", folder / "options.json"
    settings = IntakeSettings(**json.loads(options.read_text())) if options.exists() else IntakeSettings()
    try:
        companies = read_company_list(path, settings)
        lines = pl.concat(companies.lines.batches())
    except CompanyListError as error:
        return {name: getattr(error, name).replace(str(path), "LIST") for name in ("message", "next_step")}
    named = companies.companies.select("line", "country", "company_number")
    cells = lines.select("line", "status", "reason", "given", "columns", "kinds")
    return {
        "companies": [" ".join(map(str, row)) for row in named.rows()],
        "lines": [" | ".join("" if cell is None else str(cell) for cell in row) for row in cells.rows()],
        "counts": f"{companies.line_count} lines, {companies.header_count} above the data, "
        f"{companies.blank_count} blank, {companies.repeated_count} repeated",
        "guesses": list(companies.guesses),
    }


@pytest.mark.parametrize("name", sorted(folder.name for folder in CASES.iterdir()))
def test_a_list_is_read_as_its_case_says(name):
    assert observe(CASES / name) == json.loads((CASES / name / "expected.json").read_text())


def test_every_line_of_each_case_is_accounted_for():
    for folder in CASES.iterdir():
        path = folder / "options.json"
        if path.exists() or "message" in json.loads((folder / "expected.json").read_text()):
            continue
        found = read_company_list(folder / "list")
        accounted = found.header_count + found.companies.height + found.refused.height
        assert found.line_count == accounted + found.repeated_count + found.blank_count


if __name__ == "__main__":
    for case in sys.argv[1:]:
        text = json.dumps(observe(CASES / case), indent=1, ensure_ascii=False)
        (CASES / case / "expected.json").write_text(f"{text}\n")
