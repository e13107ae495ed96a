"""Lists of contacts: each contact of a company once, with everything that was repaired, refused or repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.assumed import count_assumed, tell_assumed
from firmlake.intake.columns import COMPANY_COLUMNS, Synonyms, header_names
from firmlake.intake.entries import read_entries
from firmlake.intake.table import BLANK
from firmlake.intake.words import ERROR
from firmlake.service_lists.contact_plan import Contact, Refused

__all__ = ["ContactList", "read_contact_list"]

CONTACT_COLUMNS: Final[Synonyms] = {
    **COMPANY_COLUMNS,
    "contact_id": header_names(
        "contact", "contact id", "contact ids", "contact identifier", "contact code", "contact number", "contact no",
        "contact nr", "id contact", "contact person id", "person id", "contactnummer", "contact nummer",
        "contactpersoon", "contactpersoon id", "persoon id", "persoons id", "identifiant contact",
        "identifiant du contact", "numero contact", "numero de contact", "id du contact", "code contact",
        "personne id", "id personne",
    ),
}  # fmt: skip

_EXAMPLES: Final = 3
_LONGEST: Final = 64
_EMPTY: Final = "no contact id: fill it in, or remove the line"
_ROUNDED: Final = "a contact id that a spreadsheet has rounded: format the column as text and export the list again"
_NO_ID: Final = "a date, a truth value or several values instead of a contact id: write the id as text"
_UNPRINTABLE: Final = (
    f"not a contact id: it has spaces, control characters or more than {_LONGEST} characters; correct the id"
)


class ContactList(NamedTuple):
    """The contacts of one list, and an account of all its lines except the header and blank lines.

    Attributes:
        contacts: Each contact once, in file order.
        refused: Lines without a valid company number or contact id.
        repaired_count: Lines whose company number or contact id was not in normal form.
        repeated_count: Lines that repeat the contact of an earlier line.
        guesses: One sentence for each guess about the list, with the way to override it.
    """

    path: Path
    contacts: list[Contact]
    refused: list[Refused]
    repaired_count: int
    repeated_count: int
    guesses: tuple[str, ...] = ()


def read_contact_list(path: Path, options: IntakeSettings) -> ContactList:
    """Read a contact list of any format; company numbers are repaired and refused as in a company list.

    Args:
        path: CSV, TSV, text or NDJSON (also compressed with gzip), XLSX or Parquet; detected by content.
        options: How to read the list; by default everything is detected.

    Raises:
        CompanyListError: The file cannot be used at all, or every line is refused.
    """
    entries = read_entries(path, options, CONTACT_COLUMNS, {"contact_id": options.contact_column})
    batches = list(entries.batches)
    with_company = (batch.filter(pl.col("problem").is_null()) for batch in batches)
    assumed = tell_assumed(map(count_assumed, with_company), entries.table.columns)
    lines = pl.concat(map(_check_contacts, batches)).filter(~pl.col("problem").eq_missing(pl.lit(BLANK)))
    named = lines.filter(pl.col("problem").is_null())
    refused = [Refused(*row) for row in lines.filter("is_refused").select("line", "given", "problem").iter_rows()]
    if named.is_empty():
        raise _unusable(path, refused, options)
    unique = named.unique(["country", "company_number", "contact_id"], keep="first", maintain_order=True)
    return ContactList(
        path,
        [Contact(*row) for row in unique.select("country", "company_number", "contact_id").iter_rows()],
        refused,
        named.filter("is_repaired").height,
        named.height - unique.height,
        (*entries.guesses, *assumed),
    )


def _check_contacts(lines: pl.DataFrame) -> pl.DataFrame:
    """Normalise contact ids, and refuse values that cannot be one."""
    text = pl.col("contact_id").fill_null("").str.strip_chars()
    plain = text.str.replace(r"^(\d+)\.0+$", "${1}")  # a whole number that a spreadsheet made a float
    problem = (
        pl.when((text == "") | text.str.contains(ERROR))
        .then(pl.lit(_EMPTY))
        .when(text.str.contains(r"^\d+([.,]\d+)?[eE]\+\d+$"))
        .then(pl.lit(_ROUNDED))
        .when(text.str.contains(r"^[\[{]|^\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d.*)?$|^(?i:true|false)$"))
        .then(pl.lit(_NO_ID))
        .when(~plain.str.contains(rf"^[^\s\p{{C}}]{{1,{_LONGEST}}}$"))
        .then(pl.lit(_UNPRINTABLE))
    )
    both = pl.concat_str(pl.col("given"), text.str.head(_LONGEST), separator=", contact ")
    return lines.with_columns(
        contact_id=plain,
        given=pl.when(pl.col("problem").is_null()).then(both).otherwise(pl.col("given")),
        is_repaired=(pl.col("repairs") > 0) | (plain != pl.col("contact_id")),
        problem=pl.coalesce(pl.col("problem"), problem),
    ).with_columns(is_refused=pl.col("problem").is_not_null())


def _unusable(path: Path, refused: list[Refused], options: IntakeSettings) -> CompanyListError:
    if not refused:
        return CompanyListError(f"{path} is empty: it has no line with anything on it", "Export the list again")
    first = "; ".join(
        f"line {one.line} ({one.given if options.keeps_all else 'not shown'}): {one.reason}"
        for one in refused[:_EXAMPLES]
    )
    return CompanyListError(
        f"{path}: no line names a contact of a company, {len(refused):,} refused. {first}",
        "Correct the lines, or map the right columns (intake.country_column, intake.number_column, "
        "intake.contact_column)",
    )
