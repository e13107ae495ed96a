"""A list is compared with its version before only; `tests/test_cli.py` has the whole way."""

from __future__ import annotations

import msgspec
import polars as pl

import firmlake_sandbox
from firmlake.core.company import Company
from firmlake.core.settings import RunSettings, Settings
from firmlake.enrich.finish import find_lost
from firmlake.landing.run import Run, begin
from support import ACME, BOLT, CIRC, publish_list


def no_table(_name):
    return pl.LazyFrame()


def test_many_refused_lines_cause_nothing_in_a_new_list_and_are_told_in_its_next_version(folders):
    run = publish_list(folders, [ACME, BOLT, CIRC], name="held")
    many = msgspec.structs.replace(run.plan, line_count=10, refused_count=4)
    causes = {
        name: find_lost(
            Settings(),
            begin(Run(folders, msgspec.structs.replace(many, company_list=name))),
            lambda table: pl.LazyFrame(),
        )
        for name in ("new", "held")
    }
    assert causes["new"] == []
    assert "4 of 10 lines" in causes["held"][0].text


def test_many_companies_that_are_gone_are_told_once_unless_the_run_is_a_sample(folders):
    """A file that is half written when the schedule reads it would otherwise end as done."""
    numbers = firmlake_sandbox.sample_numbers(30)
    run = publish_list(folders, [Company(*each) for each in numbers], name="held")

    def shorter(count, **of_run):
        plan = msgspec.structs.replace(run.plan, company_count=count, line_count=count)
        settings = Settings(run=RunSettings(**of_run))
        return find_lost(settings, begin(Run(folders, plan)), no_table)

    assert shorter(21) == []
    assert "20 companies, and 30 in the version before" in shorter(20)[0].text
    assert shorter(20, sample=20) == []
