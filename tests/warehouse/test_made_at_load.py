"""What a load makes for queries about all companies needs no more memory than DuckDB may use."""

from __future__ import annotations

import duckdb
import pytest

from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.views import create_view, create_views, definitions

_COMPANIES = 300_000
_ROWS = """
    INSERT INTO financials_versions BY NAME
    SELECT 'BE' AS country, printf('%010d', i // 4) AS company_number,
           make_date(2020 + (i % 4)::INT, 1, 1) AS start_date, make_date(2020 + (i % 4)::INT, 12, 31) AS end_date,
           0 AS dup_no, 0 AS position, make_date(2021 + (i % 4)::INT, 6, 1 + (i % 28)::INT) AS date_received,
           1000 + i AS revenue, 2000 + i AS total_assets,
           TIMESTAMP '2026-01-01' AS fetched_at, 'r' AS run_id, 1 AS valid_from
    FROM range({periods}) made(i);
    INSERT INTO companies_versions BY NAME
    SELECT DISTINCT country, company_number, 'A' AS name, fetched_at, run_id, valid_from FROM financials_versions;
"""


@pytest.mark.slow
def test_a_load_spills_what_does_not_fit_into_memory(tmp_path):
    """Aggregates such as median do not spill: found by them, the two newest periods of a company took ten times as
    much, and nobody could publish 250,000 companies with the default of `run.duckdb_memory`."""
    settings = {"memory_limit": "110MB", "threads": 1, "preserve_insertion_order": False}
    with duckdb.connect(tmp_path / "w.duckdb", config=settings) as connection:
        create_tables(connection)
        connection.execute(_ROWS.format(periods=4 * _COMPANIES))
        connection.execute("CHECKPOINT")
        create_views(connection)
        made = connection.execute("SELECT count(*), count(usual_days_to_file) FROM portfolio").fetchone()
    assert made == (_COMPANIES, _COMPANIES)


_OWNERS = """
    CREATE TABLE ownership AS
    SELECT *, 'SHAREHOLDER' AS "function", parent_id AS parent_name, child_id AS child_name, 'BE' AS child_country,
           child_id AS child_company_number, if(parent_id LIKE '%/p/%', NULL, 'BE') AS parent_country,
           if(parent_id LIKE '%/p/%', NULL, parent_id) AS parent_company_number,
           if(parent_id LIKE '%/p/%', 'named_party', 'company') AS parent_kind
    FROM (
        SELECT if(i % 2 = 0, (hash(i) % {companies})::VARCHAR, i || '/p/A person') AS parent_id,
               i::VARCHAR AS child_id, 0.6 AS stake_fraction
        FROM range({companies}) made(i)
        UNION ALL
        SELECT (hash(i, 2) % {companies})::VARCHAR, i::VARCHAR, 0.5 FROM range(0, {companies}, 5) made(i)
    )
"""


@pytest.mark.slow
def test_groups_of_all_companies_are_made_in_steps_that_fit_into_memory(tmp_path):
    """As one statement, `branches_at_half` would need twice that: DuckDB cannot spill what a recursion found."""
    needed = {"share_asked", "parties", "shareholdings", "branches_at_half"}
    with duckdb.connect(tmp_path / "w.duckdb", config={"memory_limit": "50MB", "threads": 1}) as connection:
        connection.execute(_OWNERS.format(companies=_COMPANIES))
        connection.execute("CHECKPOINT")
        for definition in definitions():
            if definition.name in needed:
                create_view(connection, definition)
        made = connection.execute("SELECT count(id), count(DISTINCT id) FROM branches_at_half").fetchone()
    assert made is not None
    assert made[0] == made[1] > _COMPANIES
