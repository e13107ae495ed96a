"""The kinds of events in `changes`, each with its meaning and the query that finds it.

The queries read temporary relations made by `changes`: `before_<table>` and `after_<table>` hold the rows of companies
whose answers changed, and `filings` pairs each filing with the same filing before.
"""

# ruff: noqa: S608 - statements are put together from our own names, never from data

from __future__ import annotations

from typing import NamedTuple

from firmlake.tables.schemas import TABLES

__all__ = ["KINDS"]


class Kind(NamedTuple):
    """One kind of event.

    Attributes:
        meaning: What happened.
        query: Finds the events, as columns of the table `changes`.
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


def _health(sign: str) -> str:
    return f"""
        SELECT country, company_number, a.start_date, a.end_date,
               b.health_indicator::VARCHAR AS old_value, a.health_indicator::VARCHAR AS new_value
        FROM before_health b JOIN after_health a USING (country, company_number)
        WHERE a.health_indicator {sign} b.health_indicator
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
    "health_up": Kind("the health indicator of the newest period that has one rose", _health(">")),
    "health_down": Kind("the health indicator of the newest period that has one fell", _health("<")),
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
