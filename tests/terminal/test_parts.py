"""What a person sees of a run, a plan, a check of the folder and the lists of the service."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import duckdb
import msgspec
import polars as pl
import pytest

from firmlake.core.errors import SomeFailedError
from firmlake.delivery.list_file import Written
from firmlake.enrich.lookup import HeldCompany
from firmlake.rebuild.prune import Pinned
from firmlake.rebuild.verify import TableCheck
from firmlake.report.feed import AlertCounts
from firmlake.report.summary import FailureGroup, RunSummary, failure_groups
from firmlake.service_lists.overview import Overview, OverviewPlan, read_list_page
from firmlake.terminal import runs
from firmlake.terminal.company_lists import describe_written
from firmlake.terminal.plan import describe_refused
from firmlake.terminal.rows import show
from firmlake.terminal.runs import summary_parts
from firmlake.terminal.service_lists import service_lists_parts
from firmlake.terminal.status import checks_parts, removable_parts
from lake import Lake
from support import ACME, NOON

REASON = "the service forbids lookalikes: your contract does not hold this dataset"
AT = datetime(2026, 1, 5, tzinfo=UTC)
LIST = "country,company_number\n" + "".join(f"BE,x{n}\n" for n in range(7)) + "BE,0403053608\nBE,0000000097\n"


def summary():
    counts = dict.fromkeys(
        (
            "line_count", "company_count", "refused_count", "repeated_count", "fresh_count", "target_count",
            "request_count", "credit_count", "expected_credit_count", "changed_company_count", "reject_count",
            "discard_count",
        ),
        0,
    )  # fmt: skip
    return RunSummary(
        run_id="r", outcome="done", list_name="l", started_at=AT, finished_at=AT, datasets={}, rows={}, drift=[],
        generation=1, warehouse=Path("data/warehouse/firmlake.duckdb"), **counts,
    )  # fmt: skip


FAILED = [FailureGroup("lookalikes", REASON, 100, [f"BE 000000000{n}" for n in range(3)])]
SUMMARIES = [
    # What the summary of a run says (or does not, None), its changes, and what failed.
    ("Drift is what differs from the specification", {"drift": [("relationships", "new_value", "function", 1)]}, []),
    (r"forbids(?!.*forbids).*BE 0000000000, .*FROM dead_letters", {"outcome": "some_failed"}, FAILED),
    ("Next: .*firmlake query --data data ", {}, []),
    ("1 open; `firmlake alerts --data data` lists", {"alerts": AlertCounts(1, 0, 1, 0)}, []),
    (None, {"generation": 14}, []), (None, {"outcome": "some_failed"}, []), (None, {"outcome": "stopped"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("said", "changes", "failed"), SUMMARIES)
def test_a_summary_explains_drift_groups_failures_and_suggests_a_query_after_a_first_run_that_left_nothing_undone(
    said, changes, failed, capsys
):
    show(summary_parts(msgspec.structs.replace(summary(), **changes), failed))
    shown = capsys.readouterr().out
    assert re.search(said, shown, re.DOTALL) if said else "Next: " not in shown


def test_failures_for_one_reason_are_one_group_with_examples():
    connection = duckdb.connect()
    connection.execute(
        f"CREATE TABLE dead_letters AS SELECT 'r' AS run_id, 'BE' AS country, printf('%010d', n) AS company_number, "
        f"'lookalikes' AS dataset, '{REASON}' AS reason FROM range(100) t(n)"
    )
    assert failure_groups(connection, "r", 10) == FAILED


@pytest.mark.slow
def test_refused_lines_are_named_by_the_run_by_the_list_and_by_the_file(tmp_path, sandbox, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("customers.csv").write_text(LIST)
    lake = Lake(tmp_path, sandbox)
    ran = lake.call("run", "customers.csv", "--out", "back.xlsx")
    assert "line 2: x0: wrong form" in ran.err
    assert "line 7: " not in ran.err
    assert "and 2 more: `firmlake list show customers" in ran.err
    assert "Written: 9 lines to back.xlsx; see its sheet Refused lines for 7 lines" in ran.err.splitlines()
    listed = lake.call("list", "show", "customers").out
    assert all(f"x{n} " in listed for n in range(7))
    assert "not found" in listed
    assert "wrong form" in listed


@pytest.mark.parametrize(
    ("name", "count", "says"),
    [("a.xlsx", 7, "; see its sheet Refused lines for 7 lines"), ("a.xlsx", 0, ""), ("a.csv", 7, "")],
)
def test_refused_lines_have_a_sheet_in_a_workbook_alone(name, count, says):
    assert list(describe_written(Written(Path(name), 9, {}, refused_count=count))) == [
        f"Written: 9 lines to {name}{says}"
    ]


@pytest.mark.parametrize("place", [None, "/usr/bin/firmlake"])
def test_the_first_query_names_the_program_as_a_shell_finds_it(monkeypatch, place):
    monkeypatch.setattr("shutil.which", lambda name: place)
    program, _, _ = runs.first_query(summary()).partition(" query ")
    assert (program == "firmlake", program.endswith("firmlake")) == (bool(place), True)


def test_a_resumed_run_tells_now_from_in_all(capsys):
    show(summary_parts(summary(), [], is_resumed=True))
    assert "Requests in all: 0   Credits in all: 0" in capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 200])
def test_a_company_is_shown_without_a_broken_figure_and_without_empty_tables(width, capsys, monkeypatch):
    monkeypatch.setattr("firmlake.terminal.rows.screen_width", lambda: width)
    amounts = [Decimal(f"-1234567890.{n}") for n in range(10, 17)]
    columns = list(runs._COMPANY_COLUMNS["financials"])
    financials = pl.DataFrame([(AT.date(), *amounts)] * 2, schema=columns, orient="row")
    empty = pl.DataFrame(schema=dict.fromkeys(runs._COMPANY_COLUMNS["lookalikes"], pl.String))
    tables = {"financials": financials, "lookalikes": empty}
    show(runs.company_parts(HeldCompany(ACME, "Acme", "Gent", True, tables, [], None)))
    shown = capsys.readouterr().out
    for amount in amounts:
        assert shown.count(f"{amount:,}") == 2
    assert "lookalikes" not in shown
    assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize(
    ("shortfall", "said"), [(None, "the service does not know this company"), (SomeFailedError("x", "y"), "no answer")]
)
def test_a_company_that_failed_is_not_called_unknown(capsys, shortfall, said):
    show(runs.company_parts(HeldCompany(ACME, None, None, False, {}, [], shortfall)))
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("landed", "pruned", "said"),
    [
        (2, 0, "The landed answers of 2 runs and the warehouse agree in all 1 table"),
        (
            1,
            2,
            "The landed answers of 1 run and the warehouse agree in all 1 table. "
            "For 2 runs, whose landed answers were pruned, only the staged tables were compared",
        ),
        (0, 2, "The staged tables of 2 runs, whose landed answers were pruned, and the warehouse agree in all 1 table"),
    ],
)
def test_a_proof_says_what_runs_were_replayed_from(capsys, landed, pruned, said):
    runs = [SimpleNamespace(is_pruned=False)] * landed + [SimpleNamespace(is_pruned=True)] * pruned
    show(checks_parts([TableCheck("companies", 1, "x", 1, "x")], runs))
    assert capsys.readouterr().out.splitlines()[-1] == said


def test_a_target_that_keeps_a_generation_is_named_with_its_record(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    pinned = Pinned(Path("warehouse/gen_000001.duckdb"), 2_000_000, "duckdb:/gone firmlake", Path("state/a.json"))
    show(removable_parts([], True, pinned=[pinned]))
    said = capsys.readouterr().out
    assert all(text in said for text in ("gen_000001.duckdb", "duckdb:/gone firmlake", "state/a.json"))
    assert "delete its record" in said


def test_a_refused_line_without_text_is_named_by_its_reason_alone():
    """The text of a line is not kept if its company was forgotten."""
    refused = {"line": [2, 3, 4], "given": [None, "x", ""], "reason": ["forgotten", "wrong form", "empty"]}
    lines = list(describe_refused(SimpleNamespace(refused=pl.DataFrame(refused)), "customers"))
    assert lines == ["  line 2: forgotten", "  line 3: x: wrong form", "  line 4: (empty): empty"]


def test_values_of_lists_that_do_not_fit_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    lists = [{"id": n, "type": "STATIC", "updatedAt": "03/02/2026", "createdAt": None} for n in (1, 2)]
    page = read_list_page(json.dumps({"data": lists}).encode())
    plan = OverviewPlan(overview_id="o", kind="STATIC", service="s", started_at=NOON, firmlake_version="1")
    seen = {number: (record, NOON) for number, record in zip(page.ids, page.records, strict=True)}
    show(service_lists_parts(Overview(plan, seen, NOON, 1, True), []))
    shown = capsys.readouterr()
    assert 'Not read: updatedAt in 2 lists, such as "03/02/2026"' in shown.out + shown.err
    assert "createdAt" not in shown.out + shown.err
