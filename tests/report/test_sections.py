"""The figures of the report, computed once more in plain Python."""

from __future__ import annotations

import random
from decimal import Decimal
from statistics import median, quantiles

import pytest

from firmlake.core.folders import Folders
from firmlake.report.page import make_report
from firmlake.report.sections import SectionTables, find_section
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.views import SEVERITIES
from support import ACME, BOLT, CIRC, NOON, period, run_of, with_views
from warehouse.figures import Figures

COMPANIES = range(1, 13)
YEARS = (2022, 2023, 2024)
IN_THOUSANDS = 12
"""The newest accounts of this company are in thousands, so they do not compare."""


def draw_accounts():
    chance = random.Random(3)
    made = {}
    for company in COMPANIES:
        for year in YEARS:
            revenue, assets = chance.randint(200_000, 900_000), chance.randint(1_000_000, 2_000_000)
            made[company, year] = {
                "revenue": revenue, "net_profit": chance.randint(-90_000, 90_000), "total_assets": assets,
                "equity": chance.randint(-200_000, 900_000), "employee_count": chance.randint(1, 99),
                "debt": assets // 2, "cash": assets // 9, "capital": assets // 5,
                "health_indicator": chance.randint(0, 99),
                "net_working_capital": chance.randint(-90_000, 900_000), "ebit": chance.randint(-90_000, 200_000),
                "retained_earnings": chance.randint(-90_000, 200_000),
            }  # fmt: skip
    unit = ("revenue", "net_profit", "total_assets", "equity", "debt", "cash", "capital")
    made[IN_THOUSANDS, 2024] |= {name: made[IN_THOUSANDS, 2023][name] / 1000 for name in unit}
    return made


ACCOUNTS = draw_accounts()
NEWEST = {company: ACCOUNTS[company, 2024] for company in COMPANIES}
COMPARED = {company: accounts for company, accounts in NEWEST.items() if company != IN_THOUSANDS}


def growth(company, year):
    return ACCOUNTS[company, year]["revenue"] / ACCOUNTS[company, year - 1]["revenue"] - 1


@pytest.fixture(scope="module")
def world():
    made = Figures()
    for (company, year), figures in ACCOUNTS.items():
        made.files(company, f"{year}-12-31", f"{year}-01-01", date_received=f"{year + 1}-02-01", **figures)
    made.loads(1, "r")
    return made.made()


def rows_of(world, name):
    return read_section(world.connection, name)


def read_section(connection, name):
    section = find_section(f"report/{name}")
    SectionTables(connection, "report").prepare(section.sql)
    relation = connection.sql(section.sql)
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def test_the_tiles_sum_and_count_the_newest_accounts_and_leave_doubtful_ones_out(world):
    (now,) = rows_of(world, "figures")
    assert (now["side"], now["compared_with"]) == ("now", None)
    assert (now["companies"], now["with_accounts"]) == (12, 12)
    assert now["revenue_amount"] == sum(accounts["revenue"] for accounts in COMPARED.values())
    assert now["employees"] == sum(accounts["employee_count"] for accounts in COMPARED.values())
    assert now["growth"] == pytest.approx(median(growth(company, 2024) for company in COMPARED), abs=1e-5)
    shares = [accounts["equity"] / accounts["total_assets"] for accounts in COMPARED.values()]
    assert now["equity_fraction"] == pytest.approx(median(shares), abs=1e-5)
    assert now["negative_equity"] == sum(accounts["equity"] < 0 for accounts in COMPARED.values())
    notes = {tile.name: tile.note for tile in make_report(world.connection, NOON).tiles}
    counts = ("Companies", "With accounts")
    assert notes == {name: "" if name in counts else "of 11 companies, 1 doubtful left out" for name in notes}


def test_findings_stand_by_gravity():
    """In alphabetical order a note would stand before a warning."""
    made = Figures().made()
    SectionTables(made.connection, "report").prepare("FROM found")
    for severity in ("note", "error", "warning"):
        made.connection.execute("INSERT INTO found VALUES (?, 'balance', '', 1)", [severity])
    rows = made.ask(find_section("report/findings").sql)
    assert [severity for severity, *_ in rows] == list(SEVERITIES) == ["error", "warning", "note"]


def test_the_trend_has_median_and_middle_half_of_each_year(world):
    rows = {row["year"]: row for row in rows_of(world, "revenue_growth_by_year")}
    assert sorted(rows) == ["2023", "2024"]
    for year in (2023, 2024):
        compared = COMPANIES if year == 2023 else COMPARED
        expected = quantiles((growth(company, year) for company in compared), n=4, method="inclusive")
        assert [rows[str(year)][name] for name in ("p25", "p50", "p75")] == pytest.approx(expected, abs=1e-5)


def test_zones_move_between_two_dates_as_their_scores_say(world):
    def zone(accounts):
        parts = [accounts[name] / accounts["total_assets"] for name in ("net_working_capital", "retained_earnings")]
        z = 6.56 * parts[0] + 3.26 * parts[1] + 6.72 * accounts["ebit"] / accounts["total_assets"]
        z += 1.05 * accounts["equity"] / (accounts["total_assets"] - accounts["equity"])
        return "safe" if z > 2.6 else "distress" if z < 1.1 else "grey"

    expected = dict.fromkeys(
        [(old, new) for old in ("safe", "grey", "distress") for new in ("safe", "grey", "distress", "no score")], 0
    )
    for company in COMPANIES:
        expected[zone(ACCOUNTS[company, 2023]), zone(ACCOUNTS[company, 2024])] += 1
    rows = rows_of(world, "zone_migration")
    found = {(row["row"], row["column"]): row["count"] for row in rows}
    assert {fields: count for fields, count in found.items() if count} == {f: c for f, c in expected.items() if c}
    assert max(row["shade"] for row in rows) == 1


@pytest.mark.parametrize(
    ("title", "over", "low", "high", "width"),
    [
        ("equity_ratio", ("equity", "total_assets"), -20, 100, 10),
        ("net_margin", ("net_profit", "revenue"), -30, 30, 5),
    ],
)
def test_a_histogram_counts_every_company_without_doubt_once(world, title, over, low, high, width):
    expected = dict.fromkeys((f"{end}%" for end in range(low, high, width)), 0)
    for accounts in COMPARED.values():
        share = 100 * accounts[over[0]] / accounts[over[1]]
        expected[f"{min(max(int(share // width * width), low), high - width)}%"] += 1
    rows = rows_of(world, title)
    assert [(row["class"], row["companies"]) for row in rows] == list(expected.items())


def test_movers_leave_out_doubtful_figures_and_say_how_many_there_are(world):
    shrank = sorted((growth(company, 2024), f"NL {company:08}") for company in COMPARED if growth(company, 2024) < 0)
    rows = rows_of(world, "shrank_most")
    assert [row["number"] for row in rows] == [number for _, number in shrank[:8]]
    assert {row["total"] for row in rows} == {len(shrank)}
    assert [row["number"] for row in rows_of(world, "doubtful_accounts")] == [f"NL {IN_THOUSANDS:08}"]


def test_the_revenue_before_is_that_of_the_period_before(world):
    """Half a year of 50 is 99.18 a year (50 x 365 / 184); a revenue of 0 has a period before it too."""
    made = Figures()
    made.files(1, "2023-12-31", "2023-07-01", revenue=50)
    made.files(1, "2024-12-31", "2024-01-02", revenue=0)
    made.files(2, "2022-12-31", "2022-01-01", revenue=300)
    made.files(2, "2024-12-31", "2024-01-02", revenue=100)
    made.loads(1, "r")
    made.made()
    shrank = [
        (row["number"], row["revenue_amount"], row["revenue_before_amount"], row["days_between"])
        for row in rows_of(made, "shrank_most")
    ]
    assert shrank == [("NL 00000001", 0, Decimal("99.18"), 1), ("NL 00000002", 100, 300, 366)]


def test_a_leap_by_a_thousand_leads_no_list(world):
    rows = rows_of(world, "grew_most")
    with world.connection.cursor() as aside:
        aside.execute("CREATE TEMP TABLE portfolio AS FROM main.portfolio")
        aside.execute("UPDATE portfolio SET revenue_growth = 999 WHERE company_number = ?", [rows[0]["number"][3:]])
        numbers = [row[1] for row in aside.sql(find_section("report/grew_most").sql).fetchall()]
    assert numbers[:7] == [row["number"] for row in rows[1:]]


def test_the_table_by_year_sums_what_compares(world):
    first, *_ = rows_of(world, "the_portfolio_by_year")
    assert (first["year"], first["companies"]) == ("2024", 11)
    assert float(first["total_assets_amount"]) == sum(accounts["total_assets"] for accounts in COMPARED.values())
    assert first["loss_making_share"] == pytest.approx(
        sum(accounts["net_profit"] < 0 for accounts in COMPARED.values()) / 11, abs=1e-5
    )


def test_a_company_counts_once_in_a_year_in_which_several_of_its_accounts_end():
    """It moved the end of its year: the last accounts count, and its assets and annual revenue are not added twice."""
    made = Figures()
    parts = {"net_working_capital": 1, "ebit": 1, "retained_earnings": 1, "equity": 4, "net_profit": 1}
    made.files(1, "2024-06-30", "2023-07-01", revenue=100, total_assets=10, employee_count=7, **parts)
    made.files(1, "2024-12-31", "2024-07-01", revenue=60, total_assets=12, employee_count=8, **parts)
    made.loads(1, "r")
    made.made()
    (row,) = rows_of(made, "the_portfolio_by_year")
    annual = Decimal("119.02")  # 60 in 184 days
    assert (row["companies"], row["revenue_amount"], row["total_assets_amount"], row["employees"]) == (1, annual, 12, 8)
    assert [zone["companies"] for zone in rows_of(made, "altman_by_year")] == [1]


def read_now(folders: Folders):
    """The figures by side, the tiles, and the portfolio as it is and as it was before the last run."""
    with_views(folders)
    with open_warehouse(folders) as connection:
        sides = {row["side"]: row for row in read_section(connection, "figures")}
        columns = "country, company_number, revenue_annual, equity, zone"
        rows = [
            connection.execute(f"SELECT {columns} FROM {name} ORDER BY ALL").fetchall()
            for name in ("portfolio", "portfolio_before")
        ]
        return sides, make_report(connection, NOON).tiles, *rows


def test_the_figures_before_the_last_run_are_those_that_were_read_then(folders):
    """The second run adds a period, restates one in thousands, finds a company no more and asks for a new one."""
    weeks = (
        {ACME: [period(2023), period(2022)], BOLT: [period(2023), period(2022)]},
        {
            ACME: [period(2024, people__employees=30), period(2023), period(2022)],
            BOLT: None,
            CIRC: [period(2024)],
        },
    )
    read = []
    for week, asked in enumerate(weeks):
        run_of(folders, 7 * week, {company: records and {"financials": records} for company, records in asked.items()})
        read.append(read_now(folders))
    (_, _, first, nothing), (_, tiles, second, before) = read
    assert nothing == []
    assert before == first != second
    notes = {tile.name: tile.note for tile in tiles}
    assert notes["Companies"] == "1 of them unknown to the service, +1 since 05 Jan 2026"


def of_size(year, revenue, unit=1):
    """Accounts with a revenue in thousands, stated in a unit; the other amounts do not matter here."""
    return period(
        year, profitability__revenue=1000 * revenue / unit, solvency__totalAssets=9_000_000 / unit,
        solvency__equity=5_000_000 / unit, solvency__debt=4_000_000 / unit, people__employees=revenue,
    )  # fmt: skip


def test_a_change_compares_the_companies_that_have_the_figure_both_times(folders):
    """Acme's revenue falls from 200 k to 170 k. Bolt's newest accounts come in thousands, and Circ's are its first.

    Sums of all would rise by 430 k, or fall by 330 k without Circ.
    """
    bolt = [of_size(2022, 300), of_size(2021, 300), of_size(2020, 300)]
    weeks = (
        {ACME: [of_size(2022, 200)], BOLT: bolt},
        {
            ACME: [of_size(2023, 170), of_size(2022, 200)],
            BOLT: [of_size(2023, 310, 1000), *bolt],
            CIRC: [of_size(2023, 760)],
        },
    )
    for week, asked in enumerate(weeks):
        run_of(folders, 7 * week, {company: {"financials": records} for company, records in asked.items()})
    sides, tiles, *_ = read_now(folders)
    assert (sides["now"]["doubtful"], sides["now"]["revenue_amount"]) == (1, 930_000)
    tiles = {tile.name: (tile.shown, tile.note, tile.tone) for tile in tiles}
    of = "of 2 companies, 1 doubtful left out"
    minus = "\N{MINUS SIGN}"
    assert tiles["Annual revenue, newest accounts"] == ("930 k", f"{of}, {minus}30.0 k since 05 Jan 2026", "bad")
    assert tiles["Employees"] == ("930", f"{of}, {minus}30 since 05 Jan 2026", "bad")
    assert tiles["Companies"] == ("3", "+1 since 05 Jan 2026", "")
    assert tiles["Negative equity"] == ("0", f"{of}, unchanged", "")
