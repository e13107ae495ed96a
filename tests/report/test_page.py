"""The report: one file that loads nothing, whatever companies are called, with or without anything to tell."""

from __future__ import annotations

from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from firmlake.core.errors import FirmlakeError
from firmlake.report import sections
from firmlake.report.page import make_report, write_report
from firmlake.report.sections import TOO_LARGE, read_sections
from firmlake.warehouse.views import definitions
from support import ACME, edit_warehouse, period, run_of
from warehouse.figures import Figures

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOSTILE = (
    "</td></table><script>alert(1)</script>",
    "<img src=x onerror=alert(1)> & 'quoted' \"name\"",
    "\u202eright to left\u202e without an end",
    "\x00\x1b[31m",
    "Maatschappij" * 60,
    "{made} %s {0}",
)


class Page(HTMLParser):
    """What a browser would make of it: elements with their attributes, and the texts of cells."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.texts, self.unbalanced = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] in ("bdi", "text", "title", "h3"):
            self.texts.append(data)


def warehouse(**options):
    made = Figures(**options)
    made.loads(3, "r")
    made.fill("runs", run_id="r", list_name="<b>list</b>.csv", datasets="financials", outcome="done", target_count=1)
    return made


@pytest.fixture(scope="module")
def page():
    made = warehouse()
    for company, name in enumerate(HOSTILE, 1):
        made.add("companies", company, name=name)
        for year, revenue in ((2023, 100), (2024, 100 + company)):
            made.files(
                company, f"{year}-12-31", f"{year}-01-01", equity=-1, total_assets=10, revenue=revenue, net_profit=-5,
                date_received=f"{year + 1}-02-01",
            )  # fmt: skip
        if company > 1:
            made.owner(company, company - 1, 0.8)
        made.add(
            "company_changes", company, position=0, kind="period_restated", start_date="2024-01-01",
            end_date="2024-12-31", dup_no=0,
            fields=f'[{{"field": "total_assets", "old": "1.00", "new": "{company}.00"}}]',
        )  # fmt: skip
        made.add(
            "company_changes", company, position=1, kind="stake_changed", direction="parent", related_name=name,
            old_value="0.500000", new_value=f"0.{company}00000",
        )  # fmt: skip
    failed = {"dataset": "lookalikes", "failed_at": "2026-01-05", "attempt_count": 3, "request_id": "x"}
    made.add("dead_letters", 9, reason_code="request_failed", reason="/v1/x failed 3 times: status 503", **failed)
    made.add("dead_letters", 8, reason_code="request_refused", reason="/v1/x: status 400: <b>", **failed)
    return make_report(made.made().connection, NOW)


def test_it_is_well_formed_and_every_section_is_there(page):
    read = Page(page)
    assert (read.open, read.unbalanced) == ([], [])
    texts = Page(page).texts
    titles = [section.title for section in read_sections("report")]
    assert [title for title in titles if title not in texts] == ["Figures", "Alerts by rule"], "tiles; no alerts here"


def test_its_heading_names_the_load_which_need_not_be_a_run(page):
    assert "from generation 3, load r. The figures are those of" in page


def test_it_can_be_read_without_a_mouse_and_without_sight(page):
    """The arrow keys scroll what is too wide, and no drawing is a picture without a name."""
    elements = Page(page).elements
    wide = [attributes for _, attributes in elements if attributes.get("class") == "wide"]
    assert wide
    assert all(attributes.get("tabindex") == "0" for attributes in wide)
    drawings = [attributes for tag, attributes in elements if tag == "svg"]
    assert {"chart", "tree"} <= {attributes["class"] for attributes in drawings}
    assert all(attributes.get("aria-label") for attributes in drawings)
    assert not [attributes for attributes in drawings if attributes["class"] == "tree" and attributes["role"] == "img"]


def test_it_loads_and_runs_nothing(page):
    elements = Page(page).elements
    assert {tag for tag, _ in elements} <= {
        "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "div", "h1", "h2",
        "h3", "p", "b", "code", "span", "table", "thead", "tbody", "tr", "th", "td", "bdi", "svg", "rect",
        "path", "text", "figure", "figcaption", "small", "g", "line", "foreignobject",
    }  # fmt: skip
    assert not [
        name for _, attributes in elements for name in attributes if name.startswith("on") or name in ("src", "href")
    ]
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_shown_as_it_is_and_stays_in_its_cell_and_its_box(page, name):
    shown = name.replace("\x00", "\ufffd").replace("\x1b", "\ufffd")
    texts = Page(page).texts
    assert texts.count(shown) > 1


@pytest.mark.slow
def test_a_warehouse_with_nothing_to_tell_makes_a_report_too():
    read = Page(make_report(warehouse().made().connection, NOW))
    assert (read.open, read.unbalanced) == ([], [])


def test_a_warehouse_that_nothing_was_loaded_into_says_so():
    with pytest.raises(FirmlakeError, match="holds no run yet"):
        make_report(Figures().made().connection, NOW)


def test_a_generation_without_views_says_what_to_do():
    with pytest.raises(FirmlakeError, match="replay"):
        make_report(warehouse(is_bare=True).connection, NOW)


def test_numbers_are_read_easily_and_shares_are_percents(page):
    assert ">-10.0%<" in page
    assert "80%" in Page(page).texts


def test_of_each_kind_of_event_the_three_that_changed_most_are_told(page):
    texts = Page(page).texts
    stakes = [text for text in texts if text.startswith("0.5 \u2192 ")]
    assert stakes == ["0.5 \u2192 0.1", "0.5 \u2192 0.2", "0.5 \u2192 0.3"]
    assert len([text for text in texts if text.startswith("total assets 1.00 \u2192 ")]) == 3


def test_a_failure_says_what_to_do(page):
    texts = Page(page).texts
    assert "The service had trouble: redrive later" in texts
    assert any(text.startswith("The service refuses the request") for text in texts)


@pytest.mark.slow
def test_a_group_is_drawn_to_three_steps_and_twenty_members_and_a_ring_ends():
    """Whatever figures the tables hold."""
    made = warehouse()
    made.files_extremes()
    ring = [(301 + (step + 1) % 12, 301 + step) for step in range(12)]
    line = [(step + 1, step) for step in range(11, 40)]
    for child, parent in (*line, *((child, 100) for child in range(200, 240)), *ring):
        made.knows(child, None)
        made.owner(child, parent, 0.6)
    page = make_report(made.made().connection, NOW)
    first, *_ = page.split("</figure>")
    boxes = [attributes for tag, attributes in Page(first).elements if attributes.get("class", "").startswith("box")]
    assert (len(boxes), {box["x"] for box in boxes}) == (20, {"0", "264"})
    assert len({(box["x"], box["y"]) for box in boxes}) == 20
    assert first.count('<path d="M200 ') == first.count(">60%<") == 19
    assert "41 members, 21 of them not drawn" in page
    assert "30 members, 26 of them not drawn" in page
    assert "12 members, 8 of them not drawn" in page
    assert "NL 00000301, in a ring" in page
    assert "company 8" in page


def test_a_question_that_duckdb_cannot_answer_is_an_error_that_says_so(folders):
    run_of(folders, 0, {ACME: {"financials": [period()]}})
    edit_warehouse(
        folders,
        "CREATE TABLE rows AS FROM portfolio; DROP TABLE portfolio; CREATE VIEW portfolio AS "
        "SELECT rows.* REPLACE (error('out of range')::BOOLEAN AS is_comparable) FROM rows RIGHT JOIN range(1) ON true",
    )
    with pytest.raises(FirmlakeError, match=r"cannot be computed .*out of range"):
        write_report(folders, NOW, memory_limit="100MB")
    assert not (folders.data / "report.html").exists()


@pytest.mark.slow
def test_parts_that_take_too_much_memory_are_left_out_and_say_so(monkeypatch):
    check = next(each for each in definitions() if each.kind == "check")
    grouped = "SELECT range::VARCHAR AS id FROM range(1_000_000) GROUP BY ALL"
    monkeypatch.setattr(sections, "definitions", lambda: [check._replace(sql=grouped)])
    made = warehouse()
    made.files_extremes()
    connection = made.made().connection
    connection.execute("SET temp_directory = ''; SET memory_limit = '40MB'")
    page = make_report(connection, NOW)
    assert f"{check.name}</bdi>" in page
    assert page.count(TOO_LARGE) == 1, "the check"
    assert "<h3>Events of the last run</h3><p>None.</p>" in page
