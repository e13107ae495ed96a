"""Make data_dictionary.md from the tables' schema and the files of the views.

python docs/make_dictionary.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb

from firmlake.core.reasons import COMPANY_REASONS, ERROR_REASONS, RECORD_REASONS
from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES, Table, comment_of, duckdb_type
from firmlake.warehouse.macros import MACROS
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.views import Definition, create_views, definitions, describe_columns

DICTIONARY = Path(__file__).with_name("data_dictionary.md")

_HEAD = """# Data dictionary

Every table, view and macro of the warehouse, with its columns. The database has the same descriptions:
`FROM duckdb_columns()`, `FROM duckdb_functions()`. The [cookbook](cookbook.md) has questions with SQL and answers.

A column is null only where its description says what null means. "From financials data[].startDate" names the field of
the service's answer that a value comes from. [Privacy](privacy.md) explains the column "privacy". A *held* company,
answer or period is one that the warehouse has. [The glossary](glossary.md) explains further terms.

This page is made by `python docs/make_dictionary.py` from `src/firmlake/tables/schemas.toml` and
`src/firmlake/warehouse/views`."""

_PARENTS = ("companies", "financials", "company_state", "runs")
"""Tables that have a row for whatever another table's row names."""

_REASONS = {
    "dead_letters": [[code, text] for code, text in (*COMPANY_REASONS.items(), *ERROR_REASONS.items())],
    "rejects": [[code, text] for code, text in RECORD_REASONS.items()],
}

_KINDS = {
    "table": ("Made at load", "Tables computed from the other tables at each load."),
    "view": ("Views", "Query them like tables."),
    "macro": (
        "Macros",
        "Query them like tables, with arguments: `FROM cagr(3)`, `FROM group_of('BE', '0403227515')`. A company number "
        "may have dots and spaces and lack its leading zero; a threshold is a fraction from 0 to 1. A number that no "
        "company can have is an error. For a company that the warehouse does not hold, a macro returns no rows, as it "
        "does when there is nothing to report; `FROM companies` shows which companies are held.",
    ),
    "function": ("Functions", "Call them inside a query."),
}


def make_dictionary() -> str:
    """Write the dictionary: diagrams, then tables, views, macros, functions and checks with their columns."""
    made = sorted(definitions(), key=lambda definition: definition.name)
    with duckdb.connect() as connection:
        create_tables(connection)
        create_views(connection)
        described = describe_columns(connection, [one for one in made if one.kind in ("table", "view", "macro")])
        parts = [_HEAD, "## How the tables are related", _mermaid("erDiagram", _relations())]
        parts += ["## What each view is made from", _mermaid("flowchart LR", _sources(made))]
        parts += ["## Tables", *(part for table in WAREHOUSE_TABLES.values() for part in _describe_table(table))]
        for kind, (title, text) in _KINDS.items():
            parts += [f"## {title}", text]
            parts += [part for one in made if one.kind == kind for part in _describe(one, described.get(one.name, {}))]
    parts += [
        part for one in MACROS if one.kind == "MACRO" for part in _describe_call(one.name, one.parameter, one.meaning)
    ]
    past = [[f"{one.name}({one.parameter})", one.meaning] for one in MACROS if one.kind == "MACRO TABLE"]
    parts += ["## The past", "Macros that return what was known at a time.", _table(["macro", "returns"], past)]
    checks = [[one.name, one.parameters, one.meaning] for one in made if one.kind == "check"]
    parts += [
        "## Checks",
        "The view `findings` has one row for each problem that one of these checks finds.",
        _table(["check", "severity", "finds"], checks),
        "## Reason codes",
        "`reason_code` of the tables `dead_letters` and `rejects`. The sentence in `reason` names the facts in braces. "
        "Codes may be added; a decision that landed with an earlier version has an empty code.",
        *(part for table, codes in _REASONS.items() for part in (f"### {table}", _table(["code", "meaning"], codes))),
    ]
    return "\n\n".join(parts) + "\n"


def _relations() -> Iterator[str]:
    """Draw each table below those whose key is part of its own, the nearest ones only."""
    for table in TABLES.values():
        key = set(table.key) | ({"run_id"} if table.name == "loads" else set())
        above = [TABLES[name] for name in _PARENTS if name != table.name and set(TABLES[name].key) <= key]
        nearest = [one for one in above if not any(set(one.key) < set(other.key) for other in above)]
        for one in nearest:
            yield f'{one.name} ||--o{{ {table.name} : "{", ".join(one.key)}"'
    for table in TABLES.values():
        yield f"{table.name} {{"
        for column in table.columns:
            if column.name in table.key:
                yield f"    {duckdb_type(column).partition('(')[0]} {column.name} PK"
        yield "}"


def _sources(made: list[Definition]) -> Iterator[str]:
    functions = {one.name for one in made if one.kind == "function"}
    for one in made:
        for source in one.reads:
            if one.kind not in ("check", "function") and one.name != "findings" and source not in functions:
                yield f"{source} --> {one.name}"


def _describe_table(table: Table) -> Iterator[str]:
    yield f"### {table.name}"
    yield comment_of(table.meaning, table.key)
    rows = [[column.name, duckdb_type(column), column.privacy, column.comment] for column in table.columns]
    yield _table(["column", "type", "privacy", "meaning"], rows)


def _describe(one: Definition, columns: dict[str, tuple[str, str]]) -> Iterator[str]:
    if one.kind in ("function", "macro"):
        yield from _describe_call(one.name, one.parameters, one.meaning)
    else:
        yield from (f"### {one.name}", one.meaning)
    if columns:
        yield _table(["column", "type", "meaning"], [[name, *described] for name, described in columns.items()])


def _describe_call(name: str, parameters: str, meaning: str) -> Iterator[str]:
    yield from (f"### {name}", f"`{name}({parameters})`: {meaning}")


def _mermaid(kind: str, lines: Iterator[str]) -> str:
    return "\n".join(["```mermaid", kind, *(f"    {line}" for line in lines), "```"])


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    DICTIONARY.write_text(make_dictionary(), "utf-8")
