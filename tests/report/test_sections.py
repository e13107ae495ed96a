"""The figures at the top of the report beside those before the last run; warehouse/questions/report.txt has others."""

from __future__ import annotations

import re

import pytest

from firmlake.core.company import Company
from firmlake.core.folders import Folders
from firmlake.report.page import make_report
from firmlake.report.sections import SectionTables, find_section
from firmlake.warehouse.generations import open_warehouse
from lake import Lake
from support import ACME, BOLT, CIRC, NOON, period, publish_list, run_of, with_views

_TILE = re.compile(r'<div class="tile">(.*?)<b>(.*?)</b>(?:<span class="note (.*?)">(.*?)</span>)?</div>')
DELT = Company("NL", "33011433")
BOLT_BEFORE = [(2022, 300), (2021, 300), (2020, 300)]
WEEKS = (
    {ACME: [(2022, 200, 1, None)], BOLT: BOLT_BEFORE, DELT: [(2022, 50)]},
    {
        ACME: [(2023, 170), (2022, 200, 1, None)],
        BOLT: [(2023, 310, 1000), *BOLT_BEFORE],
        CIRC: [(2023, 760)],
        DELT: None,
    },
)
"""Of each period the year, revenue in thousands, the unit it is stated in, and employees if not as many.

Acme's revenue falls from 200 k to 170 k. Bolt's newest accounts come in thousands, Circ's are its first, and Delt is no
longer found. Sums of all would rise by 380 k, or fall by 380 k without Circ.
"""


def of_size(year, revenue, unit=1, employees=0):
    """Accounts with a revenue in thousands; the other amounts do not matter here."""
    people = revenue if employees == 0 else employees
    return period(
        year, profitability__revenue=1000 * revenue / unit, solvency__totalAssets=9_000_000 / unit,
        solvency__equity=5_000_000 / unit, solvency__debt=4_000_000 / unit, people__employees=people,
    )  # fmt: skip


@pytest.fixture(scope="module")
def weeks(tmp_path_factory):
    """After each week the figures by side, the tiles, and the portfolio as it is and as it was before the last run."""
    folders, read = Folders(tmp_path_factory.mktemp("weeks")), []
    for week, asked in enumerate(WEEKS):
        filed = {one: years and {"financials": [of_size(*year) for year in years]} for one, years in asked.items()}
        run_of(folders, 7 * week, filed)
        with_views(folders)
        read.append(read_now(folders))
    return read


def read_now(folders):
    with open_warehouse(folders) as connection:
        section = find_section("report/figures")
        SectionTables(connection, "report").prepare(section.sql)
        relation = connection.sql(section.sql)
        sides = {row[0]: dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()}
        columns = "country, company_number, revenue_annual, equity, zone"
        rows = [
            connection.execute(f"SELECT {columns} FROM {name} ORDER BY ALL").fetchall()
            for name in ("portfolio", "portfolio_before")
        ]
        tiles = {name: (shown, note, tone) for name, shown, tone, note in _TILE.findall(make_report(connection, NOON))}
        return sides, tiles, *rows


def test_the_figures_before_the_last_run_are_those_that_were_read_then(weeks):
    (_, _, first, nothing), (_, _, second, before) = weeks
    assert nothing == []
    assert before == first != second


def test_a_change_compares_the_companies_that_have_the_figure_both_times(weeks):
    sides, tiles, *_ = weeks[1]
    assert (sides["now"]["doubtful"], sides["now"]["revenue_amount"]) == (1, 930_000)
    of, minus = "of 2 companies, 1 doubtful left out", "\N{MINUS SIGN}"
    assert tiles["Annual revenue, newest accounts"] == ("930 k", f"{of}, {minus}30.0 k since 05 Jan 2026", "bad")
    assert tiles["Employees"] == ("930", of, ""), "nobody stated them both times without doubt"
    assert tiles["Negative equity"] == ("0", f"{of}, unchanged", "")
    assert tiles["Companies"] == ("4", "1 of them unknown to the service, +1 since 05 Jan 2026", "")
    assert {note for _, note, _ in weeks[0][1].values()} == {"", "of 3 companies", "of 2 companies", "of 1 company"}


@pytest.mark.slow
def test_with_a_list_the_sections_on_runs_follow_the_runs_of_this_list(tmp_path):
    lake = Lake(tmp_path)
    publish_list(lake.folders, [ACME, None], name="Customers", given="red")
    publish_list(lake.folders, [BOLT, None, None], day=1, name="others", given="blue")
    publish_list(lake.folders, [CIRC], day=2, name="others")
    with_views(lake.folders)

    def ask(section, *options):
        return lake.call("query", f"report/{section}", "--json", *options).content

    def of(*options):
        (last,) = ask("last_run_and_credits", *options)
        return last["Ended"], len(ask("runs", *options)), [row["given"] for row in ask("refused_lines", *options)]

    assert of("--list", "customers") == ("05 Jan 2026", 1, ["red"])
    assert of("--list", "others") == ("07 Jan 2026", 2, [])
    assert of() == ("07 Jan 2026", 3, [])
    counted = [lake.call("status", "--json", *options).content["companies"] for options in ((), ("--list", "others"))]
    whole, of_others = (sum(sum(states.values()) for states in companies.values()) for companies in counted)
    assert whole > of_others > 0
    assert lake.call("report", "--list", "customers", "--to", str(tmp_path / "report.html")).code == 0
    assert "red" in (tmp_path / "report.html").read_text().partition("could not be used")[2]
