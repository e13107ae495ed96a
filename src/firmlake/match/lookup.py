"""Find candidates in a register: by VAT number, by the same name, then by a similar name."""

from __future__ import annotations

from typing import Final

import duckdb
import polars as pl

__all__ = ["CANDIDATES", "find_candidates"]

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


def find_candidates(connection: duckdb.DuckDBPyConnection, wanted: pl.DataFrame) -> pl.DataFrame:
    """Find candidates for each line.

    Args:
        connection: A database that `firmlake.match.register.load_register` has filled.
        wanted: One row per line, null if unknown: line, country, own_country and own_number (the line's own number),
            normal and tight (the normal name with and without spaces), place and postcode in normal form, and vat (the
            result of `firmlake.match.names.vat_key`).

    Returns:
        Up to `CANDIDATES` rows per line, the best first: line, rank, country, number, name, place, how, score (0
        to 1), is_there (whether company and line name the same place; null if either is unknown), candidate_count,
        there_count.
    """
    connection.register("given", wanted.to_arrow())
    connection.execute("CREATE TABLE wanted AS SELECT * FROM given")
    connection.execute(_FOUND)
    return pl.DataFrame(pl.from_arrow(connection.sql(_RANKED).to_arrow_table()))
