"""Add company numbers, candidates and scores to a list of names, for a person to check."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import polars as pl
import pyarrow.parquet as pq

from firmlake.core.company import COUNTRIES
from firmlake.core.errors import CompanyListError, UsageError
from firmlake.core.files import write_file
from firmlake.core.guard import guard_texts
from firmlake.core.open_workbook import open_workbook
from firmlake.core.settings import Settings
from firmlake.intake.columns import COMPANY_COLUMNS, COUNTRY, NUMBER_ROLES, find_columns, quoted_names, role_of
from firmlake.intake.identifiers import identify_column
from firmlake.intake.readers import open_table
from firmlake.intake.table import BLANK, TextTable, field, unique_names
from firmlake.intake.words import country_codes
from firmlake.match.names import normal_name, normal_place, postcode, vat_key
from firmlake.match.register import NAME_WORDS, PLACE_WORDS, POSTCODE_WORDS, VAT_WORDS, find_column, load_register

ROLES: Final = {"name": NAME_WORDS, "place": PLACE_WORDS, "postcode": POSTCODE_WORDS, "vat": VAT_WORDS}
"""The roles of columns in a list of names, with the folded header names of each."""

_SHEET_ROWS: Final = 1_048_575


CANDIDATES: Final = 3
"""Most candidates for each line."""

_FEWEST: Final = 0.85
"""Lowest Jaro-Winkler similarity of similar names."""

_MOST_COMMON: Final = 2_000
"""A word that more names of the register share than this is too common to find candidates by.

A word finds the names with the same word, also if one letter is missing from either word.
"""

_ELSEWHERE: Final = 0.9
"""Factor on the score of a company that is known to be in another place than the line says."""

_FOUND: Final = f"""
CREATE TABLE found (line BIGINT, country VARCHAR, number VARCHAR, name VARCHAR, how VARCHAR, score DOUBLE);

INSERT INTO found
SELECT line, own_country, own_number, NULL, 'its own number', 1 FROM wanted WHERE own_number IS NOT NULL;

INSERT INTO found
SELECT DISTINCT line, vats.country, number, NULL, 'VAT number', 1 FROM wanted JOIN vats USING (vat)
WHERE line NOT IN (SELECT line FROM found);

INSERT INTO found
SELECT line, names.country, number, min(name), 'same name', 1 FROM wanted JOIN names USING (tight)
WHERE (wanted.country IS NULL OR wanted.country = names.country)
  AND line NOT IN (SELECT line FROM found)
GROUP BY ALL;

CREATE TABLE open_lines AS SELECT * FROM wanted WHERE tight <> '' AND line NOT IN (SELECT line FROM found);
CREATE MACRO spellings(word) AS CASE WHEN length(word) < 5 THEN [word] ELSE
    list_concat([word], list_transform(range(1, length(word) + 1), lambda i: left(word, i - 1) || substr(word, i + 1)))
END;
CREATE TABLE keys AS
SELECT DISTINCT line, unnest(spellings(word)) AS key
FROM (SELECT line, unnest(string_split(normal, ' ')) AS word FROM open_lines) WHERE length(word) >= 3;
CREATE TABLE vocabulary AS
SELECT word FROM (SELECT unnest(list_distinct(string_split(normal, ' '))) AS word FROM names)
WHERE length(word) >= 3 GROUP BY word HAVING count(*) <= {_MOST_COMMON};
CREATE TABLE words AS
SELECT DISTINCT line, word FROM keys JOIN (SELECT word, unnest(spellings(word)) AS key FROM vocabulary) USING (key);

CREATE TABLE near AS
WITH by_word AS (
    SELECT line, names.country, number, name, names.normal FROM (
        SELECT country, number, name, normal, unnest(list_distinct(string_split(normal, ' '))) AS word FROM names
    ) names JOIN words USING (word)
), by_start AS (
    SELECT line, names.country, number, name, names.normal
    FROM open_lines JOIN names ON left(open_lines.tight, 6) = left(names.tight, 6)
    WHERE length(open_lines.tight) >= 6
), pairs AS (
    FROM by_word UNION FROM by_start
)
SELECT line, pairs.country, number, name, jaro_winkler_similarity(open_lines.normal, pairs.normal) AS score
FROM pairs JOIN open_lines USING (line)
WHERE (open_lines.country IS NULL OR open_lines.country = pairs.country)
  AND jaro_winkler_similarity(open_lines.normal, pairs.normal) >= {_FEWEST};

INSERT INTO found
SELECT line, country, number, arg_max(name, score), 'similar name', max(score) FROM near GROUP BY ALL;

CREATE TABLE placed AS
WITH seats AS (
    SELECT found.*, seat.place, wanted.place IS NULL AND wanted.postcode IS NULL OR seat.number IS NULL AS is_unknown,
           coalesce(seat.normal = wanted.place, false) OR coalesce(seat.postcode = wanted.postcode, false) AS is_same
    FROM found JOIN (SELECT line, place, postcode FROM wanted) AS wanted USING (line)
    LEFT JOIN places AS seat USING (country, number)
)
SELECT line, country, number, name, how, score,
       CASE WHEN bool_and(is_unknown) THEN NULL ELSE bool_or(is_same) END AS is_there,
       arg_max(place, is_same) AS place
FROM seats
GROUP BY ALL;
"""  # noqa: S608 - constants of this module alone

_RANKED: Final = f"""
WITH scored AS (
    SELECT line, country, number, coalesce(name, (SELECT min(n.name) FROM names n WHERE n.number = placed.number
           AND n.country = placed.country)) AS name, how, place, is_there,
           round(score * CASE WHEN how LIKE '%name' AND is_there = false THEN {_ELSEWHERE} ELSE 1 END, 3) AS score
    FROM placed
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY line ORDER BY coalesce(is_there, false) AND how = 'same name' DESC,
                                 score DESC, coalesce(is_there, false) DESC, country, number) AS rank,
           count(*) OVER (PARTITION BY line) AS candidate_count,
           count_if(is_there) OVER (PARTITION BY line) AS there_count
    FROM scored
)
SELECT * FROM ranked WHERE rank <= {CANDIDATES} ORDER BY line, rank
"""  # noqa: S608 - constants of this module alone


class Matched(NamedTuple):
    """The result of matching a list.

    Attributes:
        out: The file that was written.
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

    The output has all lines of the list in their order, with all their columns. In front stand country and
    company_number (filled if the match is certain), match, score, and name, place, number and score of the candidates.
    A match is certain if the VAT number matches, or if only one company has the name and the line's place, if any.

    Args:
        path: The list, in any format that the intake reads, with names or VAT numbers.
        register: Files of one or more registers.
        out: Output file: .csv, .parquet or .xlsx.
        settings: Limits of the intake and of DuckDB.
        mapping: Columns for `ROLES` and `country`, for those that cannot be detected.
        accept: Lowest score of a similar name that counts as certain; a value above 1 accepts none.

    Raises:
        UsageError: `out` has another ending, or the list has more lines than a sheet.
        CompanyListError: A file cannot be used. Follow the next step.
    """
    if out.suffix not in _WRITERS:
        raise UsageError(
            f"--out {out}: matches cannot be written as {out.suffix or 'a file without an ending'}",
            f"Let its name end with {', '.join(_WRITERS)}",
        )
    table = open_table(path, settings.intake, {**COMPANY_COLUMNS, "name": frozenset(NAME_WORDS)})
    columns = _columns(path, table, mapping)
    with tempfile.TemporaryDirectory(prefix="firmlake-") as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": settings.run.duckdb_memory,
            "temp_directory": folder,
            "preserve_insertion_order": "false",
        }
        with duckdb.connect(str(Path(folder) / "register.duckdb"), config=config) as connection:
            said = load_register(connection, register, settings.intake)
            lines = pl.concat(_wanted(table, columns))
            best = _decide(find_candidates(connection, lines), lines, accept)
    counts: Counter[str] = Counter()
    batches = _matched_lines(table, best, counts)
    write_file(out, lambda aside: _WRITERS[out.suffix](aside, batches, table.delimiter or ","))
    return Matched(out, dict(counts), said, {role: table.columns[n] for role, n in columns.items()})


def _columns(path: Path, table: TextTable, mapping: Mapping[str, str]) -> dict[str, int]:
    """Return the position of the column for each role; a name or a VAT number is required."""
    names = table.names or tuple(str(position + 1) for position in range(table.width))
    found = {role: find_column(names, words) for role, words in ROLES.items()}
    known = find_columns(path, names, COMPANY_COLUMNS, mapping)
    found[COUNTRY] = next(iter(known.get(COUNTRY, ())), None)
    found |= {role: known[role][0] for role in mapping}
    chosen = {role: position for role, position in found.items() if position is not None}
    if not chosen.keys() & {"name", "vat"}:
        raise CompanyListError(
            f"{path}: no column is known as the name of a company. Its columns are {quoted_names(names)}",
            "Map it: --map name=COLUMN, or --map vat=COLUMN",
        )
    return chosen


def _wanted(table: TextTable, columns: Mapping[str, int]) -> Iterator[pl.DataFrame]:
    """Yield the `wanted` frames of `find_candidates`."""
    known = [(position, role_of(name, COMPANY_COLUMNS)) for position, name in enumerate(table.names or ())]
    numbers = {position: role for position, role in known if role in NUMBER_ROLES}
    if "vat" in columns:
        numbers.setdefault(columns["vat"], "vat_number")

    def cell(role: str) -> pl.Expr:
        return pl.col(field(columns[role])) if role in columns else pl.lit(None, pl.String)

    for batch in table.batches(sorted({*columns.values(), *numbers})):
        codes = country_codes(batch.with_columns(cell(COUNTRY).alias("code"))["code"])
        codes = codes.set(~codes.is_in(COUNTRIES), None)
        yield batch.select(
            "line",
            *_own_numbers(batch, numbers, codes),
            country=codes,
            normal=normal_name(cell("name")),
            place=normal_place(cell("place")).replace("", None),
            postcode=postcode(cell("postcode")),
            vat=vat_key(cell("vat")),
        ).with_columns(tight=pl.col("normal").str.replace_all(" ", "", literal=True))


def _own_numbers(batch: pl.DataFrame, numbers: Mapping[int, str], codes: pl.Series) -> list[pl.Series]:
    """Return country and number of lines that state a company number themselves, such as a Belgian VAT number."""
    own = [pl.Series("own_country", [None] * batch.height, dtype=pl.String)]
    own.append(own[0].alias("own_number"))
    for position, role in numbers.items():
        found = identify_column(batch[field(position)], codes, role, None)
        is_new = own[0].is_null()
        own = [old.zip_with(~is_new, found[name]) for old, name in zip(own, ("country", "company_number"), strict=True)]
    return [own[0].alias("own_country"), own[1].alias("own_number")]


def _decide(candidates: pl.DataFrame, lines: pl.DataFrame, accept: float) -> pl.DataFrame:
    """Return one row per line with candidates: the match, and each candidate in columns of its own."""
    says_place = pl.col("place").is_not_null() | pl.col("postcode").is_not_null()
    placed = lines.select("line", says_place=says_place)
    first = candidates.filter(rank=1).join(placed, on="line", how="left")
    how, is_there = pl.col("how"), pl.col("is_there").fill_null(value=False)
    is_only = pl.col("candidate_count") == 1
    is_same = how == "same name"
    match = (
        pl.when(how == "its own number")
        .then(pl.lit("its own number"))
        .when((how == "VAT number") & is_only)
        .then(pl.lit("VAT number"))
        .when(is_same & is_there & (pl.col("there_count") == 1))
        .then(pl.lit("name and place"))
        .when(is_same & is_only & (~pl.col("says_place") | pl.col("is_there").is_null()))
        .then(pl.lit("name"))
        .when((how == "similar name") & (pl.col("score") >= accept))
        .then(pl.lit("similar name, accepted"))
        .when(is_same & is_only)
        .then(pl.lit("to check: name in another place"))
        .when(how == "similar name")
        .then(pl.lit("to check: similar name"))
        .otherwise(pl.lit("to check: several companies"))
    )
    is_sure = ~pl.col("match").str.starts_with("to check")
    best = first.with_columns(match=match).select(
        "line",
        "match",
        "score",
        country=pl.when(is_sure).then("country"),
        company_number=pl.when(is_sure).then("number"),
    )
    for rank in range(1, CANDIDATES + 1):
        each = candidates.filter(rank=rank).select(
            "line",
            pl.concat_str("country", "number", separator=" ").alias(f"candidate_{rank}"),
            pl.concat_str("name", "place", separator=", ", ignore_nulls=True).alias(f"candidate_{rank}_name"),
            pl.col("score").alias(f"candidate_{rank}_score"),
        )
        best = best.join(each, on="line", how="left")
    return best


def _matched_lines(table: TextTable, best: pl.DataFrame, counts: Counter[str]) -> Iterator[pl.DataFrame]:
    """Yield every line with its match, a batch at a time, and count the kinds of match."""
    added = ["country", "company_number", "match", "score", *best.columns[5:]]
    names = unique_names((*added, *table.columns))[len(added) :]
    renamed = {field(position): name for position, name in enumerate(names)}
    for batch in table.batches(range(table.width)):
        lines = batch.join(best, on="line", how="left", maintain_order="left")
        nothing = pl.when(pl.col("defect") == BLANK).then(pl.lit("blank line")).otherwise(pl.lit("not found"))
        lines = lines.with_columns(pl.coalesce("match", nothing).alias("match"))
        counts.update(dict(lines["match"].value_counts().rows()))
        yield lines.select(*added, *renamed).rename(renamed).with_columns(pl.col(pl.String).replace("", None))


def _write_csv(path: Path, batches: Iterator[pl.DataFrame], delimiter: str) -> None:
    with path.open("wb") as file:
        for rows in batches:
            is_first = not file.tell()
            guard_texts(rows).write_csv(
                file,
                include_header=is_first,
                include_bom=is_first,
                separator=delimiter,
                decimal_comma=delimiter == ";",
            )


def _write_parquet(path: Path, batches: Iterator[pl.DataFrame], _delimiter: str) -> None:
    first = next(batches).to_arrow()
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for rows in batches:
            writer.write_table(rows.to_arrow())


def _write_xlsx(path: Path, batches: Iterator[pl.DataFrame], _delimiter: str) -> None:
    rows = pl.concat(batches)
    if rows.height > _SHEET_ROWS:
        raise UsageError(
            f"The list has {rows.height:,} lines, and a sheet holds {_SHEET_ROWS:,}", "Write .csv or .parquet"
        )
    with path.open("wb") as file, open_workbook(file, path.absolute().parent, is_by_row=False) as book:
        rows.write_excel(book, "Matches", freeze_panes=(1, 0), autofilter=True, column_widths=110)


_WRITERS: Final[dict[str, Callable[[Path, Iterator[pl.DataFrame], str], None]]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".xlsx": _write_xlsx,
}


def find_candidates(connection: duckdb.DuckDBPyConnection, wanted: pl.DataFrame) -> pl.DataFrame:
    """Find candidates for each line.

    Args:
        connection: A database that `firmlake.match.register.load_register` has filled.
        wanted: One row per line, null if unknown: line, country, own_country and own_number (the line's own number),
            normal and tight (the normal name with and without spaces), place and postcode in normal form, and vat (the
            result of `vat_key`).

    Returns:
        Up to `CANDIDATES` rows per line, the best first: line, rank, country, number, name, place, how, score (0
        to 1), is_there (whether company and line name the same place; null if either is unknown), candidate_count,
        there_count.
    """
    connection.register("given", wanted.to_arrow())
    connection.execute("CREATE TABLE wanted AS SELECT * FROM given")
    connection.execute(_FOUND)
    return pl.DataFrame(pl.from_arrow(connection.sql(_RANKED).to_arrow_table()))
