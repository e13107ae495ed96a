"""A load into Snowflake, up to what its driver sends; `test_conformance` has what holds for every target."""

from __future__ import annotations

import re

import pytest

from firmlake.core.errors import FirmlakeError
from firmlake.delivery.deliver import deliver

from .test_load import assert_same, now

pytestmark = pytest.mark.slow


def test_weeks_are_loaded_in_transactions_that_no_statement_ends_early(weeks, snowflake, place_in_snowflake):
    place = place_in_snowflake
    for week in range(2):
        folders = weeks(week)
        assert deliver(folders, place.request(), now=now).record.mode == ("changes" if week else "whole")
        assert_same(folders, place)
    assert not deliver(folders, place.request(), now=now).is_new
    # There, a statement that makes or drops a table commits what was done before it.
    units = [unit.partition("\nCOMMIT")[0] for unit in "\n".join(snowflake.said).split("\nBEGIN")]
    loads = [unit for unit in units if "INSERT INTO firmlake._firmlake_loads" in unit]
    assert len(loads) == 2
    assert not re.search(r"^(CREATE|ALTER|DROP)", "\n".join(loads), re.MULTILINE)


def test_what_others_changed_is_put_right_and_a_table_to_drop_is_named(weeks, snowflake, place_in_snowflake):
    place = place_in_snowflake
    folders = weeks(0)
    deliver(folders, place.request(), now=now)
    place.ask("DELETE FROM firmlake.lookalikes")
    place.ask("DROP TABLE firmlake.runs")
    assert "runs is gone" in deliver(folders, place.request(), now=now).note
    assert_same(folders, place)
    place.ask("ALTER TABLE firmlake.financials ALTER COLUMN revenue TYPE DOUBLE")
    with pytest.raises(FirmlakeError, match="type of a column") as caught:
        deliver(folders, place.request(), now=now)
    assert "Drop firmlake.financials, then load again" in caught.value.next_step
    place.ask("DROP TABLE firmlake.financials")
    deliver(folders, place.request(), now=now)
    assert_same(folders, place)


def test_a_refused_login_is_told_without_the_password(weeks, snowflake, place_in_snowflake):
    snowflake.accepts = "another"
    with pytest.raises(FirmlakeError) as caught:
        deliver(weeks(0), place_in_snowflake.request(), now=now)
    assert "planted-secret" not in str(caught.value)
    assert "SNOWFLAKE_USER" in str(caught.value)
