"""Pages made from a warehouse: dictionary and cookbook are those of the code, the report is written whole."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

from firmlake.cli import firmlake
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings
from firmlake.core.settings_layers import load_settings
from firmlake.core.work import utc_now
from firmlake.delivery.list_file import list_added
from firmlake.enrich.run import enrich
from firmlake.rebuild.replay import replay
from firmlake.warehouse.generations import ask, list_generations
from firmlake.warehouse.views import definitions
from lake import TOKEN
from support import UNASKED

ROOT = Path(__file__).parents[1]


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sample_world(sandbox_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The warehouse that `firmlake demo` makes, as older DuckDB clients can read it."""
    sandbox, options = sandbox_process
    sandbox.set_options(**options)
    sandbox.reset()
    data = tmp_path_factory.mktemp("sample")
    flags = {
        "api.base_url": sandbox.base_url,
        "api.requests_per_minute": "0",
        "api.totals": "company",
        "paths.data": str(data),
        "paths.alert_rules": str(ROOT / "config/watch.toml"),
        "run.storage_version": "v1.4.0",
    }
    settings, _ = load_settings(flags=flags, environment=UNASKED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRMLAKE_API_TOKEN", TOKEN)
        (published,) = enrich(settings, ROOT / "data/intake/sample.csv", "a test")
    assert published.outcome.outcome == "done"
    return published.run.folders


def test_the_dictionary_is_made_from_schema_and_views():
    script = load_script("make_dictionary")
    assert script.DICTIONARY.read_text("utf-8") == script.make_dictionary(), "run docs/make_dictionary.py"


def test_llms_txt_is_made_from_the_pages():
    script = load_script("make_llms")
    assert script.LLMS.read_text("utf-8") == script.make_llms(), "run docs/make_llms.py"


def test_the_dictionary_says_each_meaning_once():
    """A page that nobody can read through would be searched, not read."""
    text = load_script("make_dictionary").DICTIONARY.read_text("utf-8")
    assert len(text.split()) <= 18_000
    assert text.count("which is not stated") <= 5


def test_every_answer_in_the_cookbook_is_what_the_sample_world_says(sample_world):
    script = load_script("make_cookbook")
    text = script.COOKBOOK.read_text("utf-8")
    assert text.count("```sql") >= 25
    assert text == script.answer_all(text, lambda sql: ask(sample_world, sql)), "run docs/make_cookbook.py"


def test_every_line_of_the_guide_is_answered(sample_world):
    lines = re.findall(r"```sql\n(.*?)\n```", (ROOT / "docs/which_view.md").read_text("utf-8"), re.DOTALL)
    assert len(lines) == 10
    for line in lines:
        assert "\n" not in line
        ask(sample_world, line.replace("'customers', 'limit'", "'sample', 'company_number'"))


def test_the_guide_names_only_what_exists(sample_world):
    text = (ROOT / "docs/which_view.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z]\w+)[(`]", text.partition("## By subject")[2].partition("## Words")[0]))
    known = {name for (name,) in ask(sample_world, "SELECT function_name FROM duckdb_functions() UNION "
             "SELECT table_name FROM duckdb_columns()")[1]}  # fmt: skip
    assert named - known == set()


def test_a_run_makes_the_warehouse_in_the_storage_version_of_the_settings(sample_world):
    with duckdb.connect(list_generations(sample_world)[0], read_only=True) as connection:
        ((tags,),) = connection.execute("SELECT tags FROM duckdb_databases() WHERE NOT internal").fetchall()
    assert tags["storage_version"] == "v1.4.0+"


def test_a_wrong_answer_in_the_cookbook_would_be_seen(sample_world):
    script = load_script("make_cookbook")
    text = "### One?\n\n```sql\nSELECT 1 AS one\n```\n\n| one |\n| --- |\n| 2 |\n\nMore.\n"
    right = script.answer_all(text, lambda sql: ask(sample_world, sql))
    assert right == text.replace("| 2 |", "| 1 |")


def test_every_view_that_a_list_takes_columns_from_has_one_row_for_a_company(sample_world):
    relations = {each.relation for each in list_added()}
    assert {"companies", "company_figures", "company_status", "latest_accounts", "portfolio"} <= relations
    for relation in relations:
        _, [(count, distinct)] = ask(
            sample_world, f"SELECT count(*), count(DISTINCT (country, company_number)) FROM {relation}"
        )
        assert count == distinct > 0, relation


def test_the_cookbook_shows_every_view_and_macro_there_is_to_ask():
    used = set(re.findall(r"\w+", (ROOT / "docs/cookbook.md").read_text("utf-8")))
    asked = {one.name for one in definitions() if one.kind in ("view", "macro")}
    assert asked - used <= {
        "newest_measures",
        "newest_measures_in",
        "nobody",
        "shareholdings",
        "group_branches",
        "group_of",
        "tops_of",
        "ultimate_owners",
    }


@pytest.mark.slow
def test_a_replay_has_the_same_views(sample_world):
    question = "SELECT head_id, id FROM groups(0.5) ORDER BY ALL"
    before = ask(sample_world, question)
    replay(sample_world, utc_now, settings=RunSettings(keep_generations=2, storage_version="v1.5.0"))
    assert before[1]
    assert ask(sample_world, question) == before


@pytest.mark.slow
def test_the_report_is_one_file_in_the_data_folder_or_where_one_says(sample_world, capsys, tmp_path):
    assert firmlake.main(["report", "--data", str(sample_world.data)], standalone_mode=False) == 0
    written = Path(capsys.readouterr().out.strip())
    assert written == sample_world.data / "report.html"
    elsewhere = tmp_path / "seen.html"
    command = ["report", "--data", str(sample_world.data), "--to", str(elsewhere)]
    assert firmlake.main(command, standalone_mode=False) == 0
    assert elsewhere.exists()
    assert written.read_text("utf-8").rstrip().endswith("</html>")


def test_the_page_of_a_company_is_written_without_a_service(sample_world, capsys, tmp_path):
    page = tmp_path / "page.html"
    command = ["company", "be", "0403.227.515", "--data", str(sample_world.data), "--page", str(page)]
    assert firmlake.main(command, standalone_mode=False) == 0
    assert capsys.readouterr().out.strip() == str(page)
    text = page.read_text("utf-8")
    assert text.count("<svg") >= 3
    assert "BE 0403227515" in text
