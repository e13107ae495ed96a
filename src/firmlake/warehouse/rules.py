"""Read the rules of alerts from their file, check them, and turn their comparisons into SQL.

    [equity_turned_negative]
    says = "Equity turned negative"
    severity = "high"
    when = { equity = "< 0", equity_before = ">= 0" }

A comparison is an operator and an operand: a number, a text in single quotes, a day, true, false, null or another
column. Text from the file enters SQL only after it was recognised as one of these.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from datetime import date
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec

from firmlake.core.alert_rule import AlertRule
from firmlake.core.errors import SettingsError
from firmlake.warehouse.create import create_tables
from firmlake.warehouse.definitions import Definition, definitions, is_of_companies
from firmlake.warehouse.views import create_view

__all__ = ["WATCHED", "column_kinds", "compared_columns", "read_rules", "to_sql", "watchable"]

WATCHED: Final = "watched_figures"
"""The relation that a rule reads unless it names a view."""


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


@cache
def column_kinds(view: str) -> dict[str, str]:
    """Return the kind of each column of a watchable relation: number, text, day, boolean or other."""
    made = {each.name: each for each in definitions()}
    with duckdb.connect() as connection:
        create_tables(connection)
        for definition in _below(view, made):
            create_view(connection, definition)
        columns = connection.execute(f"DESCRIBE SELECT * FROM {made[view].example}").fetchall()  # noqa: S608 - our own
    return {name: _KINDS.get(re.split(r"[(\s]", kind)[0], "other") for name, kind, *_ in columns}


# ---------------------------------------------------------------------------------------------------------------------

_KINDS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL", "DOUBLE", "FLOAT"), "number"),
    "VARCHAR": "text",
    "DATE": "day",
    "TIMESTAMP": "day",
    "BOOLEAN": "boolean",
}
_SEVERITIES = ("high", "medium", "low")
_KEYS: dict[str, type] = {"says": str, "severity": str, "list": str, "view": str, "when": dict}
_NAME = re.compile(r"\w[\w -]{0,59}")
_COMPARISON = re.compile(r"\s*(<=|>=|!=|<|>|=|is not|is)\s*(\S.*?)\s*")
_OPERANDS = (
    ("nothing", re.compile(r"null")),
    ("boolean", re.compile(r"true|false")),
    ("day", re.compile(r"\d{4}-\d{2}-\d{2}")),
    ("number", re.compile(r"-?\d+(\.\d+)?")),
    ("text", re.compile(r"'[^']*'")),
    ("column", re.compile(r"[a-z_]\w*")),
)
"""The kinds of operands; the first pattern that matches decides."""
_FORMS = "Write an operator (<, <=, >, >=, =, !=) and a number, a 'text', a day or a column; or \"is null\""


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
