"""Read company lists: each company once, in normal form, with all repaired, refused and repeated lines."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import polars as pl

from firmlake.core.company import COUNTRIES
from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.key import company_key
from firmlake.intake.lines import Lines

_EXAMPLES: Final = 3
_HASH_ROWS: Final = 1_000_000


@dataclass(frozen=True, eq=False)
class CompanyList:
    r"""The companies of one list, with an account of every line.

    `line_count` = `header_count` + companies + refused + `repeated_count` + `blank_count`. Lines joined by a quoted
    field count as one, numbered after the first of them. `line` counts from 1; in XLSX and Parquet it is the row.

    Attributes:
        path: The file.
        sha256: Identity of the set of companies: hash of the sorted lines `BE 0403227515\n`. It does not depend on
            spelling, order, repetitions or refused lines.
        line_count: Lines of the file.
        header_count: Lines before the data.
        blank_count: Lines without content.
        repeated_count: Lines that repeat the company of an earlier line.
        companies: country, company_number, line, given. One row per company, from the first line that names it, in file
            order.
        repaired: line, given, country, company_number, reason. One row per line whose number was repaired,
            repetitions included.
        refused: line, given, reason. One row per line that names no company known to the service.
        is_file: Whether `path` is a file; False if the companies come from elsewhere and `path` is only a name.
        guesses: One sentence for each guess about the list, with the way to override it.
        lines: Every line with its cells; None if the companies come from elsewhere.
    """

    path: Path
    sha256: str
    line_count: int
    header_count: int
    blank_count: int
    repeated_count: int
    companies: pl.DataFrame
    repaired: pl.DataFrame
    refused: pl.DataFrame
    is_file: bool = True
    guesses: tuple[str, ...] = ()
    lines: Lines | None = None


def read_company_list(path: Path | str, options: IntakeSettings = IntakeSettings()) -> CompanyList:  # noqa: B008 - frozen
    """Read a company list of any format and spelling; each line that cannot be used is refused with a reason.

    Args:
        path: CSV, TSV, plain text or NDJSON (also compressed with gzip), XLSX or Parquet; detected by content.
        options: How to read the list; by default everything is detected.

    Raises:
        CompanyListError: The file cannot be used at all, or every line is refused. Follow the next step.

    References:
        Specification, "Company identifier"; docs/service_gaps.md, "spelling of company numbers".
    """
    path = Path(path)
    lines = Lines(path, options)
    header_count = lines.header_count
    named = lines.query("accepted").select("country", "company_number", "line", "given", "reason").collect()
    refused = lines.query("refused").select("line", "given", "reason").collect()
    blank_count = lines.query("blank").select(pl.len()).collect().item()
    if not named.height + refused.height:
        content = "only a header" if header_count else "only blank lines"
        raise CompanyListError(f"{path} is empty: it has {content}", "Export the list again")
    if not named.height:
        raise _all_refused(path, refused, options)
    companies = named.filter(company_key().is_first_distinct()).drop("reason")
    repaired = named.filter(pl.col("reason").is_not_null())
    return CompanyList(
        path=path,
        sha256=identity_of(companies),
        line_count=header_count + named.height + refused.height + blank_count,
        header_count=header_count,
        blank_count=blank_count,
        repeated_count=named.height - companies.height,
        companies=companies,
        repaired=repaired.select("line", "given", "country", "company_number", "reason"),
        refused=refused,
        guesses=lines.guesses,
        lines=lines,
    )


def choose_from(companies: CompanyList, chosen: pl.DataFrame) -> CompanyList:
    """Keep only some companies of a list; the counts of its lines do not change.

    Args:
        companies: The list.
        chosen: country, company_number of the companies to keep.
    """
    kept = companies.companies.join(chosen, on=["country", "company_number"], how="semi", maintain_order="left")
    return replace(companies, companies=kept, sha256=identity_of(kept))


def known_companies(companies: pl.DataFrame, name: str) -> CompanyList:
    """Make a list from companies in normal form instead of a file.

    Args:
        companies: country, company_number; each company once, in normal form.
        name: Name of the list, used instead of a path.
    """
    lines = companies.select("country", "company_number", line=pl.int_range(1, pl.len() + 1), given="company_number")
    none = lines.clear().with_columns(reason=pl.lit("", pl.String))
    return CompanyList(
        Path(name), identity_of(companies), companies.height, 0, 0, 0, lines,
        none.select("line", "given", "country", "company_number", "reason"), none.select("line", "given", "reason"),
        is_file=False,
    )  # fmt: skip


def identity_of(companies: pl.DataFrame) -> str:
    """Hash the set of companies: see `CompanyList.sha256`."""
    digest = hashlib.sha256()
    for country in sorted(COUNTRIES):
        numbers = companies["company_number"].filter(companies["country"] == country).sort()
        for start in range(0, len(numbers), _HASH_ROWS):
            lines = numbers.slice(start, _HASH_ROWS).str.join(f"\n{country} ").item()
            digest.update(f"{country} {lines}\n".encode())
    return digest.hexdigest()


def _all_refused(path: Path, refused: pl.DataFrame, options: IntakeSettings) -> CompanyListError:
    if not options.keeps_all:  # the message is kept in the data folder
        refused = refused.with_columns(given=pl.lit("not shown"))
    first = refused.head(_EXAMPLES).select(pl.format("line {} ({}): {}", "line", "given", "reason"))
    return CompanyListError(
        f"{path}: no line names a company, {refused.height:,} refused. {'; '.join(first.to_series())}",
        "Correct the lines, or name the columns to read, by their names or positions from 1: --map number=COLUMN "
        "--map country=COLUMN",
    )
