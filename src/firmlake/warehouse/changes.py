"""Changes: what a run found changed, as typed events, made while it is loaded.

Every kind of event is a query over the rows of companies whose answer changed, as they were (`before_<table>`) and as
they are (`after_<table>`). A company that is seen for the first time has no before: its first sight is one event, and
so is its end. A dataset that is asked for the first time is none.
"""

# ruff: noqa: S608 - statements are put together from our own names, never from data

from __future__ import annotations

from typing import NamedTuple

import duckdb

from firmlake.tables.schemas import COMPANY_TABLES, TABLES

__all__ = ["KINDS", "Kind", "record_changes"]


class Kind(NamedTuple):
    """One kind of event: what it says, and the query that finds it, giving columns of the table `changes`."""

    meaning: str
    query: str


def record_changes(connection: duckdb.DuckDBPyConnection, run_id: str, lookalikes_watched: int) -> int:
    """Write the events of a run that has just been loaded, from what `supersede` closed and the table `changed`.

    Args:
        connection: Of the load, after all tables of companies were replaced.
        run_id: The run.
        lookalikes_watched: Places among the lookalikes that count.

    Returns:
        Events written.
    """
    connection.execute(_STATES.format(run_id=run_id))
    connection.execute(_WATCHED)
    for dataset, (table, *_) in COMPANY_TABLES.items():
        connection.execute(_AFTER.format(table=table, dataset=dataset))
        connection.execute(_BEFORE.format(table=table, dataset=dataset, run_id=run_id))
    for view in _VIEWS:
        for when in ("before", "after"):
            connection.execute(view.format(when=when, watched=lookalikes_watched))
    connection.execute(_NONE_YET)
    for number, (name, kind) in enumerate(KINDS.items()):  # one by one: together they would have to fit into memory
        connection.execute(
            f"INSERT INTO events BY NAME SELECT {number} AS kind_number, '{name}' AS kind, * FROM ({kind.query})"
        )
    written = connection.execute(_RECORD, [run_id]).fetchone()
    connection.execute("DROP TABLE events")
    return int(written[0]) if written else 0


# --- before and after ------------------------------------------------------------------------------------------------

# An empty hash says that the company was not found; null, that it never answered.
_STATES = """
    CREATE OR REPLACE TEMP TABLE states AS
    SELECT country, company_number, dataset, true AS is_before, payload_hash <> '' AS is_found
    FROM (FROM company_state WHERE valid_from_run <> '{run_id}'
          UNION ALL BY NAME SELECT * EXCLUDE (valid_to_run) FROM closed_company_state)
    SEMI JOIN changed USING (country, company_number)
    UNION ALL
    SELECT country, company_number, dataset, false, payload_hash <> ''
    FROM company_state SEMI JOIN changed USING (country, company_number)
"""

_WATCHED = """
    CREATE OR REPLACE TEMP TABLE presence AS
    SELECT country, company_number,
           coalesce(bool_or(is_found) FILTER (is_before), false) AS was_found,
           coalesce(bool_or(is_found) FILTER (NOT is_before), false) AS is_found
    FROM states GROUP BY country, company_number;
    CREATE OR REPLACE TEMP TABLE watched AS
    SELECT country, company_number, dataset
    FROM changed SEMI JOIN (FROM states WHERE is_before AND is_found) USING (country, company_number, dataset)
    SEMI JOIN (FROM presence p WHERE p.is_found) USING (country, company_number)
"""

_AFTER = """
    CREATE OR REPLACE TEMP TABLE after_{table} AS
    SELECT t.* FROM {table} t SEMI JOIN (FROM watched WHERE dataset = '{dataset}') w USING (country, company_number)
"""

_BEFORE = """
    CREATE OR REPLACE TEMP VIEW before_{table} AS
    SELECT * FROM after_{table} WHERE valid_from_run <> '{run_id}'
    UNION ALL BY NAME
    SELECT t.* EXCLUDE (valid_to_run)
    FROM closed_{table} t SEMI JOIN (FROM watched WHERE dataset = '{dataset}') w USING (country, company_number)
"""

_VIEWS = (
    # The indicator of the newest period that states one.
    """
    CREATE OR REPLACE TEMP TABLE {when}_health AS
    SELECT country, company_number, start_date, end_date, health_indicator
    FROM {when}_financials WHERE health_indicator IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY country, company_number ORDER BY end_date DESC, start_date DESC, dup_no DESC) = 1
    """,
    # A party is known by its number, else by its name; those without both are one. It may hold several stakes.
    """
    CREATE OR REPLACE TEMP TABLE {when}_parties AS
    SELECT country, company_number, direction, related_country, related_company_number,
           coalesce(related_country || related_company_number, 'named ' || related_name, '') AS party,
           min(coalesce(related_identifier_name, related_name)) AS related_name, sum(stake_fraction) AS stake
    FROM {when}_relationships
    GROUP BY country, company_number, direction, related_country, related_company_number, party
    """,
    """
    CREATE OR REPLACE TEMP TABLE {when}_ranks AS
    SELECT country, company_number, lookalike_country AS related_country,
           lookalike_company_number AS related_company_number, min(rank) AS rank, min(rank) <= {watched} AS is_watched
    FROM {when}_lookalikes GROUP BY ALL
    """,
)

_NONE_YET = """
    CREATE OR REPLACE TEMP TABLE events AS SELECT * EXCLUDE (run_id, position), 0 AS kind_number FROM changes LIMIT 0
"""

_RECORD = """
    INSERT INTO changes BY NAME
    SELECT * EXCLUDE (kind_number), ? AS run_id,
           row_number() OVER (
               PARTITION BY country, company_number
               ORDER BY kind_number, end_date DESC, start_date, dup_no, direction, related_country,
                        related_company_number, related_name) - 1 AS position
    FROM events
"""

# --- the kinds of events ---------------------------------------------------------------------------------------------

_PERIOD = "country, company_number, start_date, end_date, dup_no"
_PARTY = "country, company_number, direction, party"
_PARTY_COLUMNS = "country, company_number, direction, related_country, related_company_number, related_name"
_LOOKALIKE = "country, company_number, related_country, related_company_number"

# Fields that the contract does not know may come and go for all companies at once: that is drift.
_FIELDS = [name for name in TABLES["financials"].content if name not in (*_PERIOD.split(", "), "extra_json")]
_PAIRS = ", ".join(f"{{'field': '{name}', 'old': b.{name}::VARCHAR, 'new': a.{name}::VARCHAR}}" for name in _FIELDS)

_DIFFER = " OR ".join(f"b.{name} IS DISTINCT FROM a.{name}" for name in _FIELDS)

_RESTATED = f"""
    SELECT {_PERIOD}, to_json(differing) AS fields
    FROM (SELECT {_PERIOD}, list_filter([{_PAIRS}], lambda pair: pair.old IS DISTINCT FROM pair.new) AS differing
          FROM before_financials b JOIN after_financials a USING ({_PERIOD}) WHERE {_DIFFER})
"""


def _health(sign: str) -> str:
    return f"""
        SELECT country, company_number, a.start_date, a.end_date,
               b.health_indicator::VARCHAR AS old_value, a.health_indicator::VARCHAR AS new_value
        FROM before_health b JOIN after_health a USING (country, company_number)
        WHERE a.health_indicator {sign} b.health_indicator
    """


def _party(direction: str, when: str, other: str, value: str) -> str:
    return f"""
        SELECT {_PARTY_COLUMNS}, stake::VARCHAR AS {value}
        FROM {when}_parties ANTI JOIN {other}_parties USING ({_PARTY}) WHERE direction = '{direction}'
    """


def _lookalike(when: str, other: str, here: str, there: str) -> str:
    return f"""
        SELECT {_LOOKALIKE}, h.rank::VARCHAR AS {here}, t.rank::VARCHAR AS {there}
        FROM {when}_ranks h LEFT JOIN {other}_ranks t USING ({_LOOKALIKE})
        WHERE h.is_watched AND NOT coalesce(t.is_watched, false)
    """


_STAKES = f"""
    SELECT {", ".join(f"a.{name}" for name in _PARTY_COLUMNS.split(", "))},
           b.stake::VARCHAR AS old_value, a.stake::VARCHAR AS new_value
    FROM before_parties b JOIN after_parties a USING ({_PARTY}) WHERE a.stake IS DISTINCT FROM b.stake
"""

KINDS = {
    "company_appeared": Kind(
        "the service has the company: for the first time, or again",
        "SELECT country, company_number FROM presence WHERE is_found AND NOT was_found",
    ),
    "company_gone": Kind(
        "the service no longer finds the company",
        "SELECT country, company_number FROM presence WHERE was_found AND NOT is_found",
    ),
    "new_accounts": Kind(
        "a period, or another filing of one, that was not there",
        f"SELECT {_PERIOD} FROM after_financials ANTI JOIN before_financials USING ({_PERIOD})",
    ),
    "period_restated": Kind("same dates, other figures: see fields", _RESTATED),
    "period_removed": Kind(
        "a period that is no longer there",
        f"SELECT {_PERIOD} FROM before_financials ANTI JOIN after_financials USING ({_PERIOD})",
    ),
    "health_up": Kind("the health indicator of the newest period that states one rose", _health(">")),
    "health_down": Kind("likewise, it fell", _health("<")),
    "parent_in": Kind("a parent that was not there; its stake", _party("parent", "after", "before", "new_value")),
    "parent_out": Kind("a parent that is no longer there", _party("parent", "before", "after", "old_value")),
    "child_in": Kind("a child that was not there; its stake", _party("child", "after", "before", "new_value")),
    "child_out": Kind("a child that is no longer there", _party("child", "before", "after", "old_value")),
    "stake_changed": Kind("another stake of the same parent or child, all its rows together", _STAKES),
    "lookalike_in": Kind(
        "a company that is now among the first lookalikes; ranks",
        _lookalike("after", "before", "new_value", "old_value"),
    ),
    "lookalike_out": Kind("one that no longer is", _lookalike("before", "after", "old_value", "new_value")),
}
"""Every kind of event, in the order in which those of a company are listed."""
