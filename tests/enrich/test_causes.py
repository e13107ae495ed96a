"""Advice that works: companies that failed because of a setting name it before they say that redrive asks again."""

from __future__ import annotations

import polars as pl
import pytest

from firmlake.core.settings import Settings
from firmlake.enrich.causes import find_causes
from firmlake.landing.progress import OTHER_MESSAGE, WRONG_PAGE
from support import ACME, make_run


@pytest.mark.parametrize(
    ("reason", "first"),
    [
        (f"{WRONG_PAGE}: records from 0 on", "Let api.names.limit and api.names.offset name"),
        (f"{OTHER_MESSAGE}: Onderneming onbekend", "If the service says that it knows no such company, set api.names"),
        ("status 500: Internal server error", "`firmlake redrive` asks again"),
    ],
)
def test_the_setting_that_removes_a_reason_is_named_first(reason, first, folders):
    row = {**ACME._asdict(), "dataset": "financials"}
    states = pl.LazyFrame([{**row, "status": "failed", "reject_count": 0}])
    [cause] = find_causes(Settings(), make_run(folders, [ACME]).plan, states, pl.LazyFrame([{**row, "reason": reason}]))
    assert cause.text == "1 company failed"
    assert cause.next_step.startswith(first)
    assert "`firmlake redrive` asks again" in cause.next_step
