"""Work divided into portfolios: a company list each, and a data folder each, whose names stay the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.files import sha256_of, write_file
from firmlake.core.run import Folders
from firmlake.core.settings import IntakeSettings, Settings
from firmlake.intake.company_list import read_company_list

__all__ = ["Portfolio", "divide"]

_REFUSED = "refused"


class Portfolio(NamedTuple):
    """A part of the work.

    Attributes:
        name: That of its file without the ending, and of its data folder.
        company_list: Its file.
        sha256: Of the file.
        folders: Its data folder.
        intake: How to read the file.
    """

    name: str
    company_list: Path
    sha256: str
    folders: Folders
    intake: IntakeSettings


def divide(settings: Settings, lists: Path) -> tuple[list[Portfolio], int]:
    """Divide a folder into its files, or a company list into its countries.

    Args:
        settings: How to read a list. Below `paths.data` the portfolios have their data folders, in `portfolios`; the
            lists of countries are written there as well, in `lists`, with the lines that name no company in
            `lists/refused.csv`.
        lists: A folder, each file of which is a list, or a list.

    Returns:
        The portfolios by name, and how many lines were refused by the division itself.

    Raises:
        CompanyListError: There is no list, two would have one name, or the list cannot be used.
    """
    home = Path(settings.paths.data).absolute()
    if lists.is_dir():
        files = {path: settings.intake for path in sorted(lists.iterdir()) if _is_list(path)}
        refused_count = 0
    else:
        files, refused_count = _by_country(settings, lists, home / "lists")
    if not files:
        raise CompanyListError(f"{lists} holds no file", "Put a company list for each portfolio there")
    name, count = Counter(_name(path) for path in files).most_common(1)[0]
    if count > 1:
        raise CompanyListError(f"{lists} holds {count} files that would be portfolio {name}", "Give each its own name")
    return [
        Portfolio(_name(path), path.absolute(), sha256_of(path), Folders(home / "portfolios" / _name(path)), intake)
        for path, intake in files.items()
    ], refused_count


# ---------------------------------------------------------------------------------------------------------------------


def _is_list(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


def _name(path: Path) -> str:
    return path.name.partition(".")[0]


def _by_country(settings: Settings, lists: Path, folder: Path) -> tuple[dict[Path, IntakeSettings], int]:
    companies = read_company_list(lists, settings.intake)
    parts = companies.companies.select("country", "company_number").partition_by("country", as_dict=True)
    _write(folder / f"{_REFUSED}.csv", companies.refused)
    files = {}
    for (country,), frame in sorted(parts.items()):
        path = folder / f"{country}.csv"
        _write(path, frame)
        files[path] = IntakeSettings()
    return files, companies.refused.height


def _write(path: Path, frame: pl.DataFrame) -> None:
    write_file(path, lambda aside: frame.write_csv(aside))
