"""Definitions of views, macros and checks: one SQL file each in `views/`, with its description at the top.

A file begins with its kind, name and description. After an empty comment line it describes its columns:

    -- macro cagr(years := 3)
    -- example: cagr(3)
    -- Compound annual growth of each company over a number of years.
    --
    -- span_years: Years between the two periods
    SELECT ...

Kinds: `function` (a scalar macro), `table` (made at load), `view`, `macro` (a table macro; `example` is a call of it)
and `check` (a query for rows of `findings`, with a severity instead of parameters). A column without a description
takes the description of the column with the same name in the relations that the file reads; if these differ, the file
must describe the column. A column can be null only if its description says what null means.

DuckDB substitutes a macro's arguments into its text, so a column could capture the name of a parameter. Use each
parameter only in a SELECT without FROM (`asked`), or as the argument of a macro. Put that into a WITH of its own or
first in a FROM; prefer FROM, because DuckDB 1.4.0 cannot read WITH in a macro.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from firmlake.core.sql import quote_text
from firmlake.tables.schemas import WAREHOUSE_TABLES

__all__ = ["GRAVITY", "SEVERITIES", "Definition", "definitions", "is_of_companies"]

SEVERITIES = ("error", "warning", "note")
"""The severities of findings, most serious first: the figures cannot be right, are unlikely, need a second look."""

GRAVITY = f"list_position({list(SEVERITIES)}, severity)"
"""SQL that sorts findings, most serious first."""


class Definition(NamedTuple):
    """One file.

    Attributes:
        kind: function, table, view, macro or check.
        parameters: The parameters of a function or macro; the severity of a check.
        example: A call of a macro; the name of any other relation.
        columns: The meanings of the columns that the file describes.
        reads: The tables and definitions that the file reads, in the order of their first use.
    """

    kind: str
    name: str
    parameters: str
    example: str
    meaning: str
    columns: dict[str, str]
    sql: str
    reads: tuple[str, ...]


@cache
def definitions() -> tuple[Definition, ...]:
    """Read all files, ordered so that each definition comes after those that it reads."""
    heads = [_read(path.read_text("utf-8")) for path in sorted(_FOLDER.rglob("*.sql"))]
    heads += _gather_checks([head for head in heads if head.kind == "check"])
    known = {head.name for head in heads if head.kind != "check"} | set(WAREHOUSE_TABLES)
    found = {head.name: head._replace(reads=tuple(_named(head.sql, known - {head.name}))) for head in heads}
    order = TopologicalSorter({name: [other for other in head.reads if other in found] for name, head in found.items()})
    return tuple(found[name] for name in order.static_order())


def is_of_companies(definition: Definition) -> bool:
    """Return whether a view has one row for each company, according to the first words of its description."""
    return definition.kind in ("view", "table") and bool(_OF_COMPANIES.match(definition.meaning))


_FOLDER = Path(__file__).with_name("views")
_FIRST = re.compile(r"-- (\w+) (\w+)(?:\((.*)\)|, (\w+))?")
_COLUMN = re.compile(r"(\w+): (.*)")
_OF_COMPANIES = re.compile(r"One row for each company\b(?! (?:and|or|that joined)\b)")


def _read(text: str) -> Definition:
    lines = text.splitlines()
    count = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    first = _FIRST.fullmatch(lines[0])
    assert first, lines[0]
    kind, name, parameters, severity = first.groups(default="")
    assert severity in (SEVERITIES if kind == "check" else ("",)), f"{name}.sql: no severity {severity!r}"
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
    """Define two views over all checks: `findings` has their results, and `checks` explains them."""
    yield Definition(
        "view",
        "findings",
        "",
        "findings",
        "One row for each problem that a check found in the data, with its evidence. Nothing is corrected.",
        {
            "check_name": "Check that found the problem; see the view checks.",
            "country": "Country of the company: BE, NL or FR.",
            "company_number": "Company number in normal form. Personal data if the company is a sole trader.",
            "severity": "error: the figures cannot be right; warning: they are unlikely; note: worth a second look.",
            "start_date": "First day of the period with the problem. Null: the problem is not about a period.",
            "end_date": "Last day of the period with the problem. Null: the problem is not about a period.",
            "evidence": "JSON object of the values that show the problem.",
        },
        " UNION ALL ".join(_as_findings(check) for check in found),
        (),
    )
    rows = ", ".join(f"({quote_text(c.name)}, {quote_text(c.parameters)}, {quote_text(c.meaning)})" for c in found)
    yield Definition(
        "view",
        "checks",
        "",
        "checks",
        "One row for each check, with its meaning; findings has what the checks found.",
        {
            "check_name": "Name of the check.",
            "severity": "Severity of the problems that the check finds: error, warning or note.",
            "meaning": "Problem that the check finds.",
        },
        f"FROM (VALUES {rows}) AS c(check_name, severity, meaning)",
        (),
    )


def _as_findings(check: Definition) -> str:
    return (
        f"SELECT '{check.name}' AS check_name, '{check.parameters}' AS severity, country, company_number, "  # noqa: S608
        f"start_date, end_date, to_json(evidence) AS evidence FROM ({check.sql})"
    )


def _named(sql: str, known: set[str]) -> Iterator[str]:
    """List the known names that a query uses, in order."""
    code = re.sub(r"--.*|'[^']*'", "", sql)
    return (word for word in dict.fromkeys(re.findall(r"\w+", code)) if word in known)
