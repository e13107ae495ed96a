"""Evaluate the rules of alerts for a run, and open, continue or close alerts.

A company that meets a rule has one open alert of that rule. The first run in which the company meets the rule opens the
alert; the first run in which it no longer does closes it. If the company meets the rule again later, that is another
alert. Alerts follow only from the rows of the warehouse, the rules frozen with the run and the time of its end, so a
replay makes the same alerts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import duckdb

from firmlake.core.sql import quote_text, read_queries
from firmlake.landing.run import AlertRule
from firmlake.warehouse.rules import WATCHED, compared_columns, to_sql
from firmlake.warehouse.versions import compare, count_rows, current_rows, merge, next_number, supersede
from firmlake.warehouse.views import create_views

_SQL = read_queries(__file__)

PERIODS: Final = ("accounts_from", "accounts_to", "accounts_to_before", "start_date", "end_date")
"""Columns with the periods of the figures, which are part of the evidence if the relation has them."""


def raise_alerts(connection: duckdb.DuckDBPyConnection, rules: Sequence[AlertRule] | None, run_id: str) -> int:
    """Evaluate the rules of a run that was loaded; open, continue and close alerts; return how many the run opened.

    Alerts of other rules are closed. If `rules` is None, all alerts stay. Alerts, and figures that depend on a day, are
    dated by the last answer in the warehouse.
    """
    if rules is None:
        return 0
    create_views(connection)
    connection.execute(_MOMENT)
    (day,) = connection.execute(_DAY).fetchall()[0]
    connection.execute(f"CREATE OR REPLACE TEMP TABLE watched AS FROM {WATCHED}(DATE '{day}')")
    connection.execute(_SQL["no_hits"])
    connection.execute(_NO_RULES)
    number = next_number(connection)
    for position, rule in enumerate(rules):
        _find(connection, rule, position, run_id)
    if count_rows(connection, _SQL["rules_differ"]):
        supersede(connection, "alert_rules", ("rule",), _ALL_RULES, "met_rules", number)
    compare(connection, "alerts", _SQL["alerts"].format(run=quote_text(run_id), current=current_rows("alerts")), number)
    merge(connection, "alerts", number)
    return count_rows(connection, "SELECT count(*) FROM alerts WHERE opened_run = ?", run_id)


_MOMENT = "CREATE OR REPLACE TEMP TABLE moment AS SELECT max(finished_at) AS judged_at FROM runs"
_DAY = "SELECT judged_at::DATE FROM moment"
_NO_RULES = "CREATE OR REPLACE TEMP TABLE met_rules AS SELECT * EXCLUDE (valid_from_run) FROM alert_rules LIMIT 0"
_ALL_RULES = "(SELECT rule FROM alert_rules UNION SELECT rule FROM met_rules)"


def _find(connection: duckdb.DuckDBPyConnection, rule: AlertRule, position: int, run_id: str) -> None:
    """Add a rule and the companies that meet it. A rule with columns that no longer exist counts as removed."""
    relation = "watched" if rule.view == WATCHED else rule.view
    found = connection.execute("SELECT column_name FROM duckdb_columns() WHERE table_name = ?", [relation]).fetchall()
    columns = {name for (name,) in found}
    compared = compared_columns(rule)
    if not columns.issuperset(compared):
        return
    shown = [*compared, *(name for name in PERIODS if name in columns and name not in compared)]
    connection.execute(
        _SQL["hits"].format(
            rule=quote_text(rule.name),
            evidence=", ".join(f'{quote_text(name)}, "{name}"::VARCHAR' for name in shown),
            relation=relation,
            condition=to_sql(rule),
            members=_SQL["members"].format(name=quote_text(rule.list_name)) if rule.list_name else "",
        )
    )
    connection.execute(
        "INSERT INTO met_rules BY NAME SELECT ? AS rule, ? AS position, ? AS says, ? AS severity, "
        "nullif(?, '') AS list_name, ? AS condition, ? AS run_id",
        [rule.name, position, rule.says, rule.severity, rule.list_name, rule.condition, run_id],
    )
