"""Load a staged run into a copy of the newest generation, table by table. Readers see only the finished copy.

The rows of a company are replaced only if the service answered and its records changed. A failed answer, or one older
than the held answer, replaces nothing. If some records of an answer could not be read, the held rows that may
correspond to them are kept. A run is in the warehouse if `loads` has a row for it.
"""

# ruff: noqa: S608 - statements are put together from our own table names and paths, never from data

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import Final

import duckdb

from firmlake.core.errors import DamagedError
from firmlake.core.sql import quote_text, read_queries
from firmlake.landing.run import Outcome, Run
from firmlake.tables.index import AHEAD, verdict_rules
from firmlake.tables.schemas import COMPANY_TABLES, TABLES, duckdb_type
from firmlake.tables.stage import Manifest, StagedFile
from firmlake.warehouse.alerts import raise_alerts
from firmlake.warehouse.changes import record_changes
from firmlake.warehouse.doubtful_fields import check_vanished, find_vanished, note_vanished, withhold_shares
from firmlake.warehouse.generations import expect_large_load, free_memory
from firmlake.warehouse.lists import load_members
from firmlake.warehouse.loads import Load, add_load
from firmlake.warehouse.schema import create_tables, widen
from firmlake.warehouse.versions import compare, count_rows, current_rows, insert_new, merge, next_number, supersede
from firmlake.warehouse.views import outdate_views

_SQL = read_queries(__file__)

_COMPANY = ("country", "company_number")

_IDENTITIES = {
    "financials": (("start_date", "end_date", "dup_no"),),
    "lookalikes": (("lookalike_country", "lookalike_company_number"), ("rank",)),
    "relationships": (("direction", "related_country", "related_company_number", "related_name"),),
}
"""The fields that identify a record: a new record replaces the held record with the same values."""


_LARGE_BYTES: Final = 64 * 2**20
"""Free memory between the tables of a load from this many staged bytes."""

_OF_A_RUN = ("dead_letters", "rejects", "refused_lines", "drift", "requests")

_TABLES = ("companies", "company_state")


def load_run(
    connection: duckdb.DuckDBPyConnection,
    run: Run,
    manifest: Manifest,
    outcome: Outcome,
    load: Load,
    vanished_max: tuple[float, int] = (1.0, 0),
) -> None:
    """Load a staged run into an unpublished generation, in a transaction. A large load checkpoints each table.

    `vanished_max` is the share of the records of a field, and their least number, from which a loss is a VanishedError.
    """
    if is_large := sum(file.byte_count for file in manifest.files) >= _LARGE_BYTES:
        expect_large_load(connection)
    create_tables(connection)
    if widen(connection, run):
        outdate_views(connection)
    view_staged(connection, run, manifest.files, "staged_")
    targets = quote_text(str(run.checked("targets")))
    connection.execute(_SQL["windows"].format(targets=targets))
    number, latest = next_number(connection), _timestamp(load.loaded_at + AHEAD)
    state, companies = current_rows("company_state"), current_rows("companies")
    started, days = _timestamp(run.plan.started_at), run.plan.credit_window_days
    rules = verdict_rules("s", "c", started=started, latest=latest)
    compare(connection, "company_state", _SQL["state"].format(current=state, **rules), number)
    connection.execute(_SQL["changed"])
    ((changed_count, partial, known, is_all_changed),) = connection.execute(_SQL["what_changed"]).fetchall()
    withhold_shares(connection, run.plan.contract, run.run_id)
    counts = {}
    for dataset, tables in COMPANY_TABLES.items():
        answered = _ANSWERED.format(dataset=dataset, which="true")
        retained = _retained(dataset) if dataset in partial else "false"
        for table in tables:
            staged = f"staged_{table}"
            if dataset in known:
                counts[table] = supersede(connection, table, _COMPANY, answered, staged, number, retained)
            else:
                rows = staged if is_all_changed else f"{staged} SEMI JOIN {answered} a USING (country, company_number)"
                counts[table] = insert_new(connection, table, rows, number)
    vanished = find_vanished(connection, number)
    check_vanished(vanished, *vanished_max)
    expected_credits = count_rows(connection, _SQL["bought"].format(days=days))
    merge(connection, "company_state", number)
    compare(connection, "companies", _SQL["companies"].format(days=days, latest=latest, current=companies), number)
    merge(connection, "companies", number)
    check_keys(connection)
    free_memory(connection)
    counts["list_members"] = load_members(connection, run, number)
    free_memory(connection)
    counts["company_changes"] = record_changes(connection, run.plan, number)
    counts |= _replace_rows_of_run(connection, run.run_id)
    counts["drift"] += note_vanished(connection, run.run_id, vanished)
    refreshed = count_rows(connection, _SQL["refreshed"].format(targets=targets)) if run.plan.refresh_count else 0
    _add_run(connection, run, outcome, expected_credits, refreshed)
    if is_large:
        _drop_workings(connection)
    counts["alerts"] = raise_alerts(connection, run.plan.alert_rules, run.run_id)
    add_load(connection, load, counts, changed_count)
    free_memory(connection, may_compact=True)


def view_staged(connection: duckdb.DuckDBPyConnection, run: Run, files: Sequence[StagedFile], prefix: str = "") -> None:
    """Make a view of the staged files of each table, named as the table after the prefix."""
    folder = run.folders.staged(run.run_id)
    for name in (*_TABLES, *_OF_A_RUN, *chain.from_iterable(COMPANY_TABLES.values())):
        paths = [quote_text(str(folder / file.path)) for file in files if file.table == name and file.row_count]
        nothing = ", ".join(f'NULL::{duckdb_type(column)} AS "{column.name}"' for column in TABLES[name].columns)
        staged = f"* FROM read_parquet([{', '.join(paths)}], hive_partitioning = false)"
        connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {prefix}{name} AS SELECT {staged if paths else f'{nothing} LIMIT 0'}"
        )


def _replace_rows_of_run(connection: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, int]:
    """Load the tables whose rows belong to a run, such as its requests, and count the rows of each."""
    counts = {}
    for table in _OF_A_RUN:
        connection.execute(f"DELETE FROM {table} WHERE run_id = ?", [run_id])
        rows = _SQL["drift"] if table == "drift" else f"SELECT * FROM staged_{table}"
        counts[table] = count_rows(connection, f"INSERT INTO {table} BY NAME {rows}")
    return counts


def check_keys(connection: duckdb.DuckDBPyConnection) -> None:
    """Check that no key occurs twice; the DamagedError names the table and a key."""
    for table in _TABLES:
        key = ", ".join(TABLES[table].key)
        repeated = f"SELECT {key} FROM {table} GROUP BY ALL HAVING count(*) > 1"
        if found := connection.execute(
            f"SELECT count(*), any_value(({key})) FROM ({repeated}) HAVING count(*) > 0"
        ).fetchall():
            count, example = found[0]
            raise DamagedError(
                f"The table {table} has several rows for {count:,} of its keys, such as {' '.join(example)}",
                "Rebuild the warehouse with `firmlake replay`, which sends no request",
            )


_ANSWERED = "(SELECT country, company_number FROM changed WHERE dataset = '{dataset}' AND {which})"

_OF_PLAN = (
    "run_id", "list_name", "list_sha256", "service", "language", "line_count", "company_count", "refused_count",
    "repeated_count", "fresh_count", "target_count", "firmlake_version",
)  # fmt: skip
"""The columns of `runs` that the plan has under the same names."""


def _timestamp(moment: datetime) -> str:
    return f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f}'"


def _retained(dataset: str) -> str:
    """Return an SQL condition for held rows `h` of partial answers that are not among their readable records."""
    not_staged = " AND ".join(
        f"NOT EXISTS (FROM staged_{dataset} s WHERE "
        + " AND ".join(f"s.{name} IS NOT DISTINCT FROM h.{name}" for name in (*_COMPANY, *identity))
        + ")"
        for identity in _IDENTITIES[dataset]
    )
    return f"(country, company_number) IN {_ANSWERED.format(dataset=dataset, which='is_partial')} AND {not_staged}"


def _add_run(
    connection: duckdb.DuckDBPyConnection, run: Run, outcome: Outcome, expected_credits: int, refreshed: int
) -> None:
    plan = run.plan
    values = {
        **{name: getattr(plan, name) for name in _OF_PLAN},
        "datasets": ",".join(plan.datasets),
        "started_at": plan.started_at.replace(tzinfo=None),
        "finished_at": outcome.finished_at.replace(tzinfo=None),
        "outcome": outcome.outcome,
        "reason": outcome.reason or None,
        "next_step": outcome.next_step or None,
        "free_refresh_count": refreshed,
    }
    expected = {"expected_credits": expected_credits, "expected_at_most": expected_credits + plan.forgotten_count}
    connection.execute("DELETE FROM runs WHERE run_id = ?", [run.run_id])
    statement = _SQL["run"].format(values=", ".join(f"${name} AS {name}" for name in values))
    connection.execute(statement, values | expected)


def _drop_workings(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop all temporary tables. After a weekly run of a million companies they take 700 MB, 24 MB of it in memory."""
    for (name,) in connection.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall():
        connection.execute(f"DROP TABLE {name}")
