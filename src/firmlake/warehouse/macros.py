"""Macros that return a table as it was known at a given time.

    FROM financials_as_of('20260105T120000Z-0001')      what this warehouse held after that run
    FROM financials_as_of(TIMESTAMP '2026-01-31')       ... and at that time, UTC
    FROM financials_known_on(DATE '2024-12-31')         what anybody could know on that day

The time of a run is that of its last answer, in the order of loading, so that a replay does not change it.
"""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import duckdb

from firmlake.core.sql import quote_text
from firmlake.tables.schemas import TABLES, Table

__all__ = ["MACROS", "MOMENT", "as_of_columns", "create_macros"]


class Macro(NamedTuple):
    """One macro.

    Attributes:
        kind: "MACRO TABLE" returns rows, "MACRO" one value.
    """

    kind: str
    name: str
    parameter: str
    query: str
    meaning: str


def create_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Create or replace every macro, with its comment."""
    for macro in MACROS:
        body = f"TABLE {macro.query}" if macro.kind == "MACRO TABLE" else macro.query
        connection.execute(f"CREATE OR REPLACE MACRO {macro.name}({macro.parameter}) AS {body}")
        connection.execute(f"COMMENT ON {macro.kind} {macro.name} IS {quote_text(macro.meaning)}")


def as_of_columns(table: Table) -> tuple[str, ...]:
    """List the columns of a table whose earlier values are kept, and which can be queried as of a time."""
    return tuple(column.name for column in table.columns if column.name not in (table.volatile or ()))


# ---------------------------------------------------------------------------------------------------------------------

# Each load, and the time from which its content was known: the last answer of this load and all loads before it, so
# that a run that was loaded late is not dated back. Other loads, such as an overview, have the time in their name.
_KNOWN = """
    SELECT run_id, generation, max(ended_at) OVER (ORDER BY generation) AS known_at
    FROM (SELECT run_id, generation, coalesce(finished_at, try_strptime(run_id[:16], '%Y%m%dT%H%M%SZ')) AS ended_at
          FROM loads LEFT JOIN runs USING (run_id))
"""

_GENERATION_AT = f"""
    (SELECT coalesce(
        (SELECT max(generation) FROM loads WHERE run_id = asked.text),
        CASE WHEN asked.time IS NOT NULL THEN coalesce(
            (SELECT max(generation) FROM ({_KNOWN})
             WHERE known_at <= asked.time OR asked.time >= make_timestamp(epoch_us(now()))), 0) END,
        error(asked.text || ' is neither a run of this warehouse nor a time. Use a run_id of the table runs, or a '
            || 'time such as 2026-01-31'))
    FROM (SELECT text,
                 CASE WHEN regexp_full_match(text, '[-0-9]+([ T][0-9:.]+)?')
                     THEN try_cast(text AS TIMESTAMP)
                     ELSE make_timestamp(epoch_us(
                         try_cast(regexp_replace(upper(text), ' ([+-])', '\\1') AS TIMESTAMPTZ))) END AS time
          FROM (SELECT moment::VARCHAR AS text)) asked)
"""

_BEGAN = "(SELECT run_id AS loaded, min(generation) AS first_generation FROM loads GROUP BY run_id)"

_RUNS_AS_OF = f"""
    SELECT loaded AS run_id
    FROM (SELECT generation_at(moment) AS newest) asked
    JOIN {_BEGAN} began ON began.first_generation <= newest
"""

_AS_OF = """
    SELECT {columns}, valid_from_run
    FROM (SELECT generation_at(moment) AS newest) asked
    JOIN {began} began ON began.first_generation <= newest
    JOIN {table} ON valid_from_run = began.loaded
    UNION ALL
    SELECT {columns}, valid_from_run
    FROM (SELECT generation_at(moment) AS newest) asked
    JOIN {began} began ON began.first_generation <= newest
    JOIN {table}_history ON valid_from_run = began.loaded
    ANTI JOIN {began} ended ON ended.loaded = valid_to_run AND ended.first_generation <= newest
"""

# Versions of a period compete. So do overlapping periods that were never in the same answer, because correcting the
# dates closes one period and adds another. The version received last wins. Of versions received on the same day, the
# one held on the requested day wins, or else the one first seen after it. Only closed rows can have such a successor.
_KNOWN_ON = """
    WITH asked AS (SELECT day::DATE AS last_day),
    ended AS (
        SELECT run_id, min(generation) AS generation, min(known_at) AS known_at FROM ({known}) GROUP BY run_id
    ),
    best AS MATERIALIZED (
        SELECT f.*, b.generation AS first_generation, e.generation AS end_generation,
               greatest(b.known_at, last_day + INTERVAL 1 DAY) AS seen_at
        FROM (SELECT *, NULL AS valid_to_run FROM financials UNION ALL BY NAME SELECT * FROM financials_history) f
        JOIN ended b ON b.run_id = f.valid_from_run
        LEFT JOIN ended e ON e.run_id = f.valid_to_run
        JOIN asked ON date_received <= last_day
        WHERE e.known_at IS NULL OR e.known_at >= last_day + INTERVAL 1 DAY
        QUALIFY row_number() OVER (
            PARTITION BY country, company_number, start_date, end_date
            ORDER BY date_received DESC, seen_at, dup_no DESC, b.generation) = 1
    ),
    vanished AS (
        SELECT country, company_number
        FROM (SELECT *, NULL AS valid_to_run FROM company_state UNION ALL BY NAME SELECT * FROM company_state_history) s
        JOIN ended b ON b.run_id = s.valid_from_run
        LEFT JOIN ended e ON e.run_id = s.valid_to_run
        JOIN asked ON b.known_at < last_day + INTERVAL 1 DAY
        WHERE dataset = 'financials' AND payload_hash = ''
            AND (e.known_at IS NULL OR e.known_at >= last_day + INTERVAL 1 DAY)
    ),
    beaten AS (
        SELECT unnest(CASE WHEN n.date_received > o.date_received THEN o.period ELSE n.period END)
        FROM (SELECT *, {period} AS period FROM best WHERE end_generation IS NOT NULL) o
        JOIN (SELECT *, {period} AS period FROM best) n
            ON n.country = o.country AND n.company_number = o.company_number
            AND n.first_generation >= o.end_generation
        WHERE 2 * (least(o.end_date, n.end_date) - greatest(o.start_date, n.start_date) + 1)
              > least(o.end_date - o.start_date, n.end_date - n.start_date) + 1
    )
    SELECT {columns}, valid_from_run
    FROM best f
    ANTI JOIN beaten USING (country, company_number, start_date, end_date)
    ANTI JOIN vanished USING (country, company_number)
"""

_DATES = """{'country': country, 'company_number': company_number, 'start_date': start_date, 'end_date': end_date}"""

MOMENT = (
    "moment is a run or a time. A time counts the runs whose last answers came by then; it is in UTC unless it has an "
    "offset or a zone, a day is its first moment, and now or later counts every run. An unknown run is an error."
)


def _as_of(table: Table) -> Macro:
    left_out = f" Without {', '.join(table.volatile)}, because earlier values are not kept." if table.volatile else ""
    query = _AS_OF.format(table=table.name, began=_BEGAN, columns=", ".join(as_of_columns(table)))
    meaning = f"The rows of {table.name} that the warehouse held at a moment; {MOMENT}{left_out}"
    return Macro("MACRO TABLE", f"{table.name}_as_of", "moment", query, meaning)


def _macros() -> Iterator[Macro]:
    yield Macro(
        "MACRO",
        "generation_at",
        "moment",
        _GENERATION_AT,
        f"The number of the generation that was the newest at a moment; {MOMENT}",
    )
    yield Macro(
        "MACRO TABLE", "runs_as_of", "moment", _RUNS_AS_OF, f"The runs that the warehouse held at a moment; {MOMENT}"
    )
    for table in TABLES.values():
        if table.volatile is not None:
            yield _as_of(table)
    columns = ", ".join(f"f.{name}" for name in as_of_columns(TABLES["financials"]))
    yield Macro(
        "MACRO TABLE",
        "financials_known_on",
        "day",
        _KNOWN_ON.format(columns=columns, known=_KNOWN, period=_DATES),
        "One row for each financial period whose accounts were received on or before a day, for back-tests. It has the "
        "filing received last by then, as the warehouse held it on that day, or as firmlake first saw it if the first "
        "answer came later. Accounts received later and periods without date_received are left out. If a later run "
        "corrected the dates of a period, the period is there once: of two periods that overlap by more than half of "
        "the shorter one and were never in the same answer, only one is there. Companies that the service did not find "
        "on that day are left out. What cannot be known: which companies it knew before the first run; and if a later "
        "answer corrected the day of receipt, the corrected day counts on earlier days too. Without position, because "
        "earlier values are not kept.",
    )


MACROS = tuple(_macros())
