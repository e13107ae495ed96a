"""Read register files of any known layout into a DuckDB database of names, places and VAT numbers of companies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb
import msgspec
import polars as pl

from firmlake.core.settings import IntakeSettings
from firmlake.core.sql import read_queries
from firmlake.intake.choice import choose_columns
from firmlake.intake.columns import COMPANY_COLUMNS, COUNTRY, NUMBER_ROLES, country_codes, fold
from firmlake.intake.identifiers import EMPTY, identify_column
from firmlake.intake.readers import open_table
from firmlake.intake.refusals import refusal
from firmlake.intake.table import Reading, Table, cell


class Layout(msgspec.Struct, frozen=True):
    """The folded names of columns in one register file; `register.toml` says what each attribute is."""

    title: str
    role: str
    number: str
    marks: frozenset[str] = frozenset()
    country: str = ""
    names: tuple[str, ...] = ()
    person: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    postcode: str = ""
    vat: str = ""
    only: tuple[str, str] | None = None


class _Known(msgspec.Struct, frozen=True):
    words: dict[str, tuple[str, ...]]
    layouts: tuple[Layout, ...]


_KNOWN: Final = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_text("utf-8"), type=_Known)
ROLES: Final = _KNOWN.words
"""The roles of columns in a list of names, with the folded header names of each."""

_LEFT_OUT: Final = f"^({re.escape(EMPTY)}|a Belgian establishment unit)"
"""Problems of rows that are left out without a word: files of the KBO mix enterprises with their units."""

_SQL: Final = read_queries(__file__)
_INSERTS: Final = {"names": _SQL["names"], "places": _SQL["places"], "vats": _SQL["vats"]}
"""Fill the tables of a register."""


def find_column(columns: Sequence[str], words: Sequence[str]) -> int | None:
    """Return the position of the first of these folded names among the columns; None if there is none."""
    folded = [fold(column) for column in columns]
    return next((folded.index(word) for word in words if word in folded), None)


def load_register(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], options: IntakeSettings) -> list[str]:
    """Load the files of one or more registers into the tables names, places and vats of an empty database.

    The files are KBO open data, SIRENE stock files, or lists with numbers and names, in any format that the intake
    reads. Returns a sentence for each: its kind, how many names, places and VAT numbers it provided, and how many rows
    have a wrong company number.
    """
    connection.execute(_SQL["prepare"])
    said = [_load_file(connection, path, options) for path in paths]
    counts = connection.execute("SELECT (SELECT count(*) FROM names), (SELECT count(*) FROM vats)").fetchall()[0]
    if not any(counts):
        raise refusal("no_register", paths=", ".join(map(str, paths)))
    return said


def _load_file(connection: duckdb.DuckDBPyConnection, path: Path, options: IntakeSettings) -> str:
    reading = Reading(path, options, COMPANY_COLUMNS)
    table = open_table(reading)
    names = [fold(column) for column in table.columns]
    layout = next((layout for layout in _KNOWN.layouts if layout.marks <= set(names)), None)
    default_country = None if layout else options.default_country or None
    layout = layout or _chosen_layout(reading, table, names)
    counts, wrong, example = dict.fromkeys(_INSERTS, 0), 0, ""
    for batch in table.rows(_positions(names, layout)):
        rows = _identify(batch, names, layout, default_country)
        refused = rows.filter(~pl.col("problem").str.contains(_LEFT_OUT))
        if refused.height and not wrong:
            example = "line {}, {}: {}".format(*refused.select("line", "given", "problem").row(0))
        wrong += refused.height
        connection.register("given", rows.filter(pl.col("problem").is_null()).drop("line", "given").to_arrow())
        for name, insert in _INSERTS.items():
            counts[name] += connection.execute(insert).fetchall()[0][0]
    said = f"{path}: {layout.title}, " + ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return f"{said}; {wrong:,} rows with a wrong number are left out ({example})" if wrong else said


def _chosen_layout(reading: Reading, table: Table, names: Sequence[str]) -> Layout:
    """Return the layout of a list whose columns are found by name, such as an export of the KVK."""
    choice, _ = choose_columns(reading, table, {})
    role, number = next((role, choice[role][0]) for role in NUMBER_ROLES if choice.get(role))
    country = [names[position] for position in choice.get(COUNTRY, ())[:1]]
    found = {role: find_column(table.names or (), words) for role, words in ROLES.items()}
    name, place, postcode, vat = ("" if at is None else names[at] for at in found.values())
    return Layout(
        "a list with numbers", role, names[number], country="".join(country), names=(name,), places=(place,),
        postcode=postcode, vat=vat,
    )  # fmt: skip


def _positions(names: Sequence[str], layout: Layout) -> set[int]:
    single = (layout.number, layout.country, layout.postcode, layout.vat, (layout.only or ("",))[0])
    wanted = {*single, *layout.names, *layout.person, *layout.places} - {""}
    return {names.index(name) for name in wanted if name in names}


def _identify(rows: pl.DataFrame, names: Sequence[str], layout: Layout, default_country: str | None) -> pl.DataFrame:
    """Return line, given, country, number, problem, names (a list), places (a list), postcode and vat of each row."""

    def text(column: str) -> pl.Expr:
        return cell(names.index(column)) if column and column in names else pl.lit(None, pl.String)

    if layout.only and layout.only[0] in names:
        rows = rows.filter(text(layout.only[0]) == layout.only[1])
    person = [pl.concat_str(*map(text, layout.person), separator=" ")] if layout.person else []
    read = rows.with_columns(
        given=text(layout.number),
        country=text(layout.country),
        names=pl.concat_list(*person, *map(text, layout.names or ("",))),
        places=pl.concat_list(*map(text, layout.places or ("",))),
        postcode=text(layout.postcode),
        vat=text(layout.vat),
    )
    found = identify_column(read["given"], country_codes(read["country"]), layout.role, default_country)
    identified = read.with_columns(found["country"], found["company_number"].alias("number"), found["problem"])
    return identified.drop("cells", "kinds", "defect", "text")
