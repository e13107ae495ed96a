"""Read rules from a file of TOML and make SQL of their conditions: rules of alerts, and gates.

A file has a table for each rule:

    [equity_turned_negative]
    says = "Equity turned negative"
    severity = "high"
    when = { equity = "< 0", equity_before = ">= 0" }

    [found]
    view = "company_status"
    when = { status = "= 'enriched'" }
    publish_if = ">= 95 %"

A comparison is an operator and an operand: a number, a text in single quotes, a day, true, false, null or another
column. Text from the file enters SQL only after it was recognised as one of these.
"""

from __future__ import annotations

import atexit
import re
import tomllib
from collections.abc import Callable, Iterable
from datetime import date
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import msgspec

from firmlake.core.errors import SettingsError
from firmlake.landing.run import AlertRule, Gate, Rule
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.views import Definition, create_view, definitions, is_of_companies

WATCHED: Final = "watched_figures"
"""The relation that a rule of alerts reads unless it names a view."""

PUBLISH_IF: Final = re.compile(
    r"(?P<operator><=|>=|!=|<|>|=)\s*(?:last\s*(?P<change>[+-]\s*[0-9]{1,15}(?:\.[0-9]{1,15})?)?"
    r"|(?P<number>[0-9]{1,15}(?:\.[0-9]{1,15})?))"
    r"\s*(?P<percent>%?)"
)
"""The parts of a gate's `publish_if`."""

_SEVERITIES = ("high", "medium", "low")

_KEYS: dict[str, type] = {"says": str, "list": str, "view": str, "when": dict}

_FORMS = "Write an operator (<, <=, >, >=, =, !=) and a number, a 'text', a day or a column; or \"is null\""

_KINDS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL", "DOUBLE", "FLOAT"), "number"),
    "VARCHAR": "text",
    "DATE": "day",
    "TIMESTAMP": "day",
    "BOOLEAN": "boolean",
}

R = TypeVar("R", bound=Rule)


def read_rules(file: str) -> tuple[AlertRule, ...] | None:
    """Read and check the rules of alerts in a TOML file with a table for each; None if no file is named.

    Raises:
        SettingsError: The file cannot be read, or a rule is wrong. The message names the file, the rule and the key,
            and similar names that are right.
    """
    return _read_file(file, "paths.alert_rules", _read_alert_rule)


def read_gates(file: str) -> tuple[Gate, ...] | None:
    """Read and check the gates in a file, as `read_rules` does."""
    return _read_file(file, "paths.gates", _read_gate)


def to_sql(rule: Rule) -> str:
    """Return the condition of a checked rule as SQL; without one it is true of every row."""
    return " AND ".join(f'"{column}" {_sql(comparison)}' for column, comparison in rule.when.items()) or "true"


def compared_columns(rule: Rule) -> list[str]:
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


def countable() -> tuple[str, ...]:
    """List the relations that a gate may read: every table, and every view without arguments."""
    return (*WAREHOUSE_TABLES, *sorted(each.name for each in definitions() if each.kind in ("view", "table")))


def column_kinds(view: str) -> dict[str, str]:
    """Return the kind of each column of a relation that a rule may read: number, text, day, boolean or other."""
    return {name: _KINDS.get(re.split(r"[(\s]", type_)[0], "other") for name, type_ in _column_types(view).items()}


@cache
def _column_types(view: str) -> dict[str, str]:
    made, connection = {each.name: each for each in definitions()}, _empty_warehouse()
    for definition in _below(view, made) if view in made else ():
        _create_once(definition.name)
    example = made[view].example if view in made else view
    columns = connection.execute(f"DESCRIBE SELECT * FROM {example}").fetchall()  # noqa: S608 - our own
    return {name: type_ for name, type_, *_ in columns}


@cache
def _empty_warehouse() -> duckdb.DuckDBPyConnection:
    """Create the tables once."""
    connection = duckdb.connect()
    create_tables(connection, with_comments=False)
    atexit.register(_empty_warehouse.cache_clear)  # DuckDB complains of a connection that outlives the interpreter
    return connection


@cache
def _create_once(name: str) -> None:
    """Create a definition in the empty warehouse, where those that it reads are."""
    create_view(_empty_warehouse(), next(each for each in definitions() if each.name == name))


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


def _read_file(file: str, setting: str, read: Callable[[str, Any, str], R]) -> tuple[R, ...] | None:
    if not file:
        return None
    try:
        text = Path(file).read_bytes()
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror}", f"Correct {setting}, which names the file of rules") from None
    return _read_text(text, file, read)


@lru_cache(maxsize=4)
def _read_text(text: bytes, file: str, read: Callable[[str, Any, str], R]) -> tuple[R, ...]:
    """Read rules once for a plan and the run that follows it: checking them takes a third of a second."""
    try:
        content = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{file} is not TOML: {error}", "Correct that line") from None
    return tuple(read(name, given, f"{file}, rule {name}") for name, given in content.items())


def _read_alert_rule(name: str, given: Any, where: str) -> AlertRule:
    _check_keys(name, given, where, {**_KEYS, "severity": str})
    severity, view = given.get("severity", "medium"), given.get("view", WATCHED)
    if severity not in _SEVERITIES:
        raise SettingsError(f"{where}: there is no severity {severity!r}", f"Choose from {', '.join(_SEVERITIES)}")
    if view not in watchable():
        raise _unknown(f"{where}: no rule can read the view {view}", view, watchable())
    if not given.get("when"):
        raise SettingsError(f"{where}: when is missing", 'Write a condition, such as when = { equity = "< 0" }')
    return _checked(AlertRule(**_common(name, given, view), severity=severity), where)


def _read_gate(name: str, given: Any, where: str) -> Gate:
    _check_keys(name, given, where, {**_KEYS, "publish_if": str})
    view, publish_if = given.get("view", ""), given.get("publish_if", "")
    if view not in countable():
        raise _unknown(f"{where}: no gate can read the view {view!r}", view, countable())
    if not PUBLISH_IF.fullmatch(publish_if):
        raise SettingsError(
            f"{where}: publish_if = {publish_if!r} is not a limit",
            'Write an operator and a number of rows, or with % their share: ">= 95 %", "= 0" or ">= last - 10 %"',
        )
    if given.get("list") and not {"list_name", "company_number"} & column_kinds(view).keys():
        raise SettingsError(f"{where}: {view} has no companies, so it cannot be limited to a list", "Remove list")
    return _checked(Gate(**_common(name, given, view), publish_if=publish_if), where)


def _common(name: str, given: Any, view: str) -> dict[str, Any]:
    return {
        "name": name,
        "says": given.get("says", ""),
        "list_name": given.get("list", ""),
        "view": view,
        "when": given.get("when", {}),
    }


def _check_keys(name: str, given: Any, where: str, keys: dict[str, type]) -> None:
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{where}: the name is not valid", "Use up to 60 letters, digits, _, - and spaces")
    if not isinstance(given, dict):
        raise SettingsError(f"{where} is not a table", f"Begin it with [{name}]")
    for key, value in given.items():
        if key not in keys:
            raise _unknown(f"{where}: there is no key {key}", key, keys)
        if not isinstance(value, keys[key]):
            form = '{ column = "< 0" }' if key == "when" else "a text in quotes"
            raise SettingsError(f"{where}: {key} has the wrong type", f"Write {key} = {form}")


def _checked(rule: R, where: str) -> R:
    """Return a rule whose condition can be evaluated, with a text."""
    for column, comparison in rule.when.items():
        _check(column, comparison, rule.view, f"{where}: when")
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


def _compile(rule: Rule, where: str) -> None:
    """Have DuckDB compile a condition: one that fails after the requests would block publishing what they bought."""
    columns = ", ".join(f'NULL::{type_} AS "{name}"' for name, type_ in _column_types(rule.view).items())
    with _empty_warehouse().cursor() as connection:
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
