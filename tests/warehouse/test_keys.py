"""Each company, and each company and dataset, has one row: otherwise nothing is planned and nothing published."""

import pytest

from firmlake.core.errors import DamagedError
from firmlake.enrich.held import read_held
from firmlake.rebuild.replay import replay
from firmlake.tables.schemas import TABLES
from firmlake.warehouse.generations import newest, open_warehouse
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
    slow,
)


def publish(folders, run_id, at):
    run = make_run(folders, [ACME, BOLT], ["lookalikes"], run_id=run_id, at=at)
    land(run, answer("lookalikes", *(found(company, "lookalikes", lookalike()) for company in (ACME, BOLT)), at=at))
    return publish_landed(run, at=at)


@pytest.mark.parametrize("table", ["company_state", *slow("companies")])
def test_a_row_that_occurs_twice_stops_planning_and_publishing_until_a_replay(folders, table):
    assert TABLES[table].key[:2] == ("country", "company_number")
    publish(folders, "20260105T120000Z-0001", NOON)
    edit_warehouse(folders, f"INSERT INTO {table} FROM {table} WHERE country = 'BE'")
    with open_warehouse(folders) as connection, pytest.raises(DamagedError, match=f"{table} .* such as BE") as error:
        read_held(connection, NOON, 30, 30)
    assert "firmlake replay" in error.value.next_step
    before = newest(folders)
    with pytest.raises(DamagedError, match=table):
        publish(folders, "20260106T120000Z-0002", NOON + DAY)
    assert newest(folders) == before
    replay(folders, lambda: NOON + 2 * DAY, memory_limit="100MB", keep=5)
    with open_warehouse(folders) as connection:
        assert read_held(connection, NOON, 30, 30).state.height == 2
