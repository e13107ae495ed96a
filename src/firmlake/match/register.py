"""Read register files of any known layout into a DuckDB database of numbers, names, places and VAT numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.choice import choose_columns
from firmlake.intake.columns import COMPANY_COLUMNS, COUNTRY, NUMBER_ROLES
from firmlake.intake.identifiers import identify_column
from firmlake.intake.readers import open_table
from firmlake.intake.table import TextTable, field
from firmlake.intake.words import country_codes, fold
from firmlake.match.names import normal_name, normal_place, postcode, vat_key


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
CREATE TABLE names (country VARCHAR, number VARCHAR, name VARCHAR, normal VARCHAR, tight VARCHAR);
CREATE TABLE places (country VARCHAR, number VARCHAR, place VARCHAR, normal VARCHAR, postcode VARCHAR);
CREATE TABLE vats (country VARCHAR, number VARCHAR, vat VARCHAR);
"""
_KEY: Final = ("country", "number")


def load_register(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], options: IntakeSettings) -> list[str]:
    """Load the files of one or more registers into the tables names, places and vats.

    Args:
        connection: An empty database.
        paths: KBO open data, SIRENE stock files, or lists with numbers and names, in any format that the intake reads.
        options: How to read the files.

    Returns:
        One sentence for each file: its kind, and how many names, places and VAT numbers it provided.

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
    batches = _known(table, layout) if layout else _any(path, table, options)
    counts = dict.fromkeys(("names", "places", "vats"), 0)
    for batch in batches:
        for name, rows in _split(batch).items():
            if rows.height:
                connection.register("rows", rows.to_arrow())
                connection.execute(f"INSERT INTO {name} SELECT * FROM rows")  # noqa: S608 - names of ours
                counts[name] += rows.height
    what = layout.title if layout else "a list with numbers"
    return f"{path}: {what}, " + ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _known(table: TextTable, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield the rows of a file with a known layout: country, number, names (a list), places (a list), postcode, vat."""
    place_of = {fold(column): position for position, column in enumerate(table.columns)}
    wanted = [layout.number, *layout.names, *layout.person, *layout.places, layout.postcode, layout.vat]
    if layout.only:
        wanted.append(layout.only[0])
    at = {column: place_of[column] for column in wanted if column in place_of}

    def cell(column: str) -> pl.Expr:
        return pl.col(field(at[column])) if column in at else pl.lit(None, pl.String)

    for batch in table.batches(sorted(set(at.values()))):
        rows = batch
        if layout.only and layout.only[0] in at:
            rows = rows.filter(cell(layout.only[0]) == layout.only[1])
        # KBO files mix numbers of establishment units with those of enterprises; the former identify no company.
        rows = _identified(rows, field(at[layout.number]), layout.role, None)
        person = pl.concat_str(*map(cell, layout.person), separator=" ") if layout.person else pl.lit(None, pl.String)
        yield rows.select(
            *_KEY,
            names=pl.concat_list(person, *map(cell, layout.names)),
            places=pl.concat_list(*map(cell, layout.places or ("",))),
            postcode=cell(layout.postcode),
            vat=cell(layout.vat),
        )


def _any(path: Path, table: TextTable, options: IntakeSettings) -> Iterator[pl.DataFrame]:
    """Yield the rows of a list whose columns are found by name, such as an export of the KVK."""
    choice, _ = choose_columns(path, table, options, COMPANY_COLUMNS, {})
    role, number = next((role, choice[role][0]) for role in NUMBER_ROLES if choice.get(role))
    country = next(iter(choice.get(COUNTRY, ())), None)
    words = (NAME_WORDS, PLACE_WORDS, POSTCODE_WORDS, VAT_WORDS)
    found = [find_column(table.names or (), each) for each in words]
    positions = sorted({each for each in (number, country, *found) if each is not None})

    def cell(position: int | None) -> pl.Expr:
        return pl.lit(None, pl.String) if position is None else pl.col(field(position))

    for batch in table.batches(positions):
        codes = None if country is None else country_codes(batch[field(country)])
        rows = _identified(batch, field(number), role, codes, options.default_country or None)
        name, place, code, vat = map(cell, found)
        yield rows.select(*_KEY, names=pl.concat_list(name), places=pl.concat_list(place), postcode=code, vat=vat)


def _identified(
    rows: pl.DataFrame, column: str, role: str, country: pl.Series | None, default: str | None = None
) -> pl.DataFrame:
    """Keep rows with a valid company number, and add country and number."""
    codes = pl.Series([None], dtype=pl.String).new_from_index(0, rows.height) if country is None else country
    found = identify_column(rows[column], codes, role, default)
    return rows.with_columns(found["country"], found["company_number"].alias("number")).filter(
        pl.col("country").is_not_null()
    )


def _split(batch: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the rows of each table; undisclosed values (`[ND]`) are left out."""
    filled = pl.col("text").str.strip_chars().is_in(["", "[ND]"]).not_() & pl.col("text").is_not_null()

    def long(column: str) -> pl.DataFrame:
        return batch.select(*_KEY, "postcode", text=column).explode("text")

    names = long("names").filter(filled).with_columns(normal=normal_name(pl.col("text")))
    names = names.with_columns(tight=pl.col("normal").str.replace_all(" ", "", literal=True))
    places = long("places").filter(filled | pl.col("postcode").is_not_null())
    vats = batch.select(*_KEY, vat=vat_key(pl.col("vat"))).filter(pl.col("vat").is_not_null())
    place = normal_place(pl.col("text"))
    return {
        "names": names.filter(pl.col("tight") != "").select(*_KEY, pl.col("text").alias("name"), "normal", "tight"),
        "places": places.select(*_KEY, "text", place.alias("normal"), postcode(pl.col("postcode"))).unique(),
        "vats": vats,
    }
