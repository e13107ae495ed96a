"""Divide work into portfolios: company lists, each with its own data folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.files import sha256_of, write_file
from firmlake.core.folders import Folders
from firmlake.core.guard import guard_texts
from firmlake.core.settings import IntakeSettings, Settings
from firmlake.intake.lines import read_company_list

_REFUSED = "refused"


class Portfolio(NamedTuple):
    """A company list with a data folder of its own.

    Attributes:
        name: The file name up to its first dot; also the name of the data folder.
        company_list: The file.
        sha256: SHA-256 of the file.
        folders: The data folder.
        intake: How to read the file.
    """

    name: str
    company_list: Path
    sha256: str
    folders: Folders
    intake: IntakeSettings


def divide(settings: Settings, lists: Path) -> tuple[list[Portfolio], int]:
    """Make a portfolio of each file in a folder, or of each country in one company list.

    Each portfolio's data folder is `portfolios/NAME` below `paths.data`. If one list is divided, `lists` below
    `paths.data` gets a file per country, and `lists/refused.csv` the lines that name no company.

    Args:
        settings: How to read a list, and `paths.data`.
        lists: A folder in which each file is a company list, or one company list.

    Returns:
        The portfolios sorted by name, and the number of lines that were refused when one list was divided.

    Raises:
        CompanyListError: The folder holds no list, two files would get the same name, or a list cannot be used. The
            message says which.
    """
    home = Path(settings.paths.data).absolute()
    if lists.is_dir():
        files = {path: settings.intake for path in sorted(lists.iterdir()) if _is_list(path)}
        refused_count = 0
    else:
        files, refused_count = _by_country(settings, lists, home / "lists")
    if not files:
        raise CompanyListError(f"{lists} holds no file", "Put a company list for each portfolio into it")
    name, count = Counter(_name(path) for path in files).most_common(1)[0]
    if count > 1:
        raise CompanyListError(
            f"{lists} holds {count} files for portfolio {name}, because only the name up to the first dot counts",
            "Rename all but one of them",
        )
    return [
        Portfolio(_name(path), path.absolute(), sha256_of(path), Folders(home / "portfolios" / _name(path)), intake)
        for path, intake in files.items()
    ], refused_count


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
    write_file(path, lambda aside: guard_texts(frame).write_csv(aside))
