"""Find vanished fields: records that held a value in the newest generation and lack it in the run being loaded.

An absent key alone means nothing, because many services leave out nulls. It matters only if the same record of the same
company held a value before. A first run has nothing to compare with, so it finds nothing.
"""

# ruff: noqa: S608 - statements are put together from our own table and column names, never from data

from __future__ import annotations

from typing import NamedTuple

import duckdb

from firmlake.api.contract import DATASETS
from firmlake.tables.schemas import COMPANY_TABLES
from firmlake.warehouse.history import count_rows

__all__ = ["Vanished", "find_vanished", "note_vanished"]

_RECORDS = {
    "financials": ("country", "company_number", "start_date", "end_date", "dup_no"),
    "lookalikes": ("country", "company_number", "lookalike_country", "lookalike_company_number"),
    "relationships": ("country", "company_number", "direction"),
}
"""The columns that identify a record. A related party cannot be identified, because its name may have vanished. So the
parties of a company are counted together, and only if there are at least as many as before."""


class Vanished(NamedTuple):
    """A field that records lost.

    Attributes:
        path: Its place in the service's JSON.
        lost: Records that held a value before and lack it now.
        held: Records of companies answered in this run that have the value or lost it.
        reason: Why a received value of the field was discarded; empty if none was.
    """

    dataset: str
    path: str
    lost: int
    held: int
    reason: str = ""

    @property
    def share(self) -> float:
        """The share of records that lost the value, 0 to 1."""
        return self.lost / self.held

    def __str__(self) -> str:
        why = f", which was sent but did not fit ({self.reason})" if self.reason else ""
        return f"{self.lost:,} of {self.held:,} {self.dataset} records no longer have {self.path}{why}"


def find_vanished(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[Vanished]:
    """Compare the rows that a run closed with the rows that it wrote, before they are published.

    Args:
        connection: The unpublished generation, with the tables `closed_<table>` that `supersede` made.
        run_id: The run.

    Returns:
        One item for each field that a record lost, the largest share first.
    """
    found = []
    for dataset in COMPANY_TABLES:
        paths = _paths(dataset)
        if not paths or not count_rows(connection, f"SELECT count(*) FROM closed_{dataset}"):
            continue
        counts = ", ".join(f'count("{name}") AS "{name}"' for name in paths)
        lost = ", ".join(f'sum(greatest(c."{name}" - n."{name}", 0))::BIGINT' for name in paths)
        key = ", ".join(_RECORDS[dataset])
        records = f"SELECT {key}, count(*) AS row_count, {counts} FROM"
        closed = f"({records} closed_{dataset} GROUP BY ALL) c"
        written = f"({records} {dataset} WHERE valid_from_run = ? GROUP BY ALL) n"
        query = f"SELECT {lost} FROM {closed} JOIN {written} USING ({key}) WHERE n.row_count >= c.row_count"
        (row,) = connection.execute(query, [run_id]).fetchall()
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


# ---------------------------------------------------------------------------------------------------------------------


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
