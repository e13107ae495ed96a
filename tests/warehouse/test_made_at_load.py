"""What a load makes for queries about all companies needs no more memory than DuckDB may use."""

from __future__ import annotations

import duckdb
import pytest

from firmlake.warehouse.create import create_tables
from firmlake.warehouse.views import create_views

_COMPANIES = 300_000
_ROWS = """
    INSERT INTO financials BY NAME
    SELECT 'BE' AS country, printf('%010d', i // 4) AS company_number,
           make_date(2020 + (i % 4)::INT, 1, 1) AS start_date, make_date(2020 + (i % 4)::INT, 12, 31) AS end_date,
           0 AS dup_no, 0 AS position, make_date(2021 + (i % 4)::INT, 6, 1 + (i % 28)::INT) AS date_received,
           1000 + i AS revenue, 2000 + i AS total_assets,
           TIMESTAMP '2026-01-01' AS fetched_at, 'r' AS run_id, 'r' AS valid_from_run
    FROM range({periods}) made(i);
    INSERT INTO companies BY NAME
    SELECT DISTINCT country, company_number, 'A' AS name, fetched_at, run_id, valid_from_run FROM financials;
    INSERT INTO relationships BY NAME
    SELECT 'BE' AS country, printf('%010d', i) AS company_number, 'parent' AS direction, 0 AS position,
           'company' AS related_kind, 'BE' AS related_country, printf('%010d', i // 5) AS related_company_number,
           'SHAREHOLDER' AS "function", 0.6 AS stake_fraction,
           TIMESTAMP '2026-01-01' AS fetched_at, 'r' AS run_id, 'r' AS valid_from_run
    FROM range(1, {companies}) made(i);
"""


@pytest.mark.slow
def test_a_load_spills_what_does_not_fit_into_memory(tmp_path):
    """Aggregates such as median do not spill: found by them, the two newest periods of a company took ten times as
    much, and nobody could publish 250,000 companies with the default of `run.duckdb_memory`."""
    settings = {"memory_limit": "110MB", "threads": 1, "preserve_insertion_order": False}
    with duckdb.connect(tmp_path / "w.duckdb", config=settings) as connection:
        create_tables(connection)
        connection.execute(_ROWS.format(companies=_COMPANIES, periods=4 * _COMPANIES))
        connection.execute("CHECKPOINT")
        create_views(connection)
        made = connection.execute("SELECT count(*), count(usual_days_to_file) FROM portfolio").fetchone()
        members = connection.execute("SELECT count(id), count(DISTINCT branch_no) FROM branches_at_half").fetchone()
    assert made == (_COMPANIES, _COMPANIES)
    assert members == (_COMPANIES, 1)
