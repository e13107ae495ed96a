"""Views, macros and checks: one SQL file each in `views/`, which carries its own meaning.

A file begins with what it makes and what that means; then, after an empty comment line, its columns:

    -- macro cagr(years := 3)
    -- example: cagr(3)
    -- Compound annual growth of each company over a number of years.
    --
    -- span_years: Years between the two periods
    SELECT ...

Kinds: `function` (a scalar macro), `table` (made at load), `view`, `macro` (of a table; `example` is a call of it) and
`check`: a query for rows of `findings`, with a severity in place of parameters. A column that a file leaves undescribed
has the comment of the column of that name in what the file reads, in the order in which it names it.

DuckDB puts a macro's arguments into its text, where a table or column of the macro's own may bear their name. So each
parameter stands in a SELECT without FROM (`asked`) or as the argument of a macro, and these in a WITH of their own or
first in a FROM: nothing stands before them that could be meant. DuckDB 1.4 cannot read a WITH, so FROM is better.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import duckdb

from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.members import create_list_views

__all__ = ["SEVERITIES", "Definition", "create_views", "definitions", "describe_columns"]

SEVERITIES = ("error", "warning", "note")
"""How much a finding matters: the figures cannot be right; they are unlikely; they want a second look."""


class Definition(NamedTuple):
    """One file.

    Attributes:
        kind: function, table, view, macro or check.
        parameters: Of a function or macro; the severity of a check.
        example: A call of a macro; the name of anything else that has rows.
        columns: Meaning of the columns it describes itself.
        reads: Tables and other definitions that it names, in that order.
    """

    kind: str
    name: str
    parameters: str
    example: str
    meaning: str
    columns: dict[str, str]
    sql: str
    reads: tuple[str, ...]


def create_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Make every function, derived table, view and macro anew, each with its comments; the tables must be there."""
    _drop_other_kinds(connection)
    for definition in definitions():
        if definition.kind != "check":
            connection.execute(_CREATE[definition.kind].format(definition))
    create_list_views(connection)
    for statement in _comments(connection):
        connection.execute(statement)


def describe_columns(connection: duckdb.DuckDBPyConnection, definition: Definition) -> dict[str, tuple[str, str]]:
    """Give type and meaning of the columns of a table, view or macro that was made; no meaning where nobody says."""
    columns = connection.execute(f"DESCRIBE SELECT * FROM {definition.example}").fetchall()  # noqa: S608 - our own
    return {name: (kind, _meaning(definition, name)) for name, kind, *_ in columns}


@cache
def definitions() -> tuple[Definition, ...]:
    """Read all files, in an order in which each follows what it reads."""
    heads = [_read(path.read_text("utf-8")) for path in sorted(_FOLDER.rglob("*.sql"))]
    heads += _gather_checks([head for head in heads if head.kind == "check"])
    known = {head.name for head in heads if head.kind != "check"} | set(WAREHOUSE_TABLES)
    found = {head.name: head._replace(reads=tuple(_named(head.sql, known - {head.name}))) for head in heads}
    order = TopologicalSorter({name: [other for other in head.reads if other in found] for name, head in found.items()})
    return tuple(found[name] for name in order.static_order())


# ---------------------------------------------------------------------------------------------------------------------

_FOLDER = Path(__file__).with_suffix("")

_CREATE = {
    "function": "CREATE OR REPLACE MACRO {0.name}({0.parameters}) AS {0.sql}",
    "table": "CREATE OR REPLACE TABLE {0.name} AS {0.sql}",
    "view": "CREATE OR REPLACE VIEW {0.name} AS {0.sql}",
    "macro": "CREATE OR REPLACE MACRO {0.name}({0.parameters}) AS TABLE {0.sql}",
}
_COMMENT = {
    "function": "COMMENT ON MACRO {} IS {}",
    "table": "COMMENT ON TABLE {} IS {}",
    "view": "COMMENT ON VIEW {} IS {}",
    "macro": "COMMENT ON MACRO TABLE {} IS {}",
}
# A list may bear the name of a view.
_COLUMNS = "SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'main'"
_KINDS = """
    SELECT table_name, 'table' FROM duckdb_tables() WHERE schema_name = 'main'
    UNION ALL SELECT view_name, 'view' FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal
"""
_FIRST = re.compile(r"-- (\w+) (\w+)(?:\((.*)\)|, (\w+))?")
_COLUMN = re.compile(r"(\w+): (.*)")


def _drop_other_kinds(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop tables that are views now, and views that are tables: an earlier version of firmlake made them."""
    kinds = {definition.name: definition.kind for definition in definitions()}
    for name, kind in connection.execute(_KINDS).fetchall():
        if kinds.get(name, kind) in {"table", "view"} - {kind}:
            connection.execute(f"DROP {kind} {name}")


def _comments(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    for definition in definitions():
        if definition.kind != "check":
            yield _COMMENT[definition.kind].format(definition.name, _quote(definition.meaning))
    made = {definition.name: definition for definition in definitions() if definition.kind in ("view", "table")}
    for relation, column in connection.execute(_COLUMNS).fetchall():
        if relation in made:
            yield f'COMMENT ON COLUMN {relation}."{column}" IS {_quote(_meaning(made[relation], column))}'


def _read(text: str) -> Definition:
    lines = text.splitlines()
    count = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    first = _FIRST.fullmatch(lines[0])
    assert first, lines[0]
    kind, name, parameters, severity = first.groups(default="")
    meaning, _, described = "\n".join(line[2:].strip() for line in lines[1:count]).partition("\n\n")
    example = _COLUMN.match(meaning) if meaning.startswith("example: ") else None
    return Definition(
        kind,
        name,
        parameters or severity,
        example[2] if example else name,
        " ".join(meaning[example.end() if example else 0 :].split()),
        _read_columns(described),
        "\n".join(lines[count:]).strip().removesuffix(";"),
        (),
    )


def _read_columns(text: str) -> dict[str, str]:
    columns: dict[str, str] = {}
    for line in text.splitlines():
        if match := _COLUMN.fullmatch(line):
            columns[match[1]] = match[2]
        else:
            columns[next(reversed(columns))] += " " + line
    return {name: meaning.rstrip(".") + "." for name, meaning in columns.items()}


def _gather_checks(found: list[Definition]) -> Iterator[Definition]:
    """Make of all checks the one view that shows what they find, and the one that explains them."""
    yield Definition(
        "view",
        "findings",
        "",
        "findings",
        "One row for each thing in the answers that is not as it should be, with its evidence. Nothing is corrected.",
        {
            "check_name": "Check that found it; explained in the view checks.",
            "severity": "error: the figures cannot be right; warning: they are unlikely; note: worth a second look.",
            "start_date": "First day of the period concerned. Null: it concerns no period.",
            "end_date": "Last day of the period concerned. Null: it concerns no period.",
            "evidence": "The values that it rests on.",
        },
        " UNION ALL ".join(_as_findings(check) for check in found),
        (),
    )
    rows = ", ".join(f"({_quote(c.name)}, {_quote(c.parameters)}, {_quote(c.meaning)})" for c in found)
    yield Definition(
        "view",
        "checks",
        "",
        "checks",
        "One row for each check whose results are in findings.",
        {"check_name": "Name of the check.", "severity": "Of what it finds.", "meaning": "What it looks for."},
        f"FROM (VALUES {rows}) AS c(check_name, severity, meaning)",
        (),
    )


def _as_findings(check: Definition) -> str:
    return (
        f"SELECT '{check.name}' AS check_name, '{check.parameters}' AS severity, country, company_number, "  # noqa: S608
        f"start_date, end_date, to_json(evidence) AS evidence FROM ({check.sql})"
    )


def _meaning(definition: Definition, column: str) -> str:
    if column in definition.columns:
        return definition.columns[column]
    made = {other.name: other for other in definitions()}
    for name in definition.reads:
        if name in WAREHOUSE_TABLES:
            meaning = next((c.comment for c in WAREHOUSE_TABLES[name].columns if c.name == column), "")
        else:
            meaning = _meaning(made[name], column)
        if meaning:
            return meaning
    return ""


def _named(sql: str, known: set[str]) -> Iterator[str]:
    """List the known names in a query, in order."""
    code = re.sub(r"--.*|'[^']*'", "", sql)
    return (word for word in dict.fromkeys(re.findall(r"\w+", code)) if word in known)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
