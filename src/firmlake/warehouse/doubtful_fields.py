"""Find fields of a run that cannot be trusted: shares whose scale is in doubt, and fields that records lost.

A share above 2 does not fit, so reading an answer discards it. A smaller value cannot be judged alone: 0.5 may be a
half or half a percent, 1.2 an error or 1.2 per cent. So if many values of a field are above 1, a load discards all of
them, and never stores percentages as shares of 1.

A field has vanished if records held a value in the newest generation and lack it in the run being loaded. An absent key
alone means nothing, because many services leave out nulls. It matters only if the same record of the same company held
a value before. A first run has nothing to compare with, so it finds nothing.
"""

# ruff: noqa: S608 - statements are put together from our own table and column names, never from data

from __future__ import annotations

from typing import NamedTuple

import duckdb

from firmlake.api.contract import DATASETS
from firmlake.core.errors import make_reason
from firmlake.core.settings import ContractSettings
from firmlake.core.sql import read_queries
from firmlake.tables.leaves import leaves_of, setting_of
from firmlake.tables.schemas import COMPANY_TABLES
from firmlake.warehouse.versions import count_rows, versions_of

_SQL = read_queries(__file__)

_OTHER_SHARE = 0.1
"""The whole field is in doubt if more than this share of its values is above 1. Single errors are rarer, and
percentages are nearly always above 1."""

_UNKNOWN_SCALE = make_reason("unknown_scale")

_RECORDS = {
    "financials": ("country", "company_number", "start_date", "end_date", "dup_no"),
    "lookalikes": ("country", "company_number", "lookalike_country", "lookalike_company_number"),
    "relationships": ("country", "company_number", "direction"),
}
"""The columns that identify a record. A related party cannot be identified, because its name may have vanished. So the
parties of a company are counted together, and only if there are at least as many as before."""


class Vanished(NamedTuple):
    """A field that records lost."""

    dataset: str
    path: str  # its place in the service's JSON
    lost: int  # records that held a value before and lack it now
    held: int  # records of companies answered in this run that have the value or lost it
    reason: str = ""  # why a received value of the field was discarded; empty if none was

    @property
    def share(self) -> float:
        """The share of records that lost the value, 0 to 1."""
        return self.lost / self.held

    def __str__(self) -> str:
        why = f", which was sent but did not fit ({self.reason})" if self.reason else ""
        return f"{self.lost:,} of {self.held:,} {self.dataset} records no longer have {self.path}{why}"


class VanishedError(Exception):
    """More records lost fields than the settings allow, so the warehouse stays as it was."""

    def __init__(self, fields: list[Vanished]) -> None:
        super().__init__(*map(str, fields))
        self.fields = fields


def check_vanished(found: list[Vanished], share_max: float, records_min: int) -> None:
    """Raise VanishedError if more than this share of the records of a field, and at least so many, lost it."""
    if refused := [each for each in found if each.share > share_max and each.lost >= records_min]:
        raise VanishedError(refused)


def withhold_shares(connection: duckdb.DuckDBPyConnection, contract: ContractSettings, run_id: str) -> None:
    """Empty the shares of a run whose scale is in doubt: views of staged tables show them as discarded values.

    The values counted are those that the warehouse will hold once the run is loaded, so a small run is judged with the
    values of earlier runs. A field with a scale in `contract.scales` is never in doubt. The connection has the views
    `staged_<table>` and the table `changed` of a load.
    """
    beyond = connection.execute(_SQL["beyond"]).fetchall()  # in most loads nothing, which needs no further count
    for dataset in DATASETS:
        doubtful = {
            column: path
            for column, path in _shares(dataset, contract).items()
            if any(one == dataset and seen.endswith(path) for one, seen in beyond)
            and _is_in_doubt(connection, dataset, column, path)
        }
        if doubtful:
            _withhold(connection, dataset, doubtful, run_id)


def find_vanished(connection: duckdb.DuckDBPyConnection, number: int) -> list[Vanished]:
    """Compare the rows that a load closed with the rows that it wrote, before they are published.

    Return one item for each field that a record lost, the largest share first.
    """
    found = []
    for dataset in COMPANY_TABLES:
        paths = _paths(dataset)
        if not paths or not count_rows(
            connection, f"SELECT count(*) FROM {versions_of(dataset)} WHERE valid_to = {number}"
        ):
            continue
        counts = ", ".join(f'count("{name}") AS "{name}"' for name in paths)
        lost = ", ".join(f'sum(greatest(c."{name}" - n."{name}", 0))::BIGINT' for name in paths)
        key = ", ".join(_RECORDS[dataset])
        records = f"SELECT {key}, count(*) AS row_count, {counts} FROM"
        closed = f"({records} {versions_of(dataset)} WHERE valid_to = {number} GROUP BY ALL) c"
        written = f"({records} {versions_of(dataset)} WHERE valid_from = {number} GROUP BY ALL) n"
        query = f"SELECT {lost} FROM {closed} JOIN {written} USING ({key}) WHERE n.row_count >= c.row_count"
        (row,) = connection.execute(query).fetchall()
        held = _count_held(connection, dataset, [name for name, count in zip(paths, row, strict=True) if count])
        found += [
            Vanished(dataset, path, count, held[name] + count, _discarded(connection, dataset, path))
            for (name, path), count in zip(paths.items(), row, strict=True)
            if count
        ]
    return sorted(found, key=lambda each: (-each.share, each.dataset, each.path))


def note_vanished(connection: duckdb.DuckDBPyConnection, run_id: str, found: list[Vanished]) -> int:
    """Add vanished fields to the table `drift`, and return the number of rows."""
    for each in found:
        connection.execute(
            "INSERT INTO drift BY NAME SELECT ? AS dataset, 'vanished_field' AS kind, ? AS path, ? AS record_count, "
            "? AS run_id, min(fetched_at) AS first_seen_at FROM staged_company_state WHERE dataset = ?",
            [each.dataset, each.path, each.lost, run_id, each.dataset],
        )
    return len(found)


def _shares(dataset: str, contract: ContractSettings) -> dict[str, str]:
    """Return the path of each share of a whole by its column, without those that have a scale."""
    return {
        leaf.name: leaf.path
        for leaf in leaves_of(dataset, contract)
        if leaf.kind == "fraction" and setting_of(contract.scales, dataset, leaf.name, leaf.path) is None
    }


def _is_in_doubt(connection: duckdb.DuckDBPyConnection, dataset: str, column: str, path: str) -> bool:
    query = _SQL["counts"].format(dataset=dataset, column=column, path=path)
    ((beyond, count),) = connection.execute(query).fetchall()
    return bool(beyond > _OTHER_SHARE * count)


def _withhold(connection: duckdb.DuckDBPyConnection, dataset: str, doubtful: dict[str, str], run_id: str) -> None:
    """Replace the staged tables by views in which the fields are null, with their values in extra_json and rejects."""
    for table in (dataset, "rejects", "drift"):
        connection.execute(f"DROP VIEW IF EXISTS {table}_before_{dataset}")
        connection.execute(f"ALTER VIEW staged_{table} RENAME TO {table}_before_{dataset}")
    zeros = ", ".join(f"if({column} = 0, {column}, NULL) AS {column}" for column in doubtful)  # 0 is 0 on any scale
    connection.execute(
        f"CREATE TEMP VIEW staged_{dataset} AS "
        f"SELECT * REPLACE ({zeros}, {_with_kept(doubtful)} AS extra_json) FROM {dataset}_before_{dataset}"
    )
    withheld = " UNION ALL ".join(
        f"SELECT country, company_number, position, {_full_path(dataset, path)} AS path, {_plain(column)} AS value, "
        f"fetched_at FROM {dataset}_before_{dataset} WHERE {column} <> 0"
        for column, path in doubtful.items()
    )
    names = {"dataset": dataset, "withheld": withheld, "run_id": run_id} | _UNKNOWN_SCALE._asdict()
    connection.execute(_SQL["rejects"].format(**names))
    connection.execute(_SQL["drift"].format(**names))


def _with_kept(doubtful: dict[str, str]) -> str:
    """Return SQL for extra_json with the withheld values added. It stays text, so that no number in it is rounded."""
    members = ", ".join(f"""'"{path}":' || {_plain(column)}""" for column, path in doubtful.items())
    added = f"concat_ws(',', nullif(extra_json[2:-2], ''), {members})"
    has_any = " OR ".join(f"{column} <> 0" for column in doubtful)
    return f"if({has_any}, '{{' || {added} || '}}', extra_json)"


def _plain(column: str) -> str:
    """Return SQL for a share as JSON has it: 0.5 rather than 0.500000; null for 0."""
    return f"rtrim(rtrim(nullif({column}, 0)::VARCHAR, '0'), '.')"


def _full_path(dataset: str, path: str) -> str:
    """Return SQL for the path of a value in the service's JSON, which names the array of a related party."""
    groups = DATASETS[dataset].groups
    if len(groups) == 1:
        return f"'{path}'"
    arrays = " ".join(f"WHEN '{name}' THEN '{group.key}[].{path}'" for name, group in groups.items())
    return f"CASE direction {arrays} END"


def _paths(dataset: str) -> dict[str, str]:
    """Return the path of each field that a record may lose, by column, without fields that identify a record."""
    fields = DATASETS[dataset].fields
    return {name: field.path for name, field in fields.items() if not field.required and field.kind != "codes"}


def _discarded(connection: duckdb.DuckDBPyConnection, dataset: str, path: str) -> str:
    query = "SELECT coalesce(min(reason), '') FROM staged_rejects WHERE dataset = ? AND effect = 'value'"
    ((reason,),) = connection.execute(f"{query} AND ends_with(path, ?)", [dataset, path]).fetchall()
    return str(reason)


def _count_held(connection: duckdb.DuckDBPyConnection, dataset: str, names: list[str]) -> dict[str, int]:
    """Count the values held for companies that answered."""
    if not names:
        return {}
    answered = f"(FROM staged_company_state WHERE dataset = '{dataset}' AND status IN ('reported', 'empty'))"
    counts = ", ".join(f'count("{name}")' for name in names)
    (row,) = connection.execute(
        f"SELECT {counts} FROM {dataset} SEMI JOIN {answered} a USING (country, company_number)"
    ).fetchall()
    return dict(zip(names, row, strict=True))
