"""Add company numbers, candidates and scores to a list of names, for a person to check."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import polars as pl

from firmlake.core.company import COUNTRIES
from firmlake.core.errors import UsageError
from firmlake.core.files import write_file
from firmlake.core.settings import Settings
from firmlake.core.sql import quote_name, read_queries
from firmlake.delivery.files import write_rows
from firmlake.delivery.list_workbook import write_result
from firmlake.intake.columns import (
    COMPANY_COLUMNS,
    COUNTRY,
    NUMBER_ROLES,
    country_codes,
    find_columns,
)
from firmlake.intake.identifiers import identify_column
from firmlake.intake.readers import open_table
from firmlake.intake.refusals import quoted_names, refusal
from firmlake.intake.table import Reading, Table, cell, unique_names
from firmlake.match.register import ROLES, find_column, load_register

_CANDIDATES: Final = 3
"""Most candidates for each line."""

_SQL: Final = read_queries(__file__)
_BATCH_ROWS: Final = 10_000
_FIRST: Final = ("country", "company_number", "match", "score")
_ENDINGS: Final = (".csv", ".parquet", ".xlsx")


class Matched(NamedTuple):
    """The result of matching a list.

    Attributes:
        counts: Number of lines by kind of match.
        register: One sentence about each register file.
        columns: The column read for each role.
    """

    out: Path
    counts: dict[str, int]
    register: list[str]
    columns: dict[str, str]


def match_names(
    path: Path, register: Sequence[Path], out: Path, settings: Settings, mapping: Mapping[str, str], accept: float
) -> Matched:
    """Look up the companies of a list in registers, and write the list with the results.

    The list has names or VAT numbers, in any format that the intake reads. The output (.csv, .parquet or .xlsx) has all
    its lines in their order, with all their columns. In front stand country and company_number (filled if the match is
    certain), match, score, and name, place, number and score of the candidates. A match is certain if the VAT number
    matches, if only one company has the name and the line's place, if any, or if a similar name scores at least
    `accept`; a value above 1 accepts none. `mapping` has columns for `ROLES` and `country`, for those that cannot be
    detected.
    """
    if out.suffix not in _ENDINGS:
        raise UsageError(
            f"--out {out}: matches cannot be written as {out.suffix or 'a file without an ending'}",
            f"Let its name end with {', '.join(_ENDINGS)}",
        )
    synonyms = {**COMPANY_COLUMNS, "name": frozenset(ROLES["name"])}
    table = open_table(Reading(path, settings.intake, synonyms))
    columns = _columns(path, table, mapping)
    with tempfile.TemporaryDirectory(prefix="firmlake-") as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": settings.run.duckdb_memory,
            "temp_directory": folder,
        }
        with duckdb.connect(str(Path(folder) / "register.duckdb"), config=config) as connection:
            said = load_register(connection, register, settings.intake)
            _load_list(connection, path, table, columns)
            connection.execute("SET VARIABLE accept = ?", [accept])
            connection.execute(_SQL["results"])
            result = connection.sql(_result_query(table))
            write_file(out, lambda aside: _write(aside, out.suffix, result, table.delimiter or ","))
            counts = dict(connection.execute("SELECT match, count(*) FROM results GROUP BY ALL").fetchall())
    return Matched(out, counts, said, {role: table.columns[n] for role, n in columns.items()})


def _columns(path: Path, table: Table, mapping: Mapping[str, str]) -> dict[str, int]:
    """Return the position of the column for each role; a name or a VAT number is required."""
    names = table.names or tuple(str(position + 1) for position in range(table.width))
    found = {role: find_column(names, words) for role, words in ROLES.items()}
    known = find_columns(path, names, table.width, COMPANY_COLUMNS, mapping)
    found[COUNTRY] = next(iter(known.get(COUNTRY, ())), None)
    found |= {role: known[role][0] for role in mapping}
    chosen = {role: position for role, position in found.items() if position is not None}
    if not chosen.keys() & {"name", "vat"}:
        raise refusal("no_name_column", path=path, names=quoted_names(names))
    return chosen


def _load_list(connection: duckdb.DuckDBPyConnection, path: Path, table: Table, columns: Mapping[str, int]) -> None:
    """Load the list into a table: its rows, with what identifies the company of each line."""
    known = find_columns(path, table.names, table.width, COMPANY_COLUMNS, {})
    numbers = [(position, role) for role in NUMBER_ROLES for position in known.get(role, ())]
    if "vat" in columns and columns["vat"] not in dict(numbers):
        numbers.append((columns["vat"], "vat_number"))

    def text(role: str) -> pl.Expr:
        return cell(columns[role]) if role in columns else pl.lit(None, pl.String)

    connection.execute(_SQL["rows"])
    for batch in table.rows(None):
        codes = country_codes(batch.with_columns(code=text(COUNTRY))["code"])
        codes = codes.set(~codes.is_in(COUNTRIES), None)
        given = {role: text(role) for role in ROLES}
        rows = batch.with_columns(*_own_numbers(batch, numbers, codes), codes.alias("country"), **given)
        connection.register("given", rows.drop("kinds", "text").to_arrow())
        connection.execute("INSERT INTO list_rows BY NAME FROM given")


def _own_numbers(batch: pl.DataFrame, numbers: Sequence[tuple[int, str]], codes: pl.Series) -> list[pl.Series]:
    """Return country and number of lines that state a company number themselves, such as a Belgian VAT number."""
    texts = [batch.select(text=cell(position))["text"] for position, _ in numbers]
    found = [identify_column(text, codes, role, None) for text, (_, role) in zip(texts, numbers, strict=True)]
    nothing = pl.repeat(None, batch.height, dtype=pl.String)
    country = pl.coalesce(nothing, *(each["country"] for each in found))
    number = pl.coalesce(nothing, *(each["company_number"] for each in found))
    return pl.select(own_country=country, own_number=number).get_columns()


def _result_query(table: Table) -> str:
    """Return the query for every line with its match and candidates, then its own cells."""
    candidates = {
        f"candidate_{n}{ending}": f"candidates[{n}].{part}"
        for n in range(1, _CANDIDATES + 1)
        for part, ending in (("company", ""), ("name", "_name"), ("score", "_score"))
    }
    added = [*_FIRST, *candidates]
    names = unique_names((*added, *table.columns))[len(added) :]
    own = [f"nullif(cells[{n}], '') AS {quote_name(name)}" for n, name in enumerate(names, 1)]
    shown = [*_FIRST, *(f"{value} AS {name}" for name, value in candidates.items()), *own]
    return f"SELECT {', '.join(shown)} FROM results ORDER BY line"  # noqa: S608 - quoted names


def _write(path: Path, ending: str, result: duckdb.DuckDBPyRelation, delimiter: str) -> None:
    if ending == ".parquet":
        result.write_parquet(str(path), compression="zstd")
        return
    batches = result.to_arrow_reader(_BATCH_ROWS)
    if ending == ".xlsx":
        write_result(path, "Matches", dict(zip(result.columns, map(str, result.types), strict=True)), batches)
        return
    with path.open("wb") as file:
        write_rows(file, batches, delimiter)
