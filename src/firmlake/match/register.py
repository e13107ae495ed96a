"""Read register files of any known layout into a DuckDB database of numbers, names, places and VAT numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.choice import choose_columns
from firmlake.intake.columns import COMPANY_COLUMNS, COUNTRY, NUMBER_ROLES, country_codes, fold
from firmlake.intake.identifiers import EMPTY, identify_column
from firmlake.intake.readers import open_table
from firmlake.intake.table import Table, cell
from firmlake.match.names import normal_name, normal_place, postcode, vat_key, whole_name


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


_TABLES: Final = """
CREATE TABLE names (country VARCHAR, number VARCHAR, name VARCHAR, normal VARCHAR, tight VARCHAR, whole VARCHAR);
CREATE TABLE places (country VARCHAR, number VARCHAR, place VARCHAR, normal VARCHAR, postcode VARCHAR);
CREATE TABLE vats (country VARCHAR, number VARCHAR, vat VARCHAR);
"""
_KEY: Final = ("country", "number")
_LEFT_OUT: Final = f"^({re.escape(EMPTY)}|a Belgian establishment unit)"
"""Problems of rows that are left out without a word: files of the KBO mix enterprises with their units."""


class _Columns(NamedTuple):
    """Positions of the columns of a register file; the attributes are those of `Layout`."""

    role: str
    number: int
    country: int | None
    names: list[int]
    person: list[int]
    places: list[int]
    postcode: int | None
    vat: int | None
    only: tuple[int, str] | None

    @property
    def all(self) -> set[int]:
        """The positions of the columns that are read."""
        single = [self.number, self.country, self.postcode, self.vat, self.only[0] if self.only else None]
        return {position for position in (*single, *self.names, *self.person, *self.places) if position is not None}


def load_register(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], options: IntakeSettings) -> list[str]:
    """Load the files of one or more registers into the tables names, places and vats.

    Args:
        connection: An empty database.
        paths: KBO open data, SIRENE stock files, or lists with numbers and names, in any format that the intake reads.
        options: How to read the files.

    Returns:
        One sentence for each file: its kind, how many names, places and VAT numbers it provided, and how many rows have
        a wrong company number.

    Raises:
        CompanyListError: A file has no company numbers, or no file has names or VAT numbers.
    """
    connection.execute(_TABLES)
    said = [_load_file(connection, path, options) for path in paths]
    counts = connection.execute("SELECT (SELECT count(*) FROM names), (SELECT count(*) FROM vats)").fetchall()[0]
    if not any(counts):
        raise CompanyListError(
            f"{', '.join(map(str, paths))}: no names and no VAT numbers of companies",
            "Add the file with the names: denomination.csv of the KBO, StockUniteLegale of SIRENE",
        )
    return said


def _load_file(connection: duckdb.DuckDBPyConnection, path: Path, options: IntakeSettings) -> str:
    table = open_table(path, options, COMPANY_COLUMNS)
    layout = find_layout(table.columns)
    columns = _columns_of(table, layout) if layout else _chosen_columns(path, table, options)
    counts, wrong, example = dict.fromkeys(("names", "places", "vats"), 0), 0, ""
    for batch in table.rows(columns.all):
        rows = batch.filter(cell(columns.only[0]) == columns.only[1]) if columns.only else batch
        identified = _identify(rows, columns, None if layout else options.default_country or None)
        refused = identified.filter(~pl.col("problem").str.contains(_LEFT_OUT))
        if refused.height and not wrong:
            example = "line {}, {}: {}".format(*refused.select("line", "text", "problem").row(0))
        wrong += refused.height
        for name, part in _split(identified.filter(pl.col("problem").is_null()), columns).items():
            if part.height:
                connection.register("rows", part.to_arrow())
                connection.execute(f"INSERT INTO {name} SELECT * FROM rows")  # noqa: S608 - names of ours
                counts[name] += part.height
    what = layout.title if layout else "a list with numbers"
    said = f"{path}: {what}, " + ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return f"{said}; {wrong:,} rows with a wrong number are left out ({example})" if wrong else said


def _columns_of(table: Table, layout: Layout) -> _Columns:
    """Return the columns of a file with a known layout."""
    position_of = {fold(column): position for position, column in enumerate(table.columns)}
    names, person, places = (
        [position_of[name] for name in group if name in position_of]
        for group in (layout.names, layout.person, layout.places)
    )
    only = (position_of[layout.only[0]], layout.only[1]) if layout.only and layout.only[0] in position_of else None
    postcode_at, vat_at = position_of.get(layout.postcode), position_of.get(layout.vat)
    return _Columns(layout.role, position_of[layout.number], None, names, person, places, postcode_at, vat_at, only)


def _chosen_columns(path: Path, table: Table, options: IntakeSettings) -> _Columns:
    """Return the columns of a list in which they are found by name, such as an export of the KVK."""
    choice, _ = choose_columns(path, table, options, COMPANY_COLUMNS, {})
    role, number = next((role, choice[role][0]) for role in NUMBER_ROLES if choice.get(role))
    country = next(iter(choice.get(COUNTRY, ())), None)
    words = (NAME_WORDS, PLACE_WORDS, POSTCODE_WORDS, VAT_WORDS)
    name, place, code, vat = (find_column(table.names or (), each) for each in words)
    names, places = ([position] if position is not None else [] for position in (name, place))
    return _Columns(role, number, country, names, [], places, code, vat, None)


def _identify(rows: pl.DataFrame, columns: _Columns, default_country: str | None) -> pl.DataFrame:
    """Add text, country, number and problem of the company number."""
    nothing = pl.Series([None], dtype=pl.String).new_from_index(0, rows.height)
    country = nothing if columns.country is None else country_codes(_texts(rows, columns.country))
    text = _texts(rows, columns.number)
    found = identify_column(text, country, columns.role, default_country)
    return rows.with_columns(text, found["country"], found["company_number"].alias("number"), found["problem"])


def _texts(rows: pl.DataFrame, position: int) -> pl.Series:
    return rows.select(text=cell(position))["text"]


def _split(rows: pl.DataFrame, columns: _Columns) -> dict[str, pl.DataFrame]:
    """Return the rows of each table; undisclosed values (`[ND]`) are left out."""
    nothing = pl.lit(None, pl.String)
    filled = pl.col("text").str.strip_chars().is_in(["", "[ND]"]).not_() & pl.col("text").is_not_null()
    code = nothing if columns.postcode is None else cell(columns.postcode)
    vat = nothing if columns.vat is None else vat_key(cell(columns.vat))

    def long(texts: Sequence[pl.Expr]) -> pl.DataFrame:
        named = rows.select(*_KEY, code=code, text=pl.concat_list(*texts) if texts else pl.concat_list(nothing))
        return named.explode("text")

    person = [pl.concat_str(*map(cell, columns.person), separator=" ")] if columns.person else []
    names = long([*person, *map(cell, columns.names)]).filter(filled).with_columns(normal=normal_name(pl.col("text")))
    names = names.with_columns(tight=pl.col("normal").str.replace_all(" ", "", literal=True))
    names = names.with_columns(whole=whole_name(pl.col("text"))).filter(pl.col("tight") != "")
    places = long([*map(cell, columns.places)]).filter(filled | pl.col("code").is_not_null())
    place = normal_place(pl.col("text"))
    return {
        "names": names.select(*_KEY, "text", "normal", "tight", "whole"),
        "places": places.select(*_KEY, "text", place.alias("normal"), postcode(pl.col("code"))).unique(),
        "vats": rows.select(*_KEY, vat=vat).filter(pl.col("vat").is_not_null()),
    }
