"""Each company, and each company and dataset, has one row: otherwise nothing is published."""

import pytest

from firmlake.core.errors import DamagedError
from firmlake.rebuild.replay import replay
from firmlake.tables.schemas import TABLES
from firmlake.warehouse.generations import newest
from support import (
    ACME,
    BOLT,
    DAY,
    NOON,
    answer,
    edit_warehouse,
    found,
    land,
    lookalike,
    make_run,
    publish_landed,
    query,
    slow,
)


def publish(folders, run_id, at):
    run = make_run(folders, [ACME, BOLT], ["lookalikes"], run_id=run_id, at=at)
    land(run, answer("lookalikes", *(found(company, "lookalikes", lookalike()) for company in (ACME, BOLT)), at=at))
    return publish_landed(run, at=at)


@pytest.mark.parametrize("table", ["company_state", *slow("companies")])
def test_a_row_that_occurs_twice_stops_publishing_until_a_replay(folders, table):
    assert TABLES[table].key[:2] == ("country", "company_number")
    publish(folders, "20260105T120000Z-0001", NOON)
    edit_warehouse(folders, f"INSERT INTO {table}_versions FROM {table}_versions WHERE country = 'BE'")
    before = newest(folders)
    with pytest.raises(DamagedError, match=f"{table} .* such as BE") as error:
        publish(folders, "20260106T120000Z-0002", NOON + DAY)
    assert "firmlake replay" in error.value.next_step
    assert newest(folders) == before
    replay(folders, lambda: NOON + 2 * DAY, memory_limit="100MB", keep=5)
    assert query(folders, "SELECT count(*), count(DISTINCT company_number) FROM company_state") == [(2, 2)]
