"""Empty shares whose scale is in doubt, so that a load never stores percentages as shares of 1.

A share above 1 does not fit, so reading an answer discards it. A smaller value cannot be judged alone: 0.5 may be a
half or half a percent. So if many values of a field are above 1, a load discards its smaller values as well.
"""

# ruff: noqa: S608 - statements are put together from our own table and column names, never from data

from __future__ import annotations

import duckdb

from firmlake.api.contract import DATASETS
from firmlake.core.settings import ContractSettings
from firmlake.tables.cells import BEYOND_ONE, OF_A_WHOLE
from firmlake.tables.leaves import setting_of
from firmlake.warehouse.history import count_rows

__all__ = ["withhold_shares"]

_OTHER_SHARE = 0.1
"""The whole field is in doubt if more than this share of its values is above 1. Single errors are rarer, and
percentages are nearly always above 1."""
_REASON = f"a {OF_A_WHOLE}, and too many values of this field are beyond 1 to tell its scale"


def withhold_shares(connection: duckdb.DuckDBPyConnection, contract: ContractSettings, run_id: str) -> None:
    """Empty the shares of a run whose scale is in doubt: views of staged tables show them as discarded values.

    The values counted are those that the warehouse will hold once the run is loaded, so a small run is judged with the
    values of earlier runs. A field with a scale in `contract.scales` is never in doubt.

    Args:
        connection: An unpublished generation, with the views `staged_<table>` and the table `changed` of a load.
        contract: The settings by which the run was read.
        run_id: The run.
    """
    for dataset in DATASETS:
        doubtful = {
            column: path
            for column, path in _shares(dataset, contract).items()
            if _has_any_beyond(connection, dataset, path) and _is_in_doubt(connection, dataset, column, path)
        }
        if doubtful:
            _withhold(connection, dataset, doubtful, run_id)


# ---------------------------------------------------------------------------------------------------------------------


def _shares(dataset: str, contract: ContractSettings) -> dict[str, str]:
    """Return the path of each share of a whole by its column, without those that have a scale."""
    return {
        column: field.path
        for column, field in DATASETS[dataset].fields.items()
        if field.kind == "fraction" and setting_of(contract.scales, dataset, column, field.path) is None
    }


def _has_any_beyond(connection: duckdb.DuckDBPyConnection, dataset: str, path: str) -> bool:
    """Return whether a value above 1 was ever seen; most loads need no further count."""
    seen = "(SELECT dataset, kind, path FROM staged_drift UNION ALL SELECT dataset, kind, path FROM drift)"
    query = f"SELECT count(*) FROM {seen} WHERE dataset = ? AND kind = 'other_scale' AND ends_with(path, ?)"
    return count_rows(connection, query, dataset, path) > 0


def _is_in_doubt(connection: duckdb.DuckDBPyConnection, dataset: str, column: str, path: str) -> bool:
    query = _COUNTS.format(dataset=dataset, column=column, path=path, reason=BEYOND_ONE)
    ((beyond, count),) = connection.execute(query).fetchall()
    return bool(beyond > _OTHER_SHARE * count)


_COUNTS = """
    WITH answered AS (SELECT country, company_number FROM changed WHERE dataset = '{dataset}'),
    shown AS (
        SELECT {column} AS share, replace(extra_json->>'$."{path}"', ',', '.') AS kept
        FROM {dataset} ANTI JOIN answered USING (country, company_number)
        UNION ALL
        SELECT {column}, replace(extra_json->>'$."{path}"', ',', '.')
        FROM staged_{dataset} SEMI JOIN answered USING (country, company_number)
    ),
    left_out AS (
        SELECT count(*) AS n FROM staged_rejects SEMI JOIN answered USING (country, company_number)
        WHERE dataset = '{dataset}' AND effect = 'record' AND ends_with(path, '{path}') AND contains(reason, '{reason}')
    )
    SELECT count(*) FILTER (try_cast(kept AS DOUBLE) > 1) + any_value(n),
           count(share) + count(*) FILTER (share IS NULL AND try_cast(kept AS DOUBLE) IS NOT NULL) + any_value(n)
    FROM shown, left_out
"""


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
    names = {"dataset": dataset, "withheld": withheld, "reason": _REASON, "run_id": run_id}
    connection.execute(_REJECTS.format(**names))
    connection.execute(_DRIFT.format(**names))


_REJECTS = """
    CREATE TEMP VIEW staged_rejects AS FROM rejects_before_{dataset} UNION ALL BY NAME
    SELECT w.*, request_id, '{dataset}' AS dataset, '{reason}' AS reason, 'value' AS effect, '{run_id}' AS run_id
    FROM ({withheld}) w JOIN (
        SELECT fetched_at, min(request_id) AS request_id FROM staged_requests
        WHERE dataset = '{dataset}' AND status BETWEEN 200 AND 299 GROUP BY fetched_at
    ) USING (fetched_at)
"""
_DRIFT = """
    CREATE TEMP VIEW staged_drift AS FROM drift_before_{dataset} UNION ALL BY NAME
    SELECT '{dataset}' AS dataset, 'withheld_value' AS kind, path, min(value) AS example, count(*) AS record_count,
           min(fetched_at) AS first_seen_at, '{run_id}' AS run_id
    FROM ({withheld}) GROUP BY path
"""


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
