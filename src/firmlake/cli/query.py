"""The commands whose result is rows, for a person or in a format for programs: `query`, `changes` and `alerts`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import click

from firmlake.cli.call import Call, command
from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.core.process import greater_limit
from firmlake.core.settings import RunSettings
from firmlake.core.sql import read_rows
from firmlake.core.text import count_of
from firmlake.terminal.echo import echo_data
from firmlake.terminal.results import BINARY_FORMATS, FORMATS, alerts_parts, show_result, write_binary, write_text
from firmlake.terminal.rows import show

if TYPE_CHECKING:
    import duckdb

    from firmlake.report.sections import Section

_SECTION = re.compile(r"(report|company)/\w*")
_MEMORY = "400MB"
"""DuckDB can sort ten million events on disk within this memory limit; with less, two million were too many."""


class Output(NamedTuple):
    """How the rows of a result are written."""

    call: Call
    kind: str  # "table" or a format
    path: Path | None  # None prints the rows

    def give(
        self, noun: str, cursor: duckdb.DuckDBPyConnection, print_rows: Callable[[Sequence[str], Iterable[Any]], object]
    ) -> None:
        """Write the result of a query to the file, or print it; `noun` is a row in the singular.

        Rows are read when they are needed. `print_rows` prints columns and rows as a table.
        """
        columns, rows = [column[0] for column in cursor.description or ()], read_rows(cursor)
        if self.kind not in FORMATS:
            print_rows(columns, rows)
        elif self.path:
            self.tell(noun, write_text(self.path, self.kind, columns, rows))
        else:
            for part in FORMATS[self.kind](columns, rows):
                echo_data(part)

    def tell(self, noun: str, count: int) -> None:
        """Say how many rows the file has."""
        self.call.tell({f"{noun}s": count, "file": str(self.path)}, [f"{count_of(count, noun)} in {self.path}"])


def text_output(
    call: Call, *, kind: Literal["table", "csv", "json", "markdown"] | None = None, out: Path | None = None
) -> Output:
    """Choose how rows are written as text.

    Args:
        kind (--format): Output format. Default: by the ending of --out, else table.
        out (FILE): Write to a file instead of stdout.
    """
    return _choose(call, kind, out, FORMATS)


def output(
    call: Call,
    *,
    kind: Literal["table", "csv", "json", "markdown", "parquet", "xlsx"] | None = None,
    out: Path | None = None,
) -> Output:
    """Choose how rows are written.

    Args:
        kind (--format): Output format. Default: by the ending of --out, else table.
        out (FILE): Write to a file instead of stdout.
    """
    chosen = _choose(call, kind, out, (*FORMATS, *BINARY_FORMATS))
    if chosen.kind in BINARY_FORMATS and not out:
        raise UsageError(f"{chosen.kind} is binary and cannot be printed", "Add --out FILE")
    return chosen


def _choose(call: Call, kind: str | None, out: Path | None, formats: Collection[str]) -> Output:
    """Choose the format by `--format`, the ending of `--out` and `--json`, in this order."""
    ending = out.suffix.removeprefix(".") if out else ""
    ending = {"md": "markdown"}.get(ending, ending)
    chosen = kind or (ending if out else "json" if call.as_json else "table")
    if out and chosen not in formats:
        raise UsageError(f"--out {out}: unknown file extension", f"Add --format with one of {', '.join(formats)}")
    return Output(call, chosen, out)


@command
def query(
    call: Call,
    sql: str,
    *,
    output: Annotated[Output, output],
    company_list: str = "",
    held: bool = False,
    allow_files: bool = False,
) -> None:
    """Query the newest generation of the warehouse with DuckDB SQL, read-only.

    Without --allow-files, SQL can reach nothing but the warehouse: a query that you got from somebody else can neither
    read nor write a file.

    --out FILE writes .csv, .json, .parquet, .xlsx or .md, whole or not at all. A workbook has the number formats of the
    columns, and text that a spreadsheet would run as a formula stays text.

    Instead of SQL, name a section of the report, such as report/grew_most, or of a company's page, such as
    "company/owners BE 0403227515". `firmlake query report/` lists them.

    Args:
        company_list (--list NAME): Only the companies of this list; percentiles, ranks and totals count no others.
            Ownership and groups name all owners and members.
        held: Query the generation that a gate holds back.
        allow_files: Let SQL read and write files, and load extensions.
    """
    settings, folders = call.on_folder()
    from firmlake.report.sections import find_section
    from firmlake.warehouse.generations import asking, find_held

    if held and not find_held(folders):
        raise UsageError("No generation is held back", "Query the published one without --held")
    name, _, company = sql.strip().partition(" ")
    section = find_section(name) if _SECTION.fullmatch(name) else None
    sql = section.sql if section else sql
    with asking(folders, sql, locked=not allow_files, company_list=company_list, with_held=held) as connection:
        if section:
            _prepare(connection, section, company, folders, company_list, settings.run)
        if output.kind in BINARY_FORMATS and output.path:
            output.tell("row", write_binary(output.path, output.kind, connection, sql))
        else:
            output.give("row", connection.execute(sql), show_result)


def _prepare(
    connection: duckdb.DuckDBPyConnection,
    section: Section,
    company: str,
    folders: Folders,
    company_list: str,
    run: RunSettings,
) -> None:
    """Make what a section reads. Its page is about one company, or it falls due by the settings of runs."""
    page = section.name.partition("/")[0]
    if bool(company) != (page == "company"):
        subject, example = ("one company", " BE 0403227515") if page == "company" else ("all companies", "")
        raise UsageError(f"{section.name} is about {subject}", f"Ask `firmlake query '{section.name}{example}'`")
    from firmlake.intake.identifiers import read_named_company
    from firmlake.report.sections import SectionTables

    bill = None
    if "due" in section.sql:
        from firmlake.report.status import read_status

        bill = read_status(folders, company_list, run).bill
    asked = read_named_company(company) if company else None
    SectionTables(connection, page, company=asked, dues=bill.days if bill else ()).prepare(section.sql)


@command
def changes(
    call: Call,
    *,
    since: str | None = None,
    kinds: tuple[str, ...] = (),
    company: str | None = None,
    company_list: str = "",
    output: Annotated[Output, text_output],
) -> None:
    """Show what runs found changed: accounts, names, parents, children, stakes, lookalikes, health, service lists.

    Args:
        since (RUN|DATE): Only changes found after this run or time (UTC). Default: those of the last run, with --list
            of that list, and of the last `service-lists`.
        kinds (KIND): Only changes of this kind, such as period_restated; repeatable.
        company (NUMBER): Only this company, such as "BE 0403.091.220".
        company_list (--list NAME): Only the companies of this list.
    """
    from firmlake.intake.identifiers import read_named_company
    from firmlake.report.feed import query_changes
    from firmlake.service_lists.load import LIST_KINDS
    from firmlake.warehouse.changes import KINDS
    from firmlake.warehouse.generations import open_warehouse

    known = (*KINDS, *LIST_KINDS)
    if unknown := set(kinds).difference(known):
        raise UsageError(f"--kind {min(unknown)} does not exist", f"The kinds are {', '.join(known)}")
    wanted = read_named_company(company) if company else None
    settings, folders = call.on_folder()
    limit = greater_limit(_MEMORY, settings.run.duckdb_memory)
    with open_warehouse(folders, locked=True, memory_limit=limit, company_list=company_list) as connection:
        is_table, has_lists = output.kind == "table", not company_list
        found = query_changes(connection, since, kinds, wanted, has_lists=has_lists, in_words=is_table)
        last = f"of the last run of {company_list}" if company_list else "of the last run and the last `service-lists`"
        hint = f"No changes. Only those {last} are shown: --since DATE shows earlier ones too"
        if_empty = f"No changes since {since}" if since else hint
        output.give("event", found, partial(show_result, noun="event", is_folded=True, if_empty=if_empty))


@command
def alerts(
    call: Call,
    *,
    company_list: str = "",
    rules: tuple[str, ...] = (),
    since: Annotated[datetime | None, click.DateTime(["%Y-%m-%d"])] = None,
    with_closed: bool = False,
    output: Annotated[Output, text_output],
) -> None:
    """Show alerts: the companies that meet a rule, with the evidence.

    The setting paths.alert_rules names the file of rules; without one there are no alerts. config/watch.toml is an
    example to start from. Each run evaluates the rules as they were when it was planned.

    Args:
        company_list (--list NAME): Only the companies of this list.
        rules (RULE): Only alerts of this rule; repeatable.
        since (DATE): Only alerts that were opened on this day (UTC) or later; with --all, also those closed since then.
        with_closed (--all): Include closed alerts.
    """
    settings, folders = call.on_folder()
    from firmlake.report.feed import query_alerts
    from firmlake.warehouse.generations import open_warehouse

    has_rules = bool(settings.paths.alert_rules)
    with open_warehouse(folders, locked=True, company_list=company_list) as connection:
        found = query_alerts(connection, rules=rules, with_closed=with_closed, since=since and since.date())
        output.give("alert", found, lambda columns, rows: show(alerts_parts(columns, rows, has_rules=has_rules)))
