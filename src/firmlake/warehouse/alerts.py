"""Read the rules of alerts, evaluate them for a run, and open, continue or close alerts.

A file of rules has a table for each rule:

    [equity_turned_negative]
    says = "Equity turned negative"
    severity = "high"
    when = { equity = "< 0", equity_before = ">= 0" }

A comparison is an operator and an operand: a number, a text in single quotes, a day, true, false, null or another
column. Text from the file enters SQL only after it was recognised as one of these.

A company that meets a rule has one open alert of that rule. The first run in which the company meets the rule opens the
alert; the first run in which it no longer does closes it. If the company meets the rule again later, that is another
alert. Alerts follow only from the rows of the warehouse, the rules frozen with the run and the time of its end, so a
replay makes the same alerts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from datetime import date
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec

from firmlake.core.alert_rule import AlertRule
from firmlake.core.errors import SettingsError
from firmlake.core.sql import quote_text
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.versions import compare, count_rows, current_rows, merge, next_number, supersede
from firmlake.warehouse.views import Definition, create_view, create_views, definitions, is_of_companies

WATCHED: Final = "watched_figures"
"""The relation that a rule reads unless it names a view."""

PERIODS = ("accounts_from", "accounts_to", "accounts_to_before", "start_date", "end_date")
"""Columns with the periods of the figures, which are part of the evidence if the relation has them."""

_SEVERITIES = ("high", "medium", "low")

_KEYS: dict[str, type] = {"says": str, "severity": str, "list": str, "view": str, "when": dict}

_FORMS = "Write an operator (<, <=, >, >=, =, !=) and a number, a 'text', a day or a column; or \"is null\""

_KINDS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL", "DOUBLE", "FLOAT"), "number"),
    "VARCHAR": "text",
    "DATE": "day",
    "TIMESTAMP": "day",
    "BOOLEAN": "boolean",
}


def read_rules(file: str) -> tuple[AlertRule, ...] | None:
    """Read and check the rules in a file.

    Args:
        file: Path of a TOML file with a table for each rule; "" for no rules.

    Returns:
        The rules in the order of the file; None for no file.

    Raises:
        SettingsError: The file cannot be read, or a rule is wrong. The message names the file, the rule and the key,
            and similar names that are right.
    """
    if not file:
        return None
    try:
        content = tomllib.loads(Path(file).read_text("utf-8"))
    except OSError as error:
        raise SettingsError(
            f"{file}: {error.strerror}", "Correct paths.alert_rules, which names the file of rules"
        ) from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{file} is not TOML: {error}", "Correct that line") from None
    return tuple(_read_rule(name, given, f"{file}, rule {name}") for name, given in content.items())


def raise_alerts(connection: duckdb.DuckDBPyConnection, rules: Sequence[AlertRule] | None, run_id: str) -> int:
    """Evaluate the rules of a run, and open, continue and close alerts.

    Args:
        connection: The connection of a load, after the run was loaded.
        rules: The rules of the run. Alerts of other rules are closed. None leaves all alerts unchanged.
        run_id: The run. Alerts, and figures that depend on a day, are dated by the last answer in the warehouse.

    Returns:
        The number of alerts that the run opened.
    """
    if rules is None:
        return 0
    create_views(connection)
    connection.execute(_MOMENT)
    (day,) = connection.execute(_DAY).fetchall()[0]
    connection.execute(f"CREATE OR REPLACE TEMP TABLE watched AS FROM {WATCHED}(DATE '{day}')")
    connection.execute(_NO_HITS)
    connection.execute(_NO_RULES)
    number = next_number(connection)
    for position, rule in enumerate(rules):
        _find(connection, rule, position, run_id)
    if count_rows(connection, _RULES_DIFFER):
        supersede(connection, "alert_rules", ("rule",), _ALL_RULES, "met_rules", number)
    compare(connection, "alerts", _ALERTS.format(run=quote_text(run_id), current=current_rows("alerts")))
    merge(connection, "alerts", number)
    return count_rows(connection, "SELECT count(*) FROM alerts WHERE opened_run = ?", run_id)


def to_sql(rule: AlertRule) -> str:
    """Return the condition of a checked rule as SQL."""
    return " AND ".join(f'"{column}" {_sql(comparison)}' for column, comparison in rule.when.items())


def compared_columns(rule: AlertRule) -> list[str]:
    """List the columns that a checked rule compares, each once."""
    found = []
    for column, comparison in rule.when.items():
        found += [column, *(other for other in [_split(comparison)[1]] if _kind_of(other) == "column")]
    return list(dict.fromkeys(found))


@cache
def watchable() -> tuple[str, ...]:
    """List the relations that a rule may read: those with one row for each company that do not depend on the time."""
    made = {each.name: each for each in definitions()}
    named = sorted(each.name for each in made.values() if is_of_companies(each))
    return (WATCHED, *(name for name in named if not any("now()" in one.sql for one in _below(name, made))))


def column_kinds(view: str) -> dict[str, str]:
    """Return the kind of each column of a watchable relation: number, text, day, boolean or other."""
    return {name: _KINDS.get(re.split(r"[(\s]", type_)[0], "other") for name, type_ in _column_types(view).items()}


@cache
def _column_types(view: str) -> dict[str, str]:
    made = {each.name: each for each in definitions()}
    with duckdb.connect() as connection:
        create_tables(connection)
        for definition in _below(view, made):
            create_view(connection, definition)
        columns = connection.execute(f"DESCRIBE SELECT * FROM {made[view].example}").fetchall()  # noqa: S608 - our own
    return {name: type_ for name, type_, *_ in columns}


_NAME = re.compile(r"\w[\w -]{0,59}")

_COMPARISON = re.compile(r"\s*(<=|>=|!=|<|>|=|is not|is)\s*(\S.*?)\s*")

_OPERANDS = (
    ("nothing", re.compile(r"null")),
    ("boolean", re.compile(r"true|false")),
    ("day", re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")),
    ("number", re.compile(r"-?[0-9]+(\.[0-9]+)?")),
    ("text", re.compile(r"'[^']*'")),
    ("column", re.compile(r"[a-z_]\w*")),
)
"""The kinds of operands; the first pattern that matches decides."""


def _read_rule(name: str, given: Any, where: str) -> AlertRule:
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{where}: the name is not valid", "Use up to 60 letters, digits, _, - and spaces")
    if not isinstance(given, dict):
        raise SettingsError(f"{where} is not a table", f"Begin it with [{name}]")
    for key, value in given.items():
        if key not in _KEYS:
            raise _unknown(f"{where}: there is no key {key}", key, _KEYS)
        if not isinstance(value, _KEYS[key]):
            form = '{ column = "< 0" }' if key == "when" else "a text in quotes"
            raise SettingsError(f"{where}: {key} has the wrong type", f"Write {key} = {form}")
    severity, view, when = given.get("severity", "medium"), given.get("view", WATCHED), given.get("when")
    if severity not in _SEVERITIES:
        raise SettingsError(f"{where}: there is no severity {severity!r}", f"Choose from {', '.join(_SEVERITIES)}")
    if view not in watchable():
        raise _unknown(f"{where}: no rule can read the view {view}", view, watchable())
    if not when:
        raise SettingsError(f"{where}: when is missing", 'Write a condition, such as when = { equity = "< 0" }')
    for column, comparison in when.items():
        _check(column, comparison, view, f"{where}: when")
    rule = AlertRule(
        name=name,
        says=given.get("says", ""),
        severity=severity,
        list_name=given.get("list", ""),
        view=view,
        when=when,
    )
    _compile(rule, f"{where}: when")
    return rule if rule.says else msgspec.structs.replace(rule, says=rule.condition)


def _check(column: str, comparison: object, view: str, where: str) -> None:
    """Check that a column exists, and that it can be compared with its operand."""
    kinds = column_kinds(view)
    if column not in kinds:
        raise _unknown(f"{where}: {view} has no column {column}", column, kinds)
    match = _COMPARISON.fullmatch(comparison) if isinstance(comparison, str) else None
    if not match:
        raise SettingsError(f"{where}: {column} = {comparison!r} is not a comparison", _FORMS)
    operator, operand = match.groups()
    kind = _kind_of(operand)
    if kind == "column" and operand not in kinds:
        raise _unknown(
            f"{where}: {column} is compared with {operand}, which is not a column of {view}", operand, kinds,
            f"Put a text in single quotes: \"{operator} '{operand}'\". ",
        )  # fmt: skip
    if not kind or operator.startswith("is") != (kind == "nothing"):
        raise SettingsError(f"{where}: {column} = {comparison!r} is not a comparison", _FORMS)
    other = kinds[operand] if kind == "column" else kind
    if kind != "nothing" and other != kinds[column]:
        raise SettingsError(
            f"{where}: {column} = {comparison!r} compares a {kinds[column]} with a {other}",
            f"Compare {column} with a {kinds[column]}",
        )
    if kind == "day":
        try:
            date.fromisoformat(operand)
        except ValueError:
            raise SettingsError(
                f"{where}: {column} = {comparison!r} is not a valid day", "Write it as 2026-01-31"
            ) from None


def _compile(rule: AlertRule, where: str) -> None:
    """Have DuckDB compile a condition: one that fails after the requests would block publishing what they bought."""
    columns = ", ".join(f'NULL::{type_} AS "{name}"' for name, type_ in _column_types(rule.view).items())
    with duckdb.connect() as connection:
        try:
            connection.execute(f"EXPLAIN SELECT * FROM (SELECT {columns}) WHERE {to_sql(rule)}")  # noqa: S608 - checked
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            raise SettingsError(f"{where} cannot be evaluated: {reason}", "Correct the comparison") from None


def _split(comparison: str) -> tuple[str, str]:
    match = _COMPARISON.fullmatch(comparison)
    assert match, comparison
    return match[1], match[2]


def _kind_of(operand: str) -> str:
    return next((kind for kind, pattern in _OPERANDS if pattern.fullmatch(operand)), "")


def _sql(comparison: str) -> str:
    operator, operand = _split(comparison)
    kind = _kind_of(operand)
    assert kind, comparison  # it was checked when the rule was read
    return f"{operator} " + {"day": f"DATE '{operand}'", "column": f'"{operand}"'}.get(kind, operand)


def _below(name: str, made: dict[str, Definition]) -> list[Definition]:
    """List a definition after all definitions that it reads, directly or indirectly."""
    found: dict[str, Definition] = {}
    for other in made[name].reads:
        if other in made:
            found |= {each.name: each for each in _below(other, made)}
    return list((found | {name: made[name]}).values())


def _unknown(what: str, name: str, known: Iterable[str], hint: str = "") -> SettingsError:
    names = list(known)
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    return SettingsError(
        what, f"{hint}Did you mean {', '.join(near)}?" if near else f"{hint}Choose one of {', '.join(names)}"
    )


_MOMENT = "CREATE OR REPLACE TEMP TABLE moment AS SELECT max(finished_at) AS judged_at FROM runs"

_DAY = "SELECT judged_at::DATE FROM moment"

_NO_HITS = """
    CREATE OR REPLACE TEMP TABLE hits AS
    SELECT rule, country, company_number, evidence FROM alerts LIMIT 0
"""

_NO_RULES = "CREATE OR REPLACE TEMP TABLE met_rules AS SELECT * EXCLUDE (valid_from_run) FROM alert_rules LIMIT 0"

_ALL_RULES = "(SELECT rule FROM alert_rules UNION SELECT rule FROM met_rules)"

_RULES_DIFFER = """
    SELECT count(*) FROM (
        (SELECT * EXCLUDE (run_id) FROM met_rules EXCEPT SELECT * EXCLUDE (run_id, valid_from_run) FROM alert_rules)
        UNION ALL
        (SELECT * EXCLUDE (run_id, valid_from_run) FROM alert_rules EXCEPT SELECT * EXCLUDE (run_id) FROM met_rules)
    )
"""

_HITS = """
    INSERT INTO hits BY NAME
    SELECT {rule} AS rule, country, company_number, json_object({evidence}) AS evidence
    FROM {relation} WHERE {condition} {members}
"""

_MEMBERS = """
    AND (country, company_number) IN (
        SELECT (country, company_number) FROM list_members WHERE lower(list_name) = lower({name})
    )
"""

# Every open alert and every hit; both in one row where a company still meets a rule.
_ALERTS = """
    SELECT rule, country, company_number,
           coalesce(a.opened_run, {run}) AS opened_run,
           coalesce(a.opened_at, judged_at) AS opened_at,
           CASE WHEN NOT is_hit THEN 'closed'
                WHEN coalesce(a.opened_at, judged_at)::DATE = judged_at::DATE THEN 'opened'
                ELSE 'still open' END AS state,
           if(is_hit, r.says, a.says) AS says,
           if(is_hit, r.severity, a.severity) AS severity,
           if(is_hit, r.list_name, a.list_name) AS list_name,
           if(is_hit, r.condition, a.condition) AS condition,
           if(is_hit, h.evidence, a.evidence) AS evidence,
           if(is_hit, w.incomparable_because, a.doubt) AS doubt,
           if(is_hit, {run}, a.seen_run) AS seen_run,
           if(is_hit, judged_at, a.seen_at) AS seen_at,
           if(is_hit, NULL, {run}) AS closed_run,
           if(is_hit, NULL, judged_at) AS closed_at,
           CASE WHEN is_hit THEN NULL
                WHEN r.rule IS NULL THEN 'rule removed'
                WHEN (r.condition, r.list_name) IS DISTINCT FROM (a.condition, a.list_name) THEN 'rule changed'
                WHEN r.list_name IS NOT NULL AND m.company_number IS NULL THEN 'left the list'
                ELSE 'no longer true' END AS closed_because,
           a AS held
    FROM hits h
    FULL JOIN (FROM {current} WHERE closed_run IS NULL) a
        USING (rule, country, company_number)
    CROSS JOIN moment
    CROSS JOIN LATERAL (SELECT h.evidence IS NOT NULL AS is_hit)
    LEFT JOIN met_rules r USING (rule)
    LEFT JOIN watched w USING (country, company_number)
    LEFT JOIN (SELECT DISTINCT lower(list_name) AS listed, country, company_number FROM list_members) m
        ON m.listed = lower(r.list_name)
        AND m.country = coalesce(h.country, a.country)
        AND m.company_number = coalesce(h.company_number, a.company_number)
"""


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
        _HITS.format(
            rule=quote_text(rule.name),
            evidence=", ".join(f'{quote_text(name)}, "{name}"::VARCHAR' for name in shown),
            relation=relation,
            condition=to_sql(rule),
            members=_MEMBERS.format(name=quote_text(rule.list_name)) if rule.list_name else "",
        )
    )
    connection.execute(
        "INSERT INTO met_rules BY NAME SELECT ? AS rule, ? AS position, ? AS says, ? AS severity, "
        "nullif(?, '') AS list_name, ? AS condition, ? AS run_id",
        [rule.name, position, rule.says, rule.severity, rule.list_name, rule.condition, run_id],
    )
