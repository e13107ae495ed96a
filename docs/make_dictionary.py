"""Make data_dictionary.md from the tables' schema and the files of the views.

python docs/make_dictionary.py
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

import duckdb

from firmlake.core.errors import COMPANY_REASONS, ERROR_REASONS, RECORD_REASONS
from firmlake.tables.schemas import PRIVACY, TABLES, WAREHOUSE_TABLES, Table, comment_of, duckdb_type, history_of
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.views import Definition, create_views, definitions, describe_columns

DICTIONARY = Path(__file__).with_name("data_dictionary.md")

_HEAD = """# Data dictionary

Every table, view and macro of the warehouse, with its columns. The database has the same descriptions:
`FROM duckdb_columns()`, `FROM duckdb_functions()`; `duckdb_views()` has the SQL of each view. The
[cookbook](cookbook.md) has questions with SQL and answers.

Each meaning is said once. Columns that several tables or views share stand under [Shared columns](#shared-columns);
below a table or view, lines name the columns that mean the same there or in another one, and those with a meaning of
their own follow. "From financials data[].startDate" names the field of the service's answer that a value comes from;
such a column is null where the service states no usable value; any other column only where its description says what
null means. Amounts are in the currency of the accounts, which is not stated; times are in UTC; growth and shares are
fractions: 0.1 is 10 %.
A word after the type marks personal data ([Privacy](privacy.md)): company: if the company is a sole trader; person: may
name a natural person; contact: identifies one; text: may, because the text comes from outside firmlake. A *held*
company, answer or period is one that the warehouse has. [The glossary](glossary.md) explains further terms.

This page is made by `python docs/make_dictionary.py` from `src/firmlake/tables/schemas.toml` and
`src/firmlake/warehouse/views`."""

_PARENTS = ("companies", "financials", "company_state", "runs")
"""Tables that have a row for whatever another table's row names."""

_REASONS = {
    "dead_letters": COMPANY_REASONS | ERROR_REASONS,
    "rejects": RECORD_REASONS,
}

_KINDS = {
    "table": (
        "Made at load",
        "Tables computed from the other tables at each load, because growth, ranks, owners and groups need these rows "
        "of all companies.",
    ),
    "view": ("Views", "Query them like tables."),
    "macro": (
        "Macros",
        "Query them like tables, with arguments: `FROM cagr(3)`, `FROM group_of('BE', '0403227515')`. A company number "
        "may have dots and spaces and lack its leading zero; a threshold is a fraction from 0 to 1. A number that no "
        "company can have is an error. For a company that is not held (see companies), a macro returns no rows, as "
        "when there is nothing to report.",
    ),
    "function": ("Functions", "Call them inside a query."),
}


_Column = tuple[str, str]
"""Type and, if the column holds personal data, its class; and the meaning."""


class _Relation(NamedTuple):
    """A table, view or macro as the page describes it.

    Attributes:
        parts: Heading and description.
        columns: Each column's type, with its privacy class, and its meaning.
        reads: The relations that it is made from.
    """

    name: str
    parts: tuple[str, ...]
    columns: dict[str, _Column]
    reads: tuple[str, ...] = ()


def make_dictionary() -> str:
    """Write the dictionary: a diagram, then tables, views, macros, functions and checks with their columns."""
    past = {f"{name}_as_of" for name in TABLES}
    made = sorted((one for one in definitions() if one.name not in past), key=lambda definition: definition.name)
    with duckdb.connect() as connection:
        create_tables(connection)
        create_views(connection)
        described = describe_columns(connection, [one for one in made if one.kind in ("table", "view", "macro")])
    sections = {"Tables": [_of_table(WAREHOUSE_TABLES[name]) for name in TABLES]} | {
        title: [_of_definition(one, described.get(one.name, {})) for one in made if one.kind == kind]
        for kind, (title, _) in _KINDS.items()
    }
    relations = {one.name: one for section in sections.values() for one in section}
    page = _Page(relations, _find_shared(one.columns for one in relations.values()), {})
    related = "\n".join(["```mermaid", "erDiagram", *(f"    {line}" for line in _relations()), "```"])
    parts = [_HEAD, "## How the tables are related", related]
    parts += ["## Shared columns", "\n".join(starmap(_bullet, page.shared.items()))]
    parts += ["## Tables", *_describe_all(sections["Tables"], page), "### History", *_describe_history()]
    for title, text in _KINDS.values():
        parts += [f"## {title}", text, *_describe_all(sections[title], page)]
    checks = [f"- `{one.name}` ({one.parameters}): {one.meaning}" for one in made if one.kind == "check"]
    parts += [
        "## The past",
        *_describe_past(),
        "## Checks",
        "The view `findings` has one row for each problem that one of these checks finds.",
        "\n".join(checks),
        "## Reason codes",
        "`reason_code` of the tables `dead_letters` and `rejects`. The sentence in `reason` names the facts in braces. "
        "Codes may be added; a decision that landed with an earlier version has an empty code.",
        *(part for table, codes in _REASONS.items() for part in (f"### {table}", _list_codes(codes))),
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


def _of_table(table: Table) -> _Relation:
    columns = {column.name: _column(duckdb_type(column), column.comment) for column in table.columns}
    return _Relation(table.name, (f"### {table.name}", comment_of(table.meaning, table.key)), columns)


def _of_definition(one: Definition, columns: dict[str, tuple[str, str]]) -> _Relation:
    is_called = one.kind in ("function", "macro")
    parts = _call(one.name, one.parameters, one.meaning) if is_called else (f"### {one.name}", one.meaning)
    return _Relation(one.name, parts, {name: _column(*column) for name, column in columns.items()}, one.reads)


def _column(kind: str, meaning: str) -> _Column:
    """Leave out what the head of the page says of all columns; a word after the type stands for personal data."""
    for phrase in _SAID_ABOVE:
        meaning = meaning.replace(phrase, "")
    for word, sentence in PRIVACY.items():
        if sentence and sentence in meaning:
            return f"{kind} {word}", meaning.replace(f" {sentence}.", "")
    return kind, meaning


_SAID_ABOVE = (
    " Never null.",
    " In the currency of the accounts, which is not stated.",
    " Null: the service states no usable value.",
    ", 0.1 is 10 %",
    ", UTC",
)
"""What the head of the page says of all columns."""


class _Page(NamedTuple):
    """What is known while the page is written.

    Attributes:
        shared: The meaning of a column that most relations share.
        said: The relation that has described a column already, by the column's name, type and meaning.
    """

    relations: dict[str, _Relation]
    shared: dict[str, _Column]
    said: dict[tuple[str, _Column], str]


def _find_shared(relations: Iterable[dict[str, _Column]]) -> dict[str, _Column]:
    """Return for each column name the meaning that most relations share, if at least two do."""
    counts: dict[str, Counter[_Column]] = defaultdict(Counter)
    for columns in relations:
        for name, column in columns.items():
            counts[name][column] += 1
    most = {name: counter.most_common(1)[0] for name, counter in counts.items()}
    return {name: column for name, (column, count) in sorted(most.items()) if count > 1}


def _describe_all(relations: list[_Relation], page: _Page) -> Iterator[str]:
    for one in relations:
        yield from one.parts
        yield from _describe_columns(one, page)


def _describe_columns(one: _Relation, page: _Page) -> Iterator[str]:
    """Refer to a relation that this one repeats and to what is said elsewhere; then describe the other columns."""
    base = _find_base(one, page.relations)
    left = dict(one.columns)
    referred: dict[str, list[str]] = {}
    if base:
        missing = [name for name, column in base.columns.items() if one.columns.get(name) != column]
        left = {name: column for name, column in left.items() if base.columns.get(name) != column}
        yield f"All columns of `{base.name}`{' except ' * bool(missing)}{', '.join(missing)}."
    for name, column in list(left.items()):
        place = "shared" if page.shared.get(name) == column else page.said.setdefault((name, column), one.name)
        if place != one.name:
            referred.setdefault(place, []).append(name)
            del left[name]
    if referred:
        yield " ".join(
            f"As {place if place == 'shared' else f'in `{place}`'}: {', '.join(names)}."
            for place, names in referred.items()
        )
    if left:
        yield _list_columns(left)


def _find_base(one: _Relation, relations: dict[str, _Relation]) -> _Relation | None:
    """Return the relation that this one reads and repeats, except for a few columns."""
    read = [relations[name] for name in one.reads if name in relations]
    same = {each.name: sum(one.columns.get(name) == column for name, column in each.columns.items()) for each in read}
    repeated = [each for each in read if same[each.name] >= max(7, len(each.columns) - 3)]
    return max(repeated, key=lambda each: same[each.name], default=None)


def _list_columns(columns: dict[str, _Column]) -> str:
    """Describe columns; what null means in several of them is said in lines of its own."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, (_, meaning) in columns.items():
        reason = meaning.partition(" Null: ")[2]
        if reason == "as above.":
            reason = next(said for said in reversed(reasons) if said)
        first = next((said for said, names in reasons.items() if reason == f"as in {names[0]}."), reason)
        reasons[first].append(name)
    several = {name for reason, names in reasons.items() if reason and len(names) > 1 for name in names}
    lines = [
        _bullet(name, (kind, meaning.partition(" Null: ")[0] if name in several else meaning))
        for name, (kind, meaning) in columns.items()
    ]
    lines += [
        f"- Null in {', '.join(names)}: {reason}" for reason, names in reasons.items() if reason and len(names) > 1
    ]
    return "\n".join(lines)


def _bullet(name: str, column: _Column) -> str:
    return f"- `{name}` {column[0]}: {column[1]}"


def _describe_history() -> Iterator[str]:
    kept = [table for table in TABLES.values() if table.volatile is not None]
    added = history_of(kept[0])[1].columns[-1]
    yield (
        f"`X_history` holds earlier rows of table X, each in its last state, with the columns of X and `{added.name}` "
        f"{duckdb_type(added)}: {added.meaning}. These tables have one: {', '.join(table.name for table in kept)}."
    )


def _describe_past() -> Iterator[str]:
    yield (
        "`X_as_of(moment)` has the rows of X held at a moment (see `generation_at`), `runs_as_of(moment)` the runs. "
        "Columns whose earlier values are not kept are left out:"
    )
    yield "\n".join(f"- `{table.name}`: {', '.join(table.volatile)}" for table in TABLES.values() if table.volatile)


def _call(name: str, parameters: str, meaning: str) -> tuple[str, ...]:
    return f"### {name}", f"`{name}({parameters})`: {meaning}"


def _list_codes(codes: Mapping[str, str]) -> str:
    return "\n".join(f"- `{code}`: {text}" for code, text in codes.items())


if __name__ == "__main__":
    DICTIONARY.write_text(make_dictionary(), "utf-8")
