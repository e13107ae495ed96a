"""What stands on a run's page."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from firmlake.core.settings import Settings
from firmlake.enrich.events import Published
from firmlake.report.feed import AlertCounts
from firmlake.report.summary import RunSummary

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SUMMARY = RunSummary(
    run_id="20260105T120000Z-0000",
    outcome="some_failed",
    list_name="ours|<b>.csv",
    started_at=NOON,
    finished_at=NOON,
    line_count=2001,
    company_count=2000,
    refused_count=1,
    repeated_count=0,
    fresh_count=500,
    target_count=1500,
    request_count=1234,
    credit_count=None,
    expected_credit_count=1500,
    datasets={"financials": {"reported": 1400, "failed": 100, "fresh": 500}},
    rows={"financials": 11200},
    changed_company_count=1400,
    reject_count=3,
    discard_count=2,
    drift=[("financials", "new_field", "a|b", 7)],
    generation=4,
    warehouse=Path("data/warehouse/firmlake.duckdb"),
)


@pytest.fixture(autouse=True)
def _environment(flow_modules: None, prefect_settings: None) -> None:
    """Its modules can be imported."""


def test_the_summary_accounts_for_every_company():
    from artifacts import summary_line, summary_markdown

    lines = summary_markdown(SUMMARY).splitlines()
    at = lines.index("| companies by dataset | reported | empty | not found | failed | waiting | fresh |")
    assert lines[at + 2] == "| financials | 1,400 | 0 | 0 | 100 | 0 | 500 |"
    assert "| companies | 2,000, 500 of them fresh |" in lines
    assert summary_line(SUMMARY) == (
        "Run 20260105T120000Z-0000: 1,500 of 2,000 companies asked for, 1,234 requests, unknown credits, generation 4"
    )


def test_a_run_with_rules_says_what_became_of_its_alerts():
    from artifacts import summary_line, summary_markdown

    with_alerts = msgspec.structs.replace(SUMMARY, alerts=AlertCounts(opened=3, opened_high=1, open=9, closed=2))
    said = "3 opened (1 of high severity), 2 closed, 9 open"
    assert summary_line(with_alerts).endswith(f"generation 4; alerts: {said}")
    assert f"Alerts: {said}" in summary_markdown(with_alerts)


def test_names_from_outside_cannot_break_out_of_their_cell():
    from artifacts import summary_markdown

    text = summary_markdown(SUMMARY)
    assert text.startswith("## ours\\|&lt;b>.csv: some failed\n")
    assert "| financials | new_field | a\\|b | 7 |" in text


def test_a_table_of_failures_that_has_not_all_of_them_says_where_they_are(monkeypatch: pytest.MonkeyPatch):
    import artifacts

    shown: list[str] = []
    monkeypatch.setattr(artifacts, "create_markdown_artifact", lambda *_, **__: None)
    published = Published(None, None, SUMMARY, [], Settings())
    monkeypatch.setattr(artifacts, "create_table_artifact", lambda _rows, key, description: shown.append(description))
    failed, rejected = {"what": "company failed"}, {"what": "record rejected"}
    most = artifacts._ROWS_MAX
    for rows in ([], [failed] * (most - 1) + [rejected] * (most - 1), [failed] * most):
        artifacts.show_on_page(published, rows, [])
    none, few, many = shown
    assert none == few == "What failed in run 20260105T120000Z-0000"
    assert "dead_letters and rejects have all of them" in many


def test_the_report_is_named_by_its_place_and_its_figures():
    from artifacts import report_markdown
    from firmlake.report.page import Report

    tiles = {"companies": 2000, "last run": "some failed", "credits left": None}
    text = report_markdown(Report(Path("/data/a|b/report.html"), tiles), SUMMARY)
    assert text.startswith("## Report of generation 4\n\n/data/a\\|b/report.html: ")
    assert "| companies | 2,000 |\n| last run | some failed |\n| credits left | unknown |" in text
