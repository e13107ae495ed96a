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
    """One kind of event."""

    meaning: str  # what happened
    query: str  # finds the events, as columns of the table `company_changes`
    compares: str  # the dataset, or companies: if no rows of it changed, there is no event; "" compares none


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
        "",
    ),
    "company_gone": Kind(
        "the service no longer finds the company",
        "SELECT country, company_number FROM presence WHERE was_found AND NOT is_found",
        "",
    ),
    "company_renamed": Kind("another name, in the same language", _named("name"), "companies"),
    "company_moved": Kind("another place, in the same language", _named("place"), "companies"),
    "new_accounts": Kind(
        "a new period, or a new filing of a known period",
        f"SELECT {_PERIOD} FROM after_financials ANTI JOIN filings USING ({_PERIOD})",
        "financials",
    ),
    "period_returned": Kind(
        "a filing that the service had removed is there again",
        f"SELECT {_PERIOD} FROM filings WHERE old_no IS NULL",
        "financials",
    ),
    "period_restated": Kind(
        "other figures in the same filing, or in the filing that replaced it; see fields",
        _RESTATED,
        "financials",
    ),
    "period_removed": Kind(
        "a filing that is no longer there",
        f"SELECT {_PERIOD} FROM before_financials "
        f"ANTI JOIN (SELECT {_DATES}, old_no AS dup_no FROM filings) USING ({_PERIOD})",
        "financials",
    ),
    "committees_changed": Kind(
        "other joint committees of the same filing; leading zeros do not count", _COMMITTEES, "financials"
    ),
    "health_up": Kind(
        "the health indicator rose: that of the newest period that has one, against the same period before or, for new "
        "accounts, against the newest ones before",
        _health(">"),
        "financials",
    ),
    "health_down": Kind("the health indicator fell, compared as in health_up", _health("<"), "financials"),
    "parent_in": Kind(
        "a new parent, with its stake", _party("parent", "after", "before", "new_value"), "relationships"
    ),
    "parent_out": Kind(
        "a parent that is no longer there", _party("parent", "before", "after", "old_value"), "relationships"
    ),
    "child_in": Kind("a new child, with its stake", _party("child", "after", "before", "new_value"), "relationships"),
    "child_out": Kind(
        "a child that is no longer there", _party("child", "before", "after", "old_value"), "relationships"
    ),
    "function_changed": Kind("the same parent or child in another function", _FUNCTIONS, "relationships"),
    "stake_changed": Kind("another stake of the same parent or child in a function", _STAKES, "relationships"),
    "lookalike_in": Kind(
        "a company that is now among the first lookalikes, with its ranks",
        _lookalike("after", "before", "new_value", "old_value"),
        "lookalikes",
    ),
    "lookalike_out": Kind(
        "a company that is no longer among the first lookalikes, with its ranks",
        _lookalike("before", "after", "old_value", "new_value"),
        "lookalikes",
    ),
}
"""Every kind of event, in the order in which the events of a company are listed."""


def record_changes(connection: duckdb.DuckDBPyConnection, plan: RunPlan, number: int) -> int:
    """Write the events of a run whose tables of companies were just loaded, and return their number.

    The plan has the language and the number of lookalikes to watch.
    """
    connection.execute(_SQL["states"].format(number=number))
    connection.execute(_SQL["presence"])
    changed: set[str] = set()
    if count_rows(connection, "SELECT count(*) FROM presence WHERE was_known"):
        connection.execute(_SQL["watched"].format(number=number))
        changed = {name for (name,) in connection.execute(_SQL["rows_before"].format(number=number)).fetchall()}
    for compared in changed:
        _pair_rows(connection, compared, plan, number)
    connection.execute(_SQL["none_yet"])
    for place, (name, kind) in enumerate(KINDS.items()):  # one by one, so that only one result is in memory
        if kind.compares in {"", *changed}:
            connection.execute(
                f"INSERT INTO events BY NAME SELECT {place} AS kind_number, '{name}' AS kind, * FROM ({kind.query})"
            )
    written = connection.execute(_SQL["record"], [plan.run_id]).fetchone()
    connection.execute("DROP TABLE events")
    return int(written[0]) if written else 0


def _pair_rows(connection: duckdb.DuckDBPyConnection, compared: str, plan: RunPlan, number: int) -> None:
    """Make the relations that compare the rows of a dataset, or of companies, before and after; see `KINDS`."""
    for table in COMPANY_TABLES.get(compared, ()):
        connection.execute(_SQL["after"].format(table=table, dataset=compared))
        connection.execute(_SQL["before"].format(table=table, dataset=compared, number=number))
    names = {"language": plan.language, "number": number, "run": run_of("valid_from")}
    for when in ("before", "after"):
        query = _SQL.get(f"rows_of_{compared}", "SELECT 1")
        connection.execute(query.format(when=when, watched=plan.lookalikes_watched))
    connection.execute(_SQL.get(f"pairs_of_{compared}", "SELECT 1").format(**names))
