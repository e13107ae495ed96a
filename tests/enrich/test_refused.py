"""Refused lines count only against the version before of the same list; `tests/test_cli.py` has the whole way."""

from __future__ import annotations

import msgspec

from firmlake.core.freeze import freeze_again
from firmlake.core.settings import Settings
from firmlake.enrich.refused import find_refused
from support import ACME, BOLT, CIRC, publish_list


def test_many_refused_lines_cause_nothing_in_a_new_list_and_are_told_in_its_next_version(folders):
    run = publish_list(folders, [ACME, BOLT, CIRC], name="held")
    many = msgspec.structs.replace(run.plan, line_count=10, refused_count=4)
    causes = {
        name: find_refused(Settings(), freeze_again(run, msgspec.structs.replace(many, company_list=name), {}))
        for name in ("new", "held")
    }
    assert causes["new"] == []
    assert "4 of 10 lines" in causes["held"][0].text
