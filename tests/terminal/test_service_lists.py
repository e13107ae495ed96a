"""What a person sees of the service lists."""

from __future__ import annotations

import json

import pytest

from firmlake.service_lists.overview import Overview, OverviewPlan, read_list_page
from firmlake.terminal.rows import show
from firmlake.terminal.service_lists import service_lists_parts
from support import NOON


def test_values_of_lists_that_do_not_fit_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    lists = [{"id": n, "type": "STATIC", "updatedAt": "03/02/2026", "createdAt": None} for n in (1, 2)]
    page = read_list_page(json.dumps({"data": lists}).encode())
    plan = OverviewPlan(overview_id="o", kind="STATIC", service="s", started_at=NOON, firmlake_version="1")
    seen = {number: (record, NOON) for number, record in zip(page.ids, page.records, strict=True)}
    show(service_lists_parts(Overview(plan, seen, NOON, 1, True), []))
    shown = capsys.readouterr()
    assert 'Not read: updatedAt in 2 lists, such as "03/02/2026"' in shown.out + shown.err
    assert "createdAt" not in shown.out + shown.err
