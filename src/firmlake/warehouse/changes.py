"""Record the changes that a run found as typed events, while the run is loaded.

Each kind of event is a query in `KINDS`. It compares two states of the companies whose answers changed: before the run
(`before_<table>`) and after it (`after_<table>`). `filings` pairs each filing with the same filing before.

- A company seen for the first time causes one event: it appeared. A company that disappears causes one event too.
- A company that returns is compared with its last answer before it disappeared.
- A dataset that is fetched for the first time causes no events.
- A filing that returns after the service removed it does not count as new.
"""

# ruff: noqa: S608 - statements are put together from our own names, never from data

from __future__ import annotations

from typing import NamedTuple

import duckdb

from firmlake.core.sql import read_queries
from firmlake.landing.run import RunPlan
from firmlake.tables.schemas import COMPANY_TABLES, TABLES
from firmlake.warehouse.versions import count_rows, run_of

_SQL = read_queries(__file__)


class Kind(NamedTuple):
    """One kind of event.

    Attributes:
        meaning: What happened.
        query: Finds the events, as columns of the table `company_changes`.
        compares_rows: Whether the query compares rows before and after. Without such rows it finds nothing.
    """

    meaning: str
    query: str
    compares_rows: bool = True


_PERIOD = "country, company_number, start_date, end_date, dup_no"

_PARTY = "country, company_number, direction, party"

_PARTY_COLUMNS = "country, company_number, direction, related_country, related_company_number, related_name"

_LOOKALIKE = "country, company_number, related_country, related_company_number"

# Unknown fields are left out: they may come and go for all companies at once, which is drift, not a change.
_FIELDS = [name for name in TABLES["financials"].content if name not in (*_PERIOD.split(", "), "extra_json")]

_PAIRS = ", ".join(f"{{'field': '{name}', 'old': b.{name}::VARCHAR, 'new': a.{name}::VARCHAR}}" for name in _FIELDS)

_DIFFER = " OR ".join(f"b.{name} IS DISTINCT FROM a.{name}" for name in _FIELDS)

_RESTATED = f"""
    SELECT {_PERIOD}, to_json(differing) AS fields
    FROM (SELECT {_PERIOD}, list_filter([{_PAIRS}], lambda pair: pair.old IS DISTINCT FROM pair.new) AS differing
          FROM filings b JOIN after_financials a USING ({_PERIOD}) WHERE {_DIFFER})
"""

_DATES = "country, company_number, start_date, end_date"

_COMMITTEES = f"""
    SELECT {_PERIOD}, old_codes AS old_value, codes AS new_value
    FROM (SELECT {_PERIOD}, old_no FROM filings WHERE old_no IS NOT NULL)
    LEFT JOIN (SELECT {_DATES}, dup_no AS old_no, codes AS old_codes FROM before_codes) USING ({_DATES}, old_no)
    LEFT JOIN after_codes USING ({_PERIOD})
    WHERE codes IS DISTINCT FROM old_codes
"""

# Parties that came or went have events of their own. The others have no stake in a function before they gained it, or
# after they lost it.
_HOLDING = (*_PARTY_COLUMNS.split(", "), '"function"')

_STAKES = f"""
    SELECT {", ".join(f"coalesce(a.{name}, b.{name}) AS {name}" for name in _HOLDING)},
           b.stake::VARCHAR AS old_value, a.stake::VARCHAR AS new_value
    FROM (FROM before_holdings SEMI JOIN after_parties USING ({_PARTY})) b
    FULL JOIN (FROM after_holdings SEMI JOIN before_parties USING ({_PARTY})) a
        ON (a.country, a.company_number, a.direction, a.party) = (b.country, b.company_number, b.direction, b.party)
        AND a."function" IS NOT DISTINCT FROM b."function"
    WHERE a.stake IS DISTINCT FROM b.stake
"""

_FUNCTIONS = f"""
    SELECT {", ".join(f"a.{name}" for name in _PARTY_COLUMNS.split(", "))}, a."function",
           b."function" AS old_value, a."function" AS new_value
    FROM before_parties b JOIN after_parties a USING ({_PARTY}) WHERE a."function" IS DISTINCT FROM b."function"
"""


def _named(column: str) -> str:
    return f"""
        SELECT country, company_number, b.{column} AS old_value, a.{column} AS new_value
        FROM names_before b JOIN companies a USING (country, company_number)
        WHERE a.{column} IS DISTINCT FROM b.{column}
    """


# The newest period that has an indicator is compared with the same period before, or if it is new, with the newest of
# then. If a newer period had one before, it was withdrawn or removed, which is no change of a score.
def _health(sign: str) -> str:
    return f"""
        SELECT country, company_number, start_date, end_date,
               old_indicator::VARCHAR AS old_value, health_indicator::VARCHAR AS new_value
        FROM (SELECT a.*, b.health_indicator AS old_indicator
              FROM (FROM after_health WHERE recency = 1) a
              JOIN before_health b ON b.country = a.country AND b.company_number = a.company_number
                  AND ((b.start_date, b.end_date) = (a.start_date, a.end_date)
                       OR (b.recency = 1 AND b.end_date < a.end_date))
              QUALIFY row_number() OVER (
                  PARTITION BY a.country, a.company_number
                  ORDER BY (b.start_date, b.end_date) = (a.start_date, a.end_date) DESC) = 1)
        WHERE health_indicator {sign} old_indicator
    """


def _party(direction: str, when: str, other: str, value: str) -> str:
    return f"""
        SELECT {_PARTY_COLUMNS}, "function", stake::VARCHAR AS {value}
        FROM {when}_parties ANTI JOIN {other}_parties USING ({_PARTY}) WHERE direction = '{direction}'
    """


def _lookalike(when: str, other: str, here: str, there: str) -> str:
    return f"""
        SELECT {_LOOKALIKE}, h.rank::VARCHAR AS {here}, t.rank::VARCHAR AS {there}
        FROM {when}_ranks h LEFT JOIN {other}_ranks t USING ({_LOOKALIKE})
        WHERE h.is_watched AND NOT coalesce(t.is_watched, false)
    """


KINDS = {
    "company_appeared": Kind(
        "the service has the company, for the first time or again; other events tell what changed since before",
        "SELECT country, company_number FROM presence WHERE is_found AND NOT was_found",
        compares_rows=False,
    ),
    "company_gone": Kind(
        "the service no longer finds the company",
        "SELECT country, company_number FROM presence WHERE was_found AND NOT is_found",
        compares_rows=False,
    ),
    "company_renamed": Kind("another name, in the same language", _named("name")),
    "company_moved": Kind("another place, in the same language", _named("place")),
    "new_accounts": Kind(
        "a new period, or a new filing of a known period",
        f"SELECT {_PERIOD} FROM after_financials ANTI JOIN filings USING ({_PERIOD})",
    ),
    "period_returned": Kind(
        "a filing that the service had removed is there again",
        f"SELECT {_PERIOD} FROM filings WHERE old_no IS NULL",
    ),
    "period_restated": Kind(
        "other figures in the same filing, or in the filing that replaced it; see fields", _RESTATED
    ),
    "period_removed": Kind(
        "a filing that is no longer there",
        f"SELECT {_PERIOD} FROM before_financials "
        f"ANTI JOIN (SELECT {_DATES}, old_no AS dup_no FROM filings) USING ({_PERIOD})",
    ),
    "committees_changed": Kind("other joint committees of the same filing; leading zeros do not count", _COMMITTEES),
    "health_up": Kind(
        "the health indicator rose: that of the newest period that has one, against the same period before or, for new "
        "accounts, against the newest ones before",
        _health(">"),
    ),
    "health_down": Kind("the health indicator fell, compared as in health_up", _health("<")),
    "parent_in": Kind("a new parent, with its stake", _party("parent", "after", "before", "new_value")),
    "parent_out": Kind("a parent that is no longer there", _party("parent", "before", "after", "old_value")),
    "child_in": Kind("a new child, with its stake", _party("child", "after", "before", "new_value")),
    "child_out": Kind("a child that is no longer there", _party("child", "before", "after", "old_value")),
    "function_changed": Kind("the same parent or child in another function", _FUNCTIONS),
    "stake_changed": Kind("another stake of the same parent or child in a function", _STAKES),
    "lookalike_in": Kind(
        "a company that is now among the first lookalikes, with its ranks",
        _lookalike("after", "before", "new_value", "old_value"),
    ),
    "lookalike_out": Kind(
        "a company that is no longer among the first lookalikes, with its ranks",
        _lookalike("before", "after", "old_value", "new_value"),
    ),
}
"""Every kind of event, in the order in which the events of a company are listed."""


def record_changes(connection: duckdb.DuckDBPyConnection, plan: RunPlan, number: int) -> int:
    """Write the events of a run that was just loaded, using its versions and the table `changed`.

    Args:
        connection: The connection of the load, after all tables of companies were replaced.
        plan: The plan of the run, with its language and the number of lookalikes to watch.
        number: The number of this load.

    Returns:
        The number of events written.
    """
    connection.execute(_SQL["states"].format(number=number))
    connection.execute(_SQL["watched"].format(number=number))
    has_rows = count_rows(connection, _SQL["rows_before"].format(number=number)) > 0
    if has_rows:
        _pair_rows(connection, plan, number)
    connection.execute(_SQL["none_yet"])
    for number, (name, kind) in enumerate(KINDS.items()):  # one by one, so that only one result is in memory
        if has_rows or not kind.compares_rows:
            connection.execute(
                f"INSERT INTO events BY NAME SELECT {number} AS kind_number, '{name}' AS kind, * FROM ({kind.query})"
            )
    written = connection.execute(_SQL["record"], [plan.run_id]).fetchone()
    connection.execute("DROP TABLE events")
    return int(written[0]) if written else 0


def _pair_rows(connection: duckdb.DuckDBPyConnection, plan: RunPlan, number: int) -> None:
    """Make the relations that compare rows before and after; see `KINDS`."""
    for dataset, tables in COMPANY_TABLES.items():
        for table in tables:
            connection.execute(_SQL["after"].format(table=table, dataset=dataset))
            connection.execute(_SQL["before"].format(table=table, dataset=dataset, number=number))
    for view in _VIEWS:
        for when in ("before", "after"):
            connection.execute(view.format(when=when, watched=plan.lookalikes_watched))
    connection.execute(_FILINGS.format(number=number))
    connection.execute(_SQL["names"].format(language=plan.language, number=number, run=run_of("valid_from")))


_VIEWS = (
    # The periods that have a health indicator, in the order of recency in the view `accounts`.
    """
    CREATE OR REPLACE TEMP TABLE {when}_health AS
    SELECT country, company_number, start_date, end_date, health_indicator,
           row_number() OVER (
               PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
           ) AS recency
    FROM (FROM {when}_financials
          QUALIFY row_number() OVER (
              PARTITION BY country, company_number, start_date, end_date
              ORDER BY date_received DESC NULLS LAST, dup_no DESC) = 1)
    WHERE health_indicator IS NOT NULL
    """,
    """
    CREATE OR REPLACE TEMP TABLE {when}_codes AS
    SELECT country, company_number, start_date, end_date, dup_no,
           array_to_string(list_sort(list(DISTINCT coalesce(nullif(ltrim(code, '0'), ''), '0'))), ', ') AS codes
    FROM {when}_financial_joint_committees GROUP BY ALL
    """,
    # A party is identified by its number, or else by its name; all parties without both count as one. The view
    # `ownership` explains how several entries of a party are counted.
    """
    CREATE OR REPLACE TEMP TABLE {when}_holdings AS
    SELECT country, company_number, direction, related_country, related_company_number, "function",
           coalesce(related_country || related_company_number, 'named ' || related_name, '') AS party,
           min(coalesce(related_identifier_name, related_name)) AS related_name,
           CASE WHEN party = '' THEN sum(stake_fraction) ELSE sum(DISTINCT stake_fraction) END AS stake
    FROM {when}_relationships
    GROUP BY country, company_number, direction, related_country, related_company_number, party, "function"
    """,
    """
    CREATE OR REPLACE TEMP TABLE {when}_parties AS
    SELECT country, company_number, direction, party, related_country, related_company_number,
           min(related_name) AS related_name, string_agg("function", ', ' ORDER BY "function") AS "function",
           coalesce(max(stake) FILTER ("function" = 'SHAREHOLDER'), max(stake)) AS stake
    FROM {when}_holdings
    GROUP BY country, company_number, direction, party, related_country, related_company_number
    """,
    """
    CREATE OR REPLACE TEMP TABLE {when}_ranks AS
    SELECT country, company_number, lookalike_country AS related_country,
           lookalike_company_number AS related_company_number, min(rank) AS rank, min(rank) <= {watched} AS is_watched
    FROM {when}_lookalikes GROUP BY ALL
    """,
)

# A filing is paired with the filing of the same period that was received on the same day. The others are paired in
# order, because the service may change the date of a filing. A filing without a counterpart may have one in history.
_FILINGS = f"""
    CREATE OR REPLACE TEMP TABLE same_day AS
    SELECT {_DATES}, a.dup_no, b.dup_no AS old_no
    FROM (SELECT *, row_number() OVER day AS nth FROM after_financials
          WINDOW day AS (PARTITION BY {_DATES}, date_received ORDER BY dup_no)) a
    JOIN (SELECT *, row_number() OVER day AS nth FROM before_financials
          WINDOW day AS (PARTITION BY {_DATES}, date_received ORDER BY dup_no)) b
    USING ({_DATES}, nth)
    WHERE a.date_received IS NOT DISTINCT FROM b.date_received;
    CREATE OR REPLACE TEMP TABLE paired AS
    FROM same_day
    UNION ALL
    SELECT {_DATES}, a.dup_no, b.dup_no
    FROM (SELECT *, row_number() OVER (PARTITION BY {_DATES} ORDER BY dup_no) AS nth
          FROM after_financials ANTI JOIN same_day USING ({_DATES}, dup_no)) a
    JOIN (SELECT *, row_number() OVER (PARTITION BY {_DATES} ORDER BY dup_no) AS nth
          FROM before_financials
          ANTI JOIN (SELECT {_DATES}, old_no AS dup_no FROM same_day)
              USING ({_DATES}, dup_no)) b
    USING ({_DATES}, nth);
    CREATE OR REPLACE TEMP TABLE unpaired AS
    SELECT {_DATES}, date_received, dup_no
    FROM after_financials ANTI JOIN paired USING ({_DATES}, dup_no);
    CREATE OR REPLACE TEMP TABLE filings AS
    SELECT b.* REPLACE (p.dup_no AS dup_no), p.old_no
    FROM before_financials b JOIN paired p
        ON (p.country, p.company_number, p.start_date, p.end_date, p.old_no)
         = (b.country, b.company_number, b.start_date, b.end_date, b.dup_no)
    UNION ALL BY NAME
    SELECT h.* REPLACE (u.dup_no AS dup_no), NULL AS old_no
    FROM financials_versions h
    JOIN unpaired u ON (u.country, u.company_number, u.start_date, u.end_date)
        = (h.country, h.company_number, h.start_date, h.end_date)
        AND u.date_received IS NOT DISTINCT FROM h.date_received
    WHERE h.valid_to < {{number}}
    QUALIFY row_number() OVER (
        PARTITION BY h.country, h.company_number, h.start_date, h.end_date, u.dup_no
        ORDER BY h.valid_to DESC, h.dup_no) = 1
"""
