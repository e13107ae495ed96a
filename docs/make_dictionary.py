"""Make data_dictionary.md from the tables' schema and the files of the views.

python docs/make_dictionary.py
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb

from firmlake.core.reasons import COMPANY_REASONS, ERROR_REASONS, RECORD_REASONS
from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES, Table, comment_of, duckdb_type
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.versions import MACROS, MOMENT
from firmlake.warehouse.views import Definition, create_views, definitions, describe_columns

DICTIONARY = Path(__file__).with_name("data_dictionary.md")

_HEAD = """# Data dictionary

Every table, view and macro of the warehouse, with its columns. The database has the same descriptions:
`FROM duckdb_columns()`, `FROM duckdb_functions()`. The [cookbook](cookbook.md) has questions with SQL and answers.

Each meaning is said once. Columns that several tables or views share stand under [Shared columns](#shared-columns);
below a table or view, a line lists all columns that mean the same there, and those with a meaning of their own follow.
`X_history` holds earlier rows of table X, with its columns and those listed. "From financials data[].startDate" names
the field of the service's answer that a value comes from; such a column is null where the service states no usable
value. Amounts are in the currency of the accounts, which is not stated. Any other column is null only where its
description says what null means.
[Privacy](privacy.md) explains the word after the type: company, person, contact, text or none. A *held* company,
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
        tables = [table for name, table in WAREHOUSE_TABLES.items() if not name.endswith("_history")]
        views = [{name: (kind, _shorten(text)) for name, (kind, text) in each.items()} for each in described.values()]
        shared = _find_shared([*(_columns_of_table(table) for table in tables), *views])
        privacy = {column.name: column.privacy for table in tables for column in table.columns}
        parts = [_HEAD, "## How the tables are related", _mermaid("erDiagram", _relations())]
        parts += ["## What each view is made from", _mermaid("flowchart LR", _sources(made))]
        parts += ["## Shared columns", _describe_shared(shared, privacy)]
        parts += ["## Tables", *(part for each in WAREHOUSE_TABLES.values() for part in _describe_table(each, shared))]
        for kind, (title, text) in _KINDS.items():
            parts += [f"## {title}", text]
            parts += [
                part for one in made if one.kind == kind for part in _describe(one, described.get(one.name, {}), shared)
            ]
    parts += [
        part for one in MACROS if one.kind == "MACRO" for part in _describe_call(one.name, one.parameter, one.meaning)
    ]
    past = [
        [f"{one.name}({one.parameter})", one.meaning.replace(f"; {MOMENT}", ".")]
        for one in MACROS if one.kind == "MACRO TABLE"
    ]  # fmt: skip
    parts += [
        "## The past",
        f"Macros that return what was known at a time. {MOMENT}",
        _table(["macro", "returns"], past),
    ]
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


_Column = tuple[str, str]
"""Type and, if it is one of a table, privacy class in one text; and the meaning."""


def _columns_of_table(table: Table) -> dict[str, _Column]:
    return {
        column.name: (f"{duckdb_type(column)} {column.privacy}".strip(), _shorten(column.comment))
        for column in table.columns
    }


def _shorten(meaning: str) -> str:
    """Leave out what the head of the page says of all columns."""
    for phrase in (" Never null.", " In the currency of the accounts, which is not stated.", _UNUSABLE):
        meaning = meaning.replace(phrase, "")
    return meaning


_UNUSABLE = " Null: the service states no usable value."


def _find_shared(relations: Iterable[dict[str, _Column]]) -> dict[str, _Column]:
    """Return for each column name the meaning that most relations share, if at least two do."""
    counts: dict[str, Counter[_Column]] = defaultdict(Counter)
    for columns in relations:
        for name, column in columns.items():
            counts[name][_bare(column)] += 1
    most = {name: counter.most_common(1)[0] for name, counter in counts.items()}
    return {name: column for name, (column, count) in sorted(most.items()) if count > 1}


def _bare(column: _Column) -> _Column:
    """Return a column without its privacy class, which views do not state."""
    kind, meaning = column
    return kind.partition(" ")[0], meaning


def _describe_table(table: Table, shared: dict[str, _Column]) -> Iterator[str]:
    name = table.name.removesuffix("_history")
    if name != table.name:
        own = _columns_of_table(WAREHOUSE_TABLES[name])
        added = {key: column for key, column in _columns_of_table(table).items() if key not in own}
        missing = [f"`{key}`" for key in own if key not in _columns_of_table(table)]
        yield f"### {table.name}"
        yield f"Earlier rows of `{name}`{', without ' + ', '.join(missing) if missing else ''}."
        yield _list_columns(added, {key: column for key, column in shared.items() if key not in added})
        return
    yield f"### {table.name}"
    yield comment_of(table.meaning, table.key)
    yield _list_columns(_columns_of_table(table), shared)


def _describe(one: Definition, columns: dict[str, tuple[str, str]], shared: dict[str, _Column]) -> Iterator[str]:
    if one.kind in ("function", "macro"):
        yield from _describe_call(one.name, one.parameters, one.meaning)
    else:
        yield from (f"### {one.name}", one.meaning)
    if columns:
        yield _list_columns({name: (kind, _shorten(meaning)) for name, (kind, meaning) in columns.items()}, shared)


def _list_columns(columns: dict[str, _Column], shared: dict[str, _Column]) -> str:
    """List the names of all columns, then those that are not as under the shared columns."""
    own = {name: column for name, column in columns.items() if shared.get(name) != _bare(column)}
    lines = [f"- `{name}` {kind}: {meaning}" for name, (kind, meaning) in own.items()]
    others = ", ".join(name for name in columns if name not in own)
    return "\n".join(([f"As shared: {others}.", ""] if others else []) + lines)


def _describe_shared(shared: dict[str, _Column], privacy: dict[str, str]) -> str:
    return "\n".join(
        f"- `{name}` {' '.join(filter(None, (kind, privacy.get(name))))}: {meaning}"
        for name, (kind, meaning) in shared.items()
    )


def _describe_call(name: str, parameters: str, meaning: str) -> Iterator[str]:
    yield from (f"### {name}", f"`{name}({parameters})`: {meaning}")


def _mermaid(kind: str, lines: Iterator[str]) -> str:
    return "\n".join(["```mermaid", kind, *(f"    {line}" for line in lines), "```"])


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    DICTIONARY.write_text(make_dictionary(), "utf-8")
