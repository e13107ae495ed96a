"""Company lists: each company once and in normal form, with everything that was repaired, refused or repeated."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from firmlake.core.company import COUNTRIES
from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.entries import read_entries
from firmlake.intake.identifiers import REPAIRS
from firmlake.intake.key import company_key
from firmlake.intake.table import BLANK

__all__ = ["CompanyList", "IntakeOptions", "choose_from", "known_companies", "read_company_list"]

IntakeOptions = IntakeSettings
"""How to read a list; by default everything is found in the file."""

_EXAMPLES: Final = 3
_HASH_ROWS: Final = 1_000_000


@dataclass(frozen=True, eq=False)
class CompanyList:
    r"""The companies of one list, and an account of all its lines.

    `line_count` = `header_count` + companies + refused + `repeated_count` + `blank_count`. A quoted field of
    several lines makes them one; `line` is the line of the file where it begins (the row in XLSX and Parquet), from 1.

    Attributes:
        path: The file.
        sha256: Identity of the set of companies: hash of `BE 0403227515\n` for each, sorted. Spelling, order,
            repetition and refused lines do not change it.
        line_count: Lines of the file.
        header_count: Lines before the data.
        blank_count: Lines that hold nothing.
        repeated_count: Lines that name a company which an earlier line named.
        companies: country, company_number, line, given. One row for each company, of the first line that names it, in
            file order.
        repaired: line, given, country, company_number, reason. One row for each line with a number not in normal form,
            also where it repeats a company.
        refused: line, given, reason. One row for each line that names no company the service can be asked for.
        is_file: Whether `path` can be read again; else the companies were known already, and `path` only names them.
        guesses: One sentence for each thing that was not plain in the list, and how to overrule it.
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


def read_company_list(path: Path | str, options: IntakeOptions = IntakeOptions()) -> CompanyList:  # noqa: B008 - frozen
    """Read a list of companies of any format and spelling; a line that cannot be used never stops the others.

    Args:
        path: CSV, TSV, plain text or NDJSON (also compressed with gzip), XLSX or Parquet; told by its content.
        options: How to read it; by default everything is found.

    Raises:
        CompanyListError: The file cannot be used at all, or every line is refused; do what the next step says.

    References:
        Specification, "Company identifier"; docs/service_gaps.md, "spelling of BE numbers".
    """
    path = Path(path)
    entries = read_entries(path, options)
    parts = [_part(lines) for lines in entries.batches]
    data_count, blank_count = sum(part.line_count for part in parts), sum(part.blank_count for part in parts)
    if data_count == blank_count:
        held = "a header and no other line" if entries.header_count else "no line with anything on it"
        raise CompanyListError(f"{path} is empty: it has {held}", "Export the list again")
    named, repaired, refused = (pl.concat(frames) for frames in zip(*(part.frames for part in parts), strict=True))
    if not named.height:
        raise _all_refused(path, refused)
    companies = named.filter(company_key().is_first_distinct())
    return CompanyList(
        path=path,
        sha256=_identity(companies),
        line_count=entries.header_count + data_count,
        header_count=entries.header_count,
        blank_count=blank_count,
        repeated_count=named.height - companies.height,
        companies=companies,
        repaired=repaired,
        refused=refused,
        guesses=entries.guesses,
    )


class _Part(NamedTuple):
    """What one batch of lines gives."""

    line_count: int
    blank_count: int
    frames: tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]


def choose_from(companies: CompanyList, chosen: pl.DataFrame) -> CompanyList:
    """Keep only some companies of a list, and the account of its other lines as it is.

    Args:
        companies: The list.
        chosen: country, company_number of those to keep.
    """
    kept = companies.companies.join(chosen, on=["country", "company_number"], how="semi", maintain_order="left")
    return replace(companies, companies=kept, sha256=_identity(kept))


def known_companies(companies: pl.DataFrame, name: str) -> CompanyList:
    """Make a list of companies that are known already, instead of reading a file.

    Args:
        companies: country, company_number: each once, in normal form.
        name: In place of a file's.
    """
    lines = companies.select("country", "company_number", line=pl.int_range(1, pl.len() + 1), given="company_number")
    none = lines.clear().with_columns(reason=pl.lit("", pl.String))
    return CompanyList(
        Path(name), _identity(companies), companies.height, 0, 0, 0, lines,
        none.select("line", "given", "country", "company_number", "reason"), none.select("line", "given", "reason"),
        is_file=False,
    )  # fmt: skip


def _part(lines: pl.DataFrame) -> _Part:
    """Split lines into those that name a company, those of them that were repaired, and the refused."""
    is_blank = pl.col("problem").eq_missing(pl.lit(BLANK))
    refused = lines.filter(pl.col("problem").is_not_null() & ~is_blank)
    named = lines.filter(pl.col("problem").is_null())
    repaired = named.filter(pl.col("repairs") > 0)
    return _Part(
        lines.height,
        lines.height - named.height - refused.height,
        (
            named.select("country", "company_number", "line", "given"),
            repaired.select("line", "given", "country", "company_number", reason=_reasons(repaired["repairs"])),
            refused.select("line", "given", reason="problem"),
        ),
    )


def _reasons(repairs: pl.Series) -> pl.Series:
    """Give the text for each set of repairs; a list has few sets."""
    texts = {bits: "; ".join(text for n, text in enumerate(REPAIRS) if bits >> n & 1) for bits in repairs.unique()}
    return repairs.replace_strict(texts, return_dtype=pl.String).cast(pl.String)  # it keeps the type where nothing is


def _identity(companies: pl.DataFrame) -> str:
    """Hash the set of companies: see `CompanyList.sha256`."""
    digest = hashlib.sha256()
    for country in sorted(COUNTRIES):
        numbers = companies["company_number"].filter(companies["country"] == country).sort()
        for start in range(0, len(numbers), _HASH_ROWS):
            lines = numbers.slice(start, _HASH_ROWS).str.join(f"\n{country} ").item()
            digest.update(f"{country} {lines}\n".encode())
    return digest.hexdigest()


def _all_refused(path: Path, refused: pl.DataFrame) -> CompanyListError:
    first = refused.head(_EXAMPLES).select(pl.format("line {} ({}): {}", "line", "given", "reason"))
    return CompanyListError(
        f"{path}: no line names a company, {refused.height:,} refused. {'; '.join(first.to_series())}",
        "Correct the lines, or map the right columns (intake.country_column, intake.number_column)",
    )
