"""The application in a real browser, desktop and phone, light and dark: it opens, finds, filters, and asks nobody else.

Needs marimo, Playwright and a Chromium: `pip install marimo playwright`, `apt-get install chromium`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading

import pytest

from firmlake.core.folders import Folders
from support import ACME, BOLT

from .companies import HOSTILE, publish_companies

pytest.importorskip("marimo")
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.skipif(not CHROMIUM, reason="no Chromium")]

DESKTOP, PHONE = {"width": 1360, "height": 1000}, {"width": 390, "height": 844}
SECONDS = 40_000
"""How long an element may take to show, in milliseconds; a busy machine is slow."""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of the application, and its data folder."""
    folders = Folders(tmp_path_factory.mktemp("browser") / "data")
    publish_companies(folders, 0)
    command = [sys.executable, "-m", "firmlake", "explore", "--data", str(folders.data), "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        lines = (re.search(r"http://\S+(?=;)", line) for line in server.stderr)
        address = next(found[0] for found in lines if found)
        threading.Thread(target=server.stderr.read, daemon=True).start()
        yield address, folders
        server.terminate()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(params=[("light", DESKTOP), ("dark", PHONE)], ids=["light desktop", "dark phone"])
def page(request, browser, served):
    """A page of the application, open; afterwards nothing may have gone wrong on it, nor asked another host."""
    scheme, viewport = request.param
    context = browser.new_context(color_scheme=scheme, viewport=viewport)
    page, wrong = context.new_page(), []
    page.set_default_timeout(SECONDS)
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(f"{said.text} {said.location}") if said.type == "error" else None)
    own = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
    page.on("request", lambda sent: None if sent.url.startswith(own) else wrong.append(sent.url))
    page.goto(served[0])
    page.get_by_text("Median growth").wait_for()
    yield page
    context.close()
    assert wrong == []


def row(page, company):
    return page.get_by_role("row", name=re.compile(company.company_number))


def open_tab(page, name):
    page.get_by_role("tab", name=name).click()


def test_every_page_opens_and_hostile_names_stay_texts(page):
    row(page, BOLT).wait_for()
    assert page.get_by_text(HOSTILE).first.is_visible()
    open_tab(page, "Groups")
    page.get_by_role("row", name=re.compile("img src")).get_by_role("checkbox").click()
    row(page, ACME).wait_for()
    open_tab(page, "Changes")
    page.get_by_text(re.compile("company appeared|period restated")).first.wait_for()  # whatever was published last
    open_tab(page, "Alerts")
    page.get_by_text("equity 500.50", exact=False).first.wait_for()
    open_tab(page, "SQL")
    page.get_by_role("button", name="Run").click()
    row(page, BOLT).wait_for()


def test_a_company_is_searched_and_shown_with_its_peers(page):
    open_tab(page, "Company")
    page.get_by_placeholder("Name or number").fill("img src")
    row(page, BOLT).get_by_role("checkbox").click()
    heading = page.frame_locator("iframe").locator("h1")
    heading.wait_for()
    assert heading.inner_text() == HOSTILE
    page.get_by_text("The companies with which this company is compared").wait_for()


def test_a_click_on_a_bar_filters_figures_and_table(page):
    bars = page.locator("marimo-vega").first.locator("canvas, svg").first
    row(page, ACME).wait_for()
    box = bars.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.6)  # the second of BE, NL and FR
    row(page, ACME).wait_for(state="detached")
    assert row(page, BOLT).is_visible()
    assert page.get_by_text("of 3 with accounts").is_visible()


def test_a_new_generation_shows_without_a_restart(page, served):
    number = int(re.search(r"Generation (\d+)", page.get_by_text("Generation ").first.inner_text())[1])
    publish_companies(served[1], number)
    page.get_by_text(f"Generation {number + 1}: ").wait_for()
