"""What a load makes for queries about all companies: the rows of changed companies only, within DuckDB's memory."""

from __future__ import annotations

import random
import shutil

import duckdb
import pytest

from firmlake.core.company import Company
from firmlake.core.folders import Folders
from firmlake.warehouse.generations import newest
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.views import create_view, create_views, definitions, outdate_views
from support import FAILED, party, period, run_of, slow, with_views

TABLES = [one.name for one in definitions() if one.kind == "table"]
WORLD = [Company("BE", f"04{number:08}") for number in range(1, 61)]


@pytest.mark.parametrize("seed", [1, *slow(2, 3, 4, 5)])
def test_tables_of_changed_companies_are_as_if_all_had_been_made_again(tmp_path, seed):
    """Each week some companies of a list are asked; a few of their answers differ from those of the week before."""
    folders, chance = Folders(tmp_path / "data"), random.Random(seed)
    answers = {company: _draw(company, chance) for company in WORLD}
    is_partly_made = False
    for week in range(6):
        changed = chance.sample(WORLD, 60 if week == 0 else chance.randint(0, 8))
        asked = set(changed) | set(chance.sample(WORLD, 20))
        answers |= {company: _draw(company, chance) for company in changed}
        run_of(folders, 7 * week, {company: answers[company] for company in WORLD if company in asked})
        with_views(folders)
        shutil.copy(newest(folders), tmp_path / "anew.duckdb")
        with duckdb.connect(tmp_path / "anew.duckdb") as connection:
            is_partly_made |= connection.execute(_HAS_GAPS).fetchone() == (True,)
            held = {table: connection.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in TABLES}
            outdate_views(connection)
            create_views(connection)
            for table in TABLES:
                assert held[table] == connection.execute(f"FROM {table} ORDER BY ALL").fetchall(), (week, table)
    assert is_partly_made  # otherwise this compares the same with the same
    assert all(held.values()), held.keys()


_HAS_GAPS = "SELECT max(rowid) >= count(*) FROM period_order"


def _draw(company, chance):
    """Draw what the service says of a company: periods in two units, some not ended yet, and owners it may know."""
    if chance.random() < 0.3:
        return chance.choice((None, FAILED))
    unit = chance.choice((1, 1, 1000))
    periods = []
    for year in range(2026, 2018, -1):
        if chance.random() < (0.8 if year < 2026 else 0.05):
            amount = (chance.random() + 0.5) * 1e6 * (unit if year < 2023 else 1)
            names = ("totalAssets", "equity", "debt", "capital", "longTermDebt", "shortTermDebt", "retainedEarnings")
            figures = {f"solvency__{name}": round(amount / part, 2) for part, name in enumerate(names, 1)}
            periods.append(period(year, **figures))
    owners = [
        party(chance.choice((None, *chance.sample(WORLD, 3))), name=chance.choice("ABC"), percentage=chance.random())
        for _ in range(chance.randint(0, 3))
    ]
    if chance.random() < 0.1:
        periods.append(period(2025, endDate=f"2026-01-{chance.randint(6, 31):02}"))
    return {"financials": periods + chance.sample(periods, min(1, len(periods))), "relationships": owners}


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
