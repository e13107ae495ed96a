"""One company on one page: what is held, whatever is missing, and nothing that acts."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime
from html import escape, unescape

import pytest

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.report.page import make_company_page
from support import slow
from warehouse.figures import Figures

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOSTILE = "</title><script>alert(1)</script>\u202e"
WHOLE, ONE_YEAR, NOTHING, FORBIDDEN, HALF_YEAR, PEERS = 1, 2, 3, 4, 5, range(10, 22)


@pytest.fixture(scope="module")
def world():
    made = Figures()
    made.loads(7, "r")
    made.fill("runs", run_id="r", datasets="financials", outcome="done", target_count=1)
    made.add("companies", WHOLE, name=HOSTILE, place="Gent")
    for year in range(2012, 2025):
        if year != 2019:
            made.files(
                WHOLE, f"{year}-12-31", f"{year}-01-01", revenue=1000 * (year - 2000), total_assets=2_500_000,
                equity=500_000, employee_count=30, net_profit=-year, date_received=f"{year + 1}-03-01",
            )  # fmt: skip
    made.files(HALF_YEAR, "2024-06-30", "2024-01-01", revenue=1000, ebitda=500, net_profit=100)
    made.files(ONE_YEAR, revenue=5, total_assets=2_000_000, employee_count=30)
    for peer in PEERS:
        made.files(peer, revenue=10_000 * peer, total_assets=2_000_000, employee_count=30)
    made.add("companies", NOTHING, name=None)
    made.add("companies", FORBIDDEN, name="No rights BV")
    state = {"record_count": 0, "reject_count": 0, "payload_hash": ""}
    made.add("company_state", NOTHING, dataset="financials", status="not_found", **state)
    made.add("company_state", FORBIDDEN, dataset="financials", status="forbidden", **state)
    made.add("dead_letters", FORBIDDEN, dataset="financials", failed_at="2026-01-05", attempt_count=1, request_id="x",
             reason_code="forbidden", reason="<b>may not</b>")  # fmt: skip
    made.add("company_state", WHOLE, dataset="financials", status="reported", **state | {"record_count": 12})
    for child, owner, stake in ((WHOLE, 10, 0.6), (WHOLE, "person-5f2a9c", 0.4), (10, 11, 0.5)):
        made.owner(child, owner, stake)
    made.add("lookalikes", WHOLE, rank=1, lookalike_country="NL", lookalike_company_number="00000012", score=0.9)
    made.add("lookalikes", WHOLE, rank=2, lookalike_country="FR", lookalike_company_number="552032534", score=0.8)
    period = {"start_date": "2024-01-01", "end_date": "2024-12-31"}
    made.add("company_changes", WHOLE, position=0, kind="health_down", **period, old_value="9", new_value="3")
    made.fill("alerts", country="NL", company_number=f"{WHOLE:08}", severity="high", says="It fell", evidence="{}")
    made.connection.execute("UPDATE financials_versions SET position = 2024 - year(end_date)")
    return made.made()


@pytest.fixture(scope="module")
def page(world):
    return page_of(world, WHOLE)


def page_of(world, company, country="NL"):
    return make_company_page(world.connection, Company(country, f"{company:08}"), NOW)


def rows_of(page, title):
    """The texts of the cells of a section's table, by row."""
    section = page.partition(f"<h3>{escape(title)}</h3>")[2].partition("</section>")[0]
    rows = re.findall("<tr>(.*?)</tr>", section)[1:]
    return [[text_of(cell) for cell in re.findall("<td.*?</td>", row)] for row in rows]


def text_of(html):
    return " ".join(unescape(re.sub("<.+?>", " ", html)).split())


def test_ten_years_are_those_that_were_filed_the_newest_first(page):
    rows = rows_of(page, "Ten years")
    years = [year for year in range(2024, 2011, -1) if year != 2019][:10]
    assert [row[0] for row in rows] == [f"{year}-12-31" for year in years]
    assert [row[2] for row in rows] == [("10.0 k" if y == 2010 else f"{(y - 2000):.1f} k") for y in years]
    assert rows[0][3] == f"{24 / 23 - 1:.1%}"
    assert "Shown: 10 of 12." in page


@pytest.mark.slow
def test_every_table_fits_a_screen_and_on_a_phone_its_first_column_stays_while_the_rest_scrolls(page):
    """Needs Playwright and a Chromium. The table "Ten years" has the most columns."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not (chromium := shutil.which("chromium") or shutil.which("chromium-browser")):
        pytest.skip("no Chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        screen = browser.new_page(viewport={"width": 1280, "height": 900})
        screen.set_content(page)
        hidden = "[...document.querySelectorAll('.wide')].map(each => each.scrollWidth - each.clientWidth)"
        assert set(screen.evaluate(hidden)) == {0}
        screen.set_viewport_size({"width": 390, "height": 844})
        moved = """() => {
            const wide = [...document.querySelectorAll('.wide')].find(each => each.scrollWidth > each.clientWidth);
            wide.scrollLeft = 30;
            return wide.querySelector('td').getBoundingClientRect().left - wide.getBoundingClientRect().left;
        }"""
        assert screen.evaluate(moved) == 0
        browser.close()


@pytest.mark.slow
def test_all_flows_of_a_row_are_per_year(world):
    """Whoever divides net profit by revenue there has the margin."""
    (row,) = rows_of(page_of(world, HALF_YEAR), "Ten years")
    assert (row[1], row[2], row[4], row[5]) == ("182", "2,005", "1,003", "201")


@pytest.mark.slow
def test_the_evidence_of_a_finding_is_written_as_words(world):
    (row,) = [row for row in rows_of(page_of(world, HALF_YEAR), "Findings") if row[0] == "period_length"]
    assert row[-1] == "period days 182"


def test_its_rank_among_its_peers_is_counted(page):
    rows = {row[0]: row[1:] for row in rows_of(page, "Ratios and their place among the peers")}
    revenues = sorted([24_000, 5, *(10_000 * peer for peer in PEERS)], reverse=True)
    assert rows["annual revenue"][-1] == f"{revenues.index(24_000) + 1} of {len(revenues)}"
    assert rows["annual revenue"][0] == "24.0 k"


def test_owners_are_followed_upwards_and_persons_stay_hashed(page):
    owners = {row[0].rpartition(" NL")[0] or row[0]: row[2:] for row in rows_of(page, "Owners")}
    assert owners["company 10"] == ["60.0%", "60.0%", "1"]
    assert owners["company 11"] == ["-", "30.0%", "2"]
    assert owners["person-5f2a9c"] == ["40.0%", "40.0%", "1"]
    assert "3 members" in page
    assert page.count('class="box asked"') == 1


def test_lookalikes_have_figures_where_they_are_held(page):
    held, unknown = rows_of(page, "Lookalikes")
    assert held[:4] == ["company 12 NL 00000012", "1", "0.900", "120 k"]
    assert [unknown[0], unknown[3:]] == ["(not held) FR 552032534", ["-", "-", "-"]]


def test_each_figure_names_its_record_and_run(page):
    records = rows_of(page, "Records of accounts")
    assert [(row[0], row[3], row[5]) for row in records][:2] == [("2024-12-31", "0", "r"), ("2023-12-31", "1", "r")]
    assert len(records) == 12


def test_alerts_stand_on_the_page(page):
    assert [row[:2] for row in rows_of(page, "Alerts")] == [["It fell", "high"]]


def test_the_history_tells_every_event(page):
    assert rows_of(page, "Change history") == [["2026-01-05", "health down", "2024-01-01 to 2024-12-31", "9 → 3"]]


def test_a_hostile_name_stays_a_text(page):
    assert "<script" not in page
    assert f"<h1><bdi>{escape(HOSTILE)}</bdi></h1>" in page


@pytest.mark.parametrize(
    ("company", "says"),
    [
        (ONE_YEAR, "accounts to 31 Dec 2024"),
        *slow((NOTHING, "NL 00000003")),
        (FORBIDDEN, "&lt;b&gt;may not&lt;/b&gt;"),
    ],
)
def test_a_company_with_gaps_has_a_page_too(world, company, says):
    page = page_of(world, company)
    assert says in page
    assert ("none held" in page) == (company != ONE_YEAR)


def test_a_company_that_is_not_held_names_the_command_that_fetches_it(world):
    with pytest.raises(UsageError, match="does not hold FR 552032534") as error:
        make_company_page(world.connection, Company("FR", "552032534"), NOW)
    assert "`firmlake company FR 552032534` fetches it" in str(error.value.next_step)
