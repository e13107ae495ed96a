"""Views, macros and checks: one SQL file each in `views/`, and what creates them in a generation.

A file begins with its kind, name and description. After an empty comment line it describes its columns:

    -- macro cagr(years := 3)
    -- example: cagr(3)
    -- Compound annual growth of each company over a number of years.
    --
    -- span_years: Years between the two periods
    SELECT ...

Kinds: `function` (a scalar macro), `table` (made at load), `view`, `macro` (a table macro; `example` is a call of it)
and `check` (a query for rows of `findings`, with a severity instead of parameters). In a `table` whose first line ends
in `, company` or `, pair`, each row follows from the rows about one company or two, and from the day of the last
answer. A load makes again only the rows of companies about which something changed. A column without a description
takes the description of the column with the same name in the relations that the file reads; if these differ, the file
must describe the column. A column can be null only if its description says what null means.

DuckDB substitutes a macro's arguments into its text, so a column could capture the name of a parameter. Use each
parameter only in a SELECT without FROM (`asked`), or as the argument of a macro. Put that into a WITH of its own or
first in a FROM; prefer FROM, because DuckDB 1.4.0 cannot read WITH in a macro.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from graphlib import TopologicalSorter
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import duckdb

from firmlake.core.sql import quote_name, quote_text
from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES, Table, duckdb_type
from firmlake.warehouse.generations import free_memory
from firmlake.warehouse.lists import comment_list_views, create_list_views
from firmlake.warehouse.versions import as_of_columns, run_of

SEVERITIES = ("error", "warning", "note")
"""The severities of findings, most serious first: the figures cannot be right, are unlikely, need a second look."""

MARK = "views_hash"
"""A macro that returns the hash of the definitions from which views and macros were made, and what the derived tables
reflect. A generation starts as a copy of the previous one, and making them again would take longer than loading a few
thousand companies."""

MARK_MEANING = (
    "Hash of the definitions from which firmlake made this database, which it makes again when they differ; the number "
    "of the last load and the day of the last answer that its derived tables reflect."
)

_FOLDER = Path(__file__).with_name("views")

_EACH = "each check"
"""Stands for all checks in the SQL of the two views over them."""

_CREATE = {
    "function": "CREATE OR REPLACE MACRO {0.name}({0.parameters}) AS",
    "table": "CREATE OR REPLACE TABLE {0.name} AS",
    "view": "CREATE OR REPLACE VIEW {0.name} AS",
    "macro": "CREATE OR REPLACE MACRO {0.name}({0.parameters}) AS TABLE",
}

_FILL = "INSERT INTO {0.name} BY NAME"

_COMMENT = {
    "function": "COMMENT ON MACRO {} IS {}",
    "table": "COMMENT ON TABLE {} IS {}",
    "view": "COMMENT ON VIEW {} IS {}",
    "macro": "COMMENT ON MACRO TABLE {} IS {}",
}

_RELATIONS = ("table", "view", "macro")


class Definition(NamedTuple):
    """One file."""

    kind: str  # function, table, view, macro or check
    name: str
    parameters: str  # of a function or macro; severity of a check; what a row of a table is about: company, pair, or ""
    example: str  # a call of a macro; the name of any other relation
    meaning: str
    columns: dict[str, str]  # the meanings of the columns that the file describes
    sql: str
    reads: tuple[str, ...]  # the tables and definitions that the file reads, in the order of their first use


@cache
def definitions() -> tuple[Definition, ...]:
    """Read all files, ordered so that each definition comes after those that it reads."""
    heads = [_read(path.read_text("utf-8")) for path in sorted(_FOLDER.rglob("*.sql"))]
    checks = [head for head in heads if head.kind == "check"]
    heads = [_gather_checks(head, checks) if _EACH in head.sql else head for head in heads]
    heads += [_as_of(table) for table in TABLES.values() if table.volatile is not None]
    known = {head.name for head in heads if head.kind != "check"} | set(WAREHOUSE_TABLES)
    found = {head.name: head._replace(reads=tuple(_named(head.sql, known - {head.name}))) for head in heads}
    order = TopologicalSorter({name: [other for other in head.reads if other in found] for name, head in found.items()})
    return tuple(found[name] for name in order.static_order())


def is_of_companies(definition: Definition) -> bool:
    """Return whether a view has one row for each company, according to the first words of its description."""
    return definition.kind in ("view", "table") and bool(_OF_COMPANIES.match(definition.meaning))


def create_views(connection: duckdb.DuckDBPyConnection, *, only_lists: bool = False) -> None:
    """Create derived tables and the views of lists again, and other views and macros unless they are up to date.

    The tables that they read must exist. With `only_lists`, nothing about companies was loaded, so that derived tables
    need not change.
    """
    mark = _read_mark(connection)
    made = [one for one in definitions() if one.kind in _CREATE and (not mark or one.name == "list_or_table")]
    if not mark:
        _drop_other_kinds(connection)
        connection.execute("DROP SCHEMA IF EXISTS lists CASCADE; CREATE SCHEMA lists")
        for definition in made:
            create_view(connection, definition)
    elif not only_lists:
        _renew(connection, mark)
    lists = create_list_views(connection)
    connection.execute(";".join(_comments(connection, made)) or "SELECT 1")
    comment_list_views(connection, lists)
    if not only_lists or not mark:
        _write_mark(connection)


def outdate_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Let `create_views` make every view and macro again, because the tables that they read have changed."""
    connection.execute(f"DROP MACRO IF EXISTS {MARK}")


def create_view(connection: duckdb.DuckDBPyConnection, definition: Definition, how: str = "") -> None:
    """Create or replace a view, macro or derived table, or fill an empty table. What it reads must exist."""
    start = (how or _CREATE[definition.kind]).format(definition)
    call = _CALL.fullmatch(definition.sql)
    if definition.kind == "table" and call:
        _run_in_steps(connection, start, next(each for each in definitions() if each.name == call[1]))
    else:
        connection.execute(f"{start} {definition.sql}")


def derive_aside(connection: duckdb.DuckDBPyConnection, about: str, sources: Mapping[str, str]) -> list[str]:
    """Carry out the definitions of derived tables in the temporary schema, over other rows than those of the tables.

    Return the names of the tables. Nothing in the generation changes. A row of the tables is about a company or a pair.
    The sources are, by name, queries for temporary tables that hide the tables of these names, also from views, since
    these look up names when they are used.
    """
    found = {one.name: one.sql for one in definitions() if one.kind == "table" and one.parameters == about}
    for name, query in (*sources.items(), *found.items()):
        connection.execute(f"CREATE TEMP TABLE {name} AS {query}")
    return list(found)


def describe_columns(
    connection: duckdb.DuckDBPyConnection, wanted: Iterable[Definition | Table]
) -> dict[str, dict[str, tuple[str, str]]]:
    """Return type and meaning of the columns of existing tables, views and macros, by name of the relation.

    The meaning comes from the file of the relation, or else from the relations that it reads; it is empty if unknown.
    """
    made = {definition.name: definition for definition in definitions()}
    types: defaultdict[str, dict[str, str]] = defaultdict(dict)  # from the catalogue; DESCRIBE plans each view again
    for name, column, kind in connection.execute(_TYPES).fetchall():
        types[name][column] = kind
    found = {
        name: {column.name: (duckdb_type(column), column.comment_in_view) for column in table.columns}
        for name, table in WAREHOUSE_TABLES.items()
    }

    def describe(name: str) -> dict[str, tuple[str, str]]:
        if name not in found:
            one = made[name]
            read = [describe(other) for other in one.reads if other not in made or made[other].kind in _RELATIONS]
            if one.kind == "macro":
                rows = connection.execute(f"DESCRIBE SELECT * FROM {one.example}").fetchall()  # noqa: S608 - our own
                types[name] = {column: kind for column, kind, *_ in rows}
            found[name] = {
                column: (kind, one.columns.get(column) or next((r[column][1] for r in read if column in r), ""))
                for column, kind in types[name].items()
            }
        return found[name]

    return {each.name: describe(each.name) for each in wanted}


_TYPES = """
    SELECT table_name, column_name, data_type FROM duckdb_columns()
    WHERE database_name = current_database() AND schema_name = 'main' ORDER BY table_name, column_index
"""

_FIRST = re.compile(r"-- (\w+) (\w+)(?:\((.*)\)|, (\w+))?")

_AFTER_COMMA = {"check": SEVERITIES, "table": ("", "company", "pair")}

_COLUMN = re.compile(r"(\w+): (.*)")

_OF_COMPANIES = re.compile(r"One row per company\b(?! (?:and|or|that joined)\b)")


def _read(text: str) -> Definition:
    lines = text.splitlines()
    count = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    first = _FIRST.fullmatch(lines[0])
    assert first, lines[0]
    kind, name, parameters, severity = first.groups(default="")
    assert severity in _AFTER_COMMA.get(kind, ("",)), f"{name}.sql: {severity!r} may not follow its name"
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


def _gather_checks(head: Definition, checks: Sequence[Definition]) -> Definition:
    """Write all checks into one of the two views over them."""
    if head.name == "findings":
        return head._replace(sql=head.sql.replace(_EACH, " UNION ALL ".join(map(_as_findings, checks))))
    rows = (f"({quote_text(c.name)}, {quote_text(c.parameters)}, {quote_text(c.meaning)})" for c in checks)
    return head._replace(sql=head.sql.replace(_EACH, ", ".join(rows)))


def _as_of(table: Table) -> Definition:
    """Define the macro that returns the rows of a table with history at a moment."""
    left_out = f" Without {', '.join(table.volatile)}, because earlier values are not kept." if table.volatile else ""
    sql = f"""
        SELECT {", ".join(as_of_columns(table))}, {run_of("valid_from")} AS valid_from_run
        FROM (SELECT count(*) AS newest FROM (SELECT generation_at(moment) AS last) JOIN loads ON generation <= last)
        JOIN {table.name}_versions ON valid_from <= newest AND coalesce(valid_to > newest, true)
    """  # noqa: S608 - our own names
    name = f"{table.name}_as_of"
    meaning = f"The rows of {table.name} that the warehouse held at a moment, as in generation_at.{left_out}"
    shown = [column for column in WAREHOUSE_TABLES[table.name].columns if column.name not in (table.volatile or ())]
    columns = {column.name: column.comment_in_view for column in shown}
    return Definition("macro", name, "moment", f"{name}(TIMESTAMP '2026-01-31')", meaning, columns, sql, ())


def _as_findings(check: Definition) -> str:
    return (
        f"SELECT '{check.name}' AS check_name, '{check.parameters}' AS severity, country, company_number, "  # noqa: S608
        f"start_date, end_date, to_json(evidence) AS evidence FROM ({check.sql})"
    )


def _named(sql: str, known: set[str]) -> Iterator[str]:
    """List the known names that a query uses, in order; the versions of a table count as the table."""
    code = re.sub(r"--.*|'[^']*'", "", sql)
    words = dict.fromkeys(word.removesuffix("_versions") for word in re.findall(r"\w+", code))
    return (word for word in words if word in known)


_CALL = re.compile(r"FROM (\w+)\(\)")
"""All rows of a macro."""


def _comments(connection: duckdb.DuckDBPyConnection, made: list[Definition]) -> Iterator[str]:
    for definition in made:
        yield _COMMENT[definition.kind].format(definition.name, quote_text(definition.meaning))
    columned = [one for one in made if one.kind in ("table", "view")]
    for name, columns in describe_columns(connection, columned).items() if columned else ():
        for column, (_, meaning) in columns.items():
            yield f'COMMENT ON COLUMN {name}."{column}" IS {quote_text(meaning)}'


def _run_in_steps(connection: duckdb.DuckDBPyConnection, start: str, macro: Definition) -> None:
    """Run a statement that begins so and takes the rows of a macro, which is called without arguments.

    Each query of the macro's WITH becomes a temporary table, because DuckDB keeps the results of recursive queries and
    aggregates in memory until the statement ends, and cannot spill all of them. For a million companies with an owner
    each, `group_branches` needs more than 150 MB as one statement, and 60 MB in steps.

    The SQL must be laid out as in `views/`: each query of its WITH, and the rest, begins and ends on a line of its own.
    Temporary tables with the names of its queries are replaced, and dropped at the end.
    """
    parameters = dict(_PARAMETER.findall(macro.parameters))
    made = []
    for name, columns, query in _STEP.findall(macro.sql):
        asked = _WORD.sub(lambda word: parameters.get(word[0], word[0]), query) if name == "asked" else query
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {name} AS WITH RECURSIVE {name}{columns} AS ({asked}) FROM {name}"
        )
        made.append(name)
    connection.execute(f"{start} {_STEP.sub('', macro.sql)}")
    for name in made:
        connection.execute(f"DROP TABLE temp.{name}")


class _Mark(NamedTuple):
    """What the derived tables of a generation reflect: the loads up to a number, and the day of the last answer."""

    number: int
    day: str


_SOURCES = ("companies", "company_state")
"""Tables with a new version of the row of each company whose answers, status, name or place changed."""

_OF_COMPANY = "(country, company_number) IN (FROM touched)"


def _names(other: str) -> str:
    """Return the condition that a row names a touched company. With nulls, IN would take ten times as long."""
    return f"EXISTS (FROM touched t WHERE t.country = {other}_country AND t.company_number = {other}_company_number)"


_PARTS = {
    "company": (
        _OF_COMPANY,
        {
            name: f"FROM {name} WHERE {_OF_COMPANY}"
            for name in ("companies", "financials", "financial_joint_committees")
        },
    ),
    "pair": (
        f"({_names('parent')} OR {_names('child')})",
        {"relationships": f"FROM relationships WHERE {_OF_COMPANY} OR {_names('related')}"},
    ),
}
"""By what a row of a derived table is about: which of its rows are touched, and the rows from which these follow."""


def _renew(connection: duckdb.DuckDBPyConnection, mark: _Mark) -> None:
    """Make the rows of derived tables again that are about companies touched by the loads since, or all rows.

    The definitions are carried out over what is known about these companies, unless too many are touched. The tables
    themselves stay, because describing their columns again takes as long as filling them with a few rows.
    """
    changed = " UNION ".join(_CHANGED.format(source, mark.number) for source in _SOURCES)
    connection.execute(_TOUCHED.format(changed=changed, day=quote_text(mark.day)))
    ((count, is_small),) = connection.execute(_HOW_MANY).fetchall()
    for about in _PARTS if count and is_small else ():
        _renew_part(connection, about)
        free_memory(connection)  # temporary tables that were dropped take memory until the commit
    connection.execute("DROP TABLE temp.touched")
    for one in definitions() if count else ():
        if one.kind == "table" and not (is_small and one.parameters):
            connection.execute(f"DELETE FROM {one.name}")  # noqa: S608 - our own name
            create_view(connection, one, _FILL)


_TOUCHED = """
    CREATE OR REPLACE TEMP TABLE touched AS
    {changed} UNION SELECT country, company_number FROM financials WHERE end_date > {day}::DATE
"""
_CHANGED = "SELECT country, company_number FROM {}_versions WHERE valid_from > {}"
# If more companies are touched, making the tables again is cheaper.
_HOW_MANY = "SELECT count(*), count(*) <= 0.25 * (SELECT count(*) FROM companies) FROM touched"


def _renew_part(connection: duckdb.DuckDBPyConnection, about: str) -> None:
    """Make the touched rows again of the tables about a company, or of those about a pair."""
    condition, sources = _PARTS[about]
    generation = quote_name(connection.execute("SELECT current_database()").fetchall()[0][0])
    tables = derive_aside(connection, about, sources)
    for name in tables:
        whole = f"{generation}.{name}"
        connection.execute(f"DELETE FROM {whole} WHERE {condition}")  # noqa: S608 - our own names
        connection.execute(f"INSERT INTO {whole} BY NAME FROM temp.{name} WHERE {condition}")
    for name in (*sources, *tables):
        connection.execute(f"DROP TABLE temp.{name}")


def _drop_other_kinds(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop the views that are tables in these definitions, and tables that are views: neither replaces the other."""
    kinds = {"table": "BASE TABLE", "view": "VIEW"}
    wanted = {one.name: kinds[one.kind] for one in definitions() if one.kind in kinds}
    found = connection.execute(
        "SELECT table_name, table_type FROM information_schema.tables "
        "WHERE table_catalog = current_database() AND table_schema = 'main'"
    ).fetchall()
    for name, kind in found:
        if wanted.get(name, kind) != kind:
            connection.execute(f"DROP {kind.removeprefix('BASE ')} {name}")


def _read_mark(connection: duckdb.DuckDBPyConnection) -> _Mark | None:
    """Return the mark of the last commit; none if its views are of other definitions or another version of DuckDB."""
    with connection.cursor() as apart:  # an unknown name aborts the transaction that uses it
        try:
            ((found,),) = apart.execute(f"SELECT {MARK}()").fetchall()
        except duckdb.CatalogException:
            return None
    made, number, day = [*str(found).split(), "", ""][:3]
    return _Mark(int(number), day) if made == _hash() else None


def _write_mark(connection: duckdb.DuckDBPyConnection) -> None:
    newest = (f"SELECT max(valid_from) AS number FROM {name}_versions" for name in _SOURCES)  # noqa: S608 - our own names
    reflected = f"SELECT coalesce(max(number), 0), last_answer_day() FROM ({' UNION ALL '.join(newest)})"  # noqa: S608
    number, day = connection.execute(reflected).fetchall()[0]
    connection.execute(f"CREATE OR REPLACE MACRO {MARK}() AS '{_hash()} {number} {day or '0001-01-01'}'")
    connection.execute(f"COMMENT ON MACRO {MARK} IS {quote_text(MARK_MEANING)}")


def _hash() -> str:
    return sha256(repr((duckdb.__version__, WAREHOUSE_TABLES, definitions())).encode()).hexdigest()


_PARAMETER = re.compile(r"(\w+) := ([^,]+)")

_WORD = re.compile(r"\w+")

# Name, columns with key, and text of each query of a WITH.
_STEP = re.compile(
    r"^(?:WITH (?:RECURSIVE )?)?(\w+)((?:\([\w, ]+\))?(?: USING KEY \([\w, ]+\))?)"
    r" AS (?:MATERIALIZED )?\(\n(.*?)^\),?\n",
    re.DOTALL | re.MULTILINE,
)
