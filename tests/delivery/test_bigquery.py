"""A load into BigQuery, up to what Google's client sends; `test_conformance` has what holds for every target."""

from __future__ import annotations

import pytest

from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.delivery.deliver import deliver
from firmlake.tables.schemas import WAREHOUSE_TABLES

from .bigquery import RefusedError, place_of
from .test_load import assert_same, now

pytestmark = pytest.mark.slow


def test_weeks_are_loaded_in_transactions_of_one_session(weeks, bigquery):
    place = place_of(bigquery)
    for week in range(2):
        folders = weeks(week)
        assert deliver(folders, place.request(), now=now).record.mode == ("changes" if week else "whole")
        assert_same(folders, place)
    assert not deliver(folders, place.request(), now=now).is_new
    assert deliver(folders, place.request("whole"), now=now).record.mode == "whole"
    assert_same(folders, place)
    assert bigquery.locations == {"firmlake": "EU"}
    assert bigquery.sessions.count("") == 4  # each is ended
    units = [unit.partition("\nCOMMIT")[0] for unit in "\n".join(bigquery.said).split("\nBEGIN")]
    assert len([unit for unit in units if "INSERT INTO firmlake._firmlake_loads" in unit]) == 3
    place.ask("DELETE FROM firmlake.lookalikes")
    assert "lookalikes has 0 rows" in deliver(folders, place.request(), now=now).note
    assert_same(folders, place)
    table = WAREHOUSE_TABLES["financials"]
    assert {column.comment for column in table.columns} < set(bigquery.comments["financials"])
    assert any(said.startswith(table.meaning) for said in bigquery.comments["financials"])


def test_texts_with_quotes_and_backslashes_arrive(weeks, bigquery):
    awkward = "it's \\ a \"path\"\nand 'more'"
    with place_of(bigquery).open() as target:
        assert target.run(f"SELECT {target.dialect.literal(awkward)} AS a") == [(awkward,)]


def test_an_error_within_the_transaction_rolls_it_back(weeks, bigquery, monkeypatch):
    place = place_of(bigquery)
    deliver(weeks(0), place.request(), now=now)
    carry_out = bigquery.carry_out

    def fail(statement):
        if statement.startswith("INSERT INTO firmlake._firmlake_loads"):
            raise RefusedError(400, "Transaction is aborted due to concurrent update")
        return carry_out(statement)

    folders = weeks(1)
    monkeypatch.setattr(bigquery, "carry_out", fail)
    with pytest.raises(FirmlakeError, match="concurrent update"):
        deliver(folders, place.request(), now=now)
    monkeypatch.setattr(bigquery, "carry_out", carry_out)
    assert "ROLLBACK" in bigquery.said
    assert place.ask("SELECT max(generation) FROM firmlake._firmlake_loads") == [(1,)]
    assert deliver(folders, place.request(), now=now).is_new
    assert_same(folders, place)


def test_a_dataset_to_create_needs_a_location_and_a_login_that_is_refused_is_told(weeks, bigquery, monkeypatch):
    folders = weeks(0)
    with pytest.raises(UsageError, match="no location"):
        deliver(folders, place_of(bigquery, "bigquery://p/firmlake").request(), now=now)
    with pytest.raises(UsageError, match="invalid"):
        deliver(folders, place_of(bigquery, "bigquery://p/fir-mlake").request(), now=now)
    monkeypatch.setattr(bigquery, "answer", lambda *_: (_ for _ in ()).throw(RefusedError(403, "Access Denied")))
    with pytest.raises(FirmlakeError, match="GOOGLE_APPLICATION_CREDENTIALS") as caught:
        deliver(folders, place_of(bigquery).request(), now=now)
    assert "planted-secret" not in str(caught.value)
