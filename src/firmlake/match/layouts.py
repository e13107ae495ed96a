"""Layouts of public registers: the columns that hold numbers, names, places and VAT numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from firmlake.intake.words import fold

__all__ = ["NAME_WORDS", "PLACE_WORDS", "POSTCODE_WORDS", "VAT_WORDS", "Layout", "find_column", "find_layout"]


class Layout(NamedTuple):
    """The layout of one register file.

    Attributes:
        title: Description of the file, for messages.
        marks: Folded column names that identify the file; all must be present.
        role: The intake's role of the column with company numbers.
        number: The column with company numbers.
        names: Columns that each hold a name of the company.
        person: Columns that together make up the name of a sole trader.
        places: Columns that each hold a place.
        postcode: The column with postcodes; empty if there is none.
        vat: The column with VAT numbers; empty if there is none.
        only: A column and the value that it must have; other rows are not active companies.
    """

    title: str
    marks: frozenset[str]
    role: str
    number: str
    names: tuple[str, ...] = ()
    person: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    postcode: str = ""
    vat: str = ""
    only: tuple[str, str] | None = None


LAYOUTS: Final = (
    # KBO open data: https://economie.fgov.be, "Crossroads Bank for Enterprises - Open Data", cookbook of the files.
    Layout("KBO names", frozenset({"entitynumber", "denomination"}), "be_number", "entitynumber", ("denomination",)),
    Layout(
        "KBO addresses",
        frozenset({"entitynumber", "zipcode", "municipalitynl"}),
        "be_number",
        "entitynumber",
        places=("municipalitynl", "municipalityfr"),
        postcode="zipcode",
    ),
    Layout("KBO enterprises", frozenset({"enterprisenumber", "juridicalform"}), "be_number", "enterprisenumber"),
    # SIRENE stock files of INSEE: https://www.sirene.fr, "Description des fichiers stock".
    Layout(
        "SIRENE units",
        frozenset({"siren", "denominationunitelegale"}),
        "siren",
        "siren",
        (
            "denominationunitelegale", "denominationusuelle1unitelegale", "denominationusuelle2unitelegale",
            "denominationusuelle3unitelegale", "sigleunitelegale",
        ),
        person=("prenom1unitelegale", "nomunitelegale"),
        only=("etatadministratifunitelegale", "A"),
    ),
    Layout(
        "SIRENE establishments",
        frozenset({"siret", "siren", "codepostaletablissement"}),
        "siren",
        "siren",
        ("enseigne1etablissement", "denominationusuelleetablissement"),
        places=("libellecommuneetablissement",),
        postcode="codepostaletablissement",
        only=("etatadministratifetablissement", "A"),
    ),
)  # fmt: skip

NAME_WORDS: Final = (
    "handelsnaam", "statutairenaam", "statutairehandelsnaam", "bedrijfsnaam", "naam", "name", "companyname", "nom",
    "denomination", "raisonsociale", "vennootschapsnaam", "name1", "klantnaam", "customername", "accountname",
    "nomentreprise", "nomdelentreprise", "firmanaam", "company", "bedrijf", "klant", "customer", "client", "societe",
    "entreprise", "onderneming", "account", "eerstehandelsnaam", "naambedrijf", "organisatienaam",
)  # fmt: skip
PLACE_WORDS: Final = (
    "plaats", "woonplaats", "vestigingsplaats", "gemeente", "stad", "city", "place", "town", "ville", "commune",
    "localite", "municipality", "ort01", "billingcity", "mailingcity", "plaatsnaam",
)  # fmt: skip
POSTCODE_WORDS: Final = ("postcode", "zip", "zipcode", "postalcode", "codepostal", "cp", "pstlz", "billingpostalcode")
VAT_WORDS: Final = (
    "rsin", "btw", "btwnummer", "btwnr", "vat", "vatnumber", "vatno", "vatid", "tva", "numerodetva", "ntva", "stceg",
    "btwidentificatienummer", "rsinnummer", "numtva",
)  # fmt: skip


def find_layout(columns: Sequence[str]) -> Layout | None:
    """Return the known layout with these column names; None if there is none."""
    folded = {fold(column) for column in columns}
    return next((layout for layout in LAYOUTS if layout.marks <= folded), None)


def find_column(columns: Sequence[str], words: Sequence[str]) -> int | None:
    """Return the position of the first of these folded names among the columns; None if there is none."""
    folded = [fold(column) for column in columns]
    return next((folded.index(word) for word in words if word in folded), None)
