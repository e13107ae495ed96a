"""The pages are true: commands, options, settings and files exist, what is made from the code is, answers are right."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
import runpy
from pathlib import Path

import click
import duckdb
import pytest

import firmlake
from firmlake.core import errors
from firmlake.core.settings import RunSettings, Settings
from firmlake.core.work import utc_now
from firmlake.delivery.list_file import list_added
from firmlake.rebuild.replay import replay
from firmlake.tables.schemas import TABLES
from firmlake.warehouse.generations import ask, kept_open, list_generations
from firmlake.warehouse.views import definitions
from lake import Lake
from support import commands

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "data/README.md", *sorted((ROOT / "docs").glob("*.md"))]
page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)

# --- names -----------------------------------------------------------------------------------------------------------


def test_the_readme_names_commands_that_exist_every_table_and_every_exit_code():
    blocks = "".join(re.findall(r"```sh\n(.*?)```", README, re.S))
    named = set(re.findall(r"`(?:\.venv/bin/)?firmlake ([a-z-]+)", README))
    named |= set(re.findall(r"firmlake ([a-z-]+)", blocks))
    assert len(named) > 8
    assert named <= commands().keys()
    assert set(TABLES) <= set(re.findall(r"`(\w+)`", README))
    rows = re.findall(r"^\| ([\d, ]+) \|", README, re.M)
    documented = {int(code) for row in rows for code in row.split(",")}
    assert documented == {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    for mark in ("first", "tests"):  # blocks for CI
        assert re.search(rf"<!-- {mark} -->\n```sh\n[^\n]+\n```", README)


@page
def test_every_link_of_a_page_leads_somewhere_and_every_module_and_setting_that_it_names_exists(path):
    text = path.read_text()
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", text)
    assert not [target for target in targets if not (path.parent / target).exists()]
    modules = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text)
    roots = (ROOT / "src/firmlake", ROOT / "src", ROOT)
    assert not [name for name in modules if not any((root / name).exists() for root in roots)]
    sections = "|".join(Settings.__struct_fields__)
    for key in set(re.findall(rf"`((?:{sections})\.[a-z_.]+)`", text)):
        value: object = Settings()
        for name in key.split(".") if not key.endswith(".py") else ():
            value = getattr(value, name)


@page
def test_every_option_that_is_named_exists(path):
    known = commands()
    for name, line in re.findall(r"(?:^|[`\s/])firmlake ([a-z-]+)([^`\n]*)", path.read_text(), re.M):
        command = known.get(name)
        words = line.partition(" #")[0].split()
        while isinstance(command, click.Group) and words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        if command and name != "sandbox":
            options = {option for parameter in command.params for option in parameter.opts}
            named = {found for word in words for found in re.findall(r"^--[a-z]+(?:-[a-z]+)*", word)}
            assert named <= options, line


def test_modules_have_at_most_600_lines_functions_60_live_in_packages_and_the_architecture_lists_these():
    for path in (path for folder in ("src", "flows") for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text()
        assert text.count("\n") <= 600, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 60, f"{path}: {node.name}"
    loose = [path.name for path in (ROOT / "src/firmlake").glob("*.py") if not path.name.startswith("__")]
    assert len(loose) <= 6
    packages = {path.parent.name for path in (ROOT / "src/firmlake").glob("*/__init__.py")}
    listed = (ROOT / "docs/architecture.md").read_text().partition("## The packages")[2].partition("## Where")[0]
    assert packages == set(re.findall(r"`([a-z_]+)/`", listed))


# --- pages made from the code ----------------------------------------------------------------------------------------


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_dictionary_is_made_from_schema_and_views_and_says_each_meaning_once():
    """A page that nobody can read through would be searched, not read."""
    script = load_script("make_dictionary")
    text = script.DICTIONARY.read_text("utf-8")
    assert text == script.make_dictionary(), "run docs/make_dictionary.py"
    assert len(text.split()) <= 18_000
    assert text.count("which is not stated") <= 5


def test_llms_txt_is_made_from_the_pages():
    script = load_script("make_llms")
    assert script.LLMS.read_text("utf-8") == script.make_llms(), "run docs/make_llms.py"


# --- answers of the sample world -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample_world(sandbox_process, tmp_path_factory):
    """The warehouse that `firmlake demo` makes, as older DuckDB clients can read it."""
    sandbox, options = sandbox_process
    sandbox.set_options(**options)
    sandbox.reset()
    watch = str(ROOT / "config/watch.toml")
    own = {"api__totals": "company", "paths__alert_rules": watch, "run__storage_version": "v1.4.0"}
    lake = Lake(tmp_path_factory.mktemp("sample"), sandbox, **own)
    assert lake.call("run", str(ROOT / "data/intake/sample.csv")).code == 0
    return lake


def test_every_answer_in_the_cookbook_is_what_the_sample_world_says(sample_world):
    script = load_script("make_cookbook")
    text, say = script.COOKBOOK.read_text("utf-8"), lambda sql: ask(sample_world.folders, sql)
    assert text.count("```sql") >= 25
    with kept_open(sample_world.folders):
        assert text == script.answer_all(text, say), "run docs/make_cookbook.py"
    wrong = "### One?\n\n```sql\nSELECT 1 AS one\n```\n\n| one |\n| --- |\n| 2 |\n\nMore.\n"
    assert script.answer_all(wrong, say) == wrong.replace("| 2 |", "| 1 |")
    used = set(re.findall(r"\w+", text))
    asked = {one.name for one in definitions() if one.kind in ("view", "macro")} - {f"{name}_as_of" for name in TABLES}
    assert asked - used <= {
        "financials_known_on", "load_times", "newest_measures", "newest_measures_in", "nobody", "shareholdings",
        "group_branches", "group_of", "tops_of", "ultimate_owners",
    }  # fmt: skip


@pytest.mark.slow
def test_every_line_of_the_guide_is_answered_and_it_names_only_what_exists(sample_world):
    text = (ROOT / "docs/which_view.md").read_text("utf-8")
    lines = re.findall(r"```sql\n(.*?)\n```", text, re.DOTALL)
    assert len(lines) == 10
    for line in lines:
        assert "\n" not in line
        ask(sample_world.folders, line.replace("'customers', 'limit'", "'sample', 'company_number'"))
    named = set(re.findall(r"`([a-z]\w+)[(`]", text.partition("## By subject")[2].partition("## Words")[0]))
    sql = "SELECT function_name FROM duckdb_functions() UNION SELECT table_name FROM duckdb_columns()"
    assert named - {name for (name,) in ask(sample_world.folders, sql)[1]} == set()


@pytest.mark.slow
def test_a_run_makes_the_warehouse_in_the_storage_version_of_the_settings(sample_world):
    with duckdb.connect(list_generations(sample_world.folders)[0], read_only=True) as connection:
        ((tags,),) = connection.execute("SELECT tags FROM duckdb_databases() WHERE NOT internal").fetchall()
    assert tags["storage_version"] == "v1.4.0+"


@pytest.mark.slow
def test_every_view_that_a_list_takes_columns_from_has_one_row_for_a_company(sample_world):
    relations = {each.relation for each in list_added()}
    assert {"companies", "company_figures", "company_status", "latest_accounts", "portfolio"} <= relations
    for relation in relations:
        sql = f"SELECT count(*), count(DISTINCT (country, company_number)) FROM {relation}"
        _, [(count, distinct)] = ask(sample_world.folders, sql)
        assert count == distinct > 0, relation


@pytest.mark.slow
def test_a_replay_has_the_same_views_and_the_report_is_one_file_in_the_data_folder_or_where_one_says(sample_world):
    question = "SELECT head_id, id FROM groups(0.5) ORDER BY ALL"
    before = ask(sample_world.folders, question)
    replay(sample_world.folders, utc_now, settings=RunSettings(keep_generations=2, storage_version="v1.5.0"))
    assert before[1]
    assert ask(sample_world.folders, question) == before
    written = Path(sample_world.call("report").out.strip())
    assert written == sample_world.data / "report.html"
    elsewhere = sample_world.folder / "seen.html"
    assert sample_world.call("report", "--to", str(elsewhere)).code == 0
    assert elsewhere.exists()
    assert written.read_text("utf-8").rstrip().endswith("</html>")


def test_the_page_of_a_company_is_written_without_a_service(sample_world, tmp_path):
    page = tmp_path / "page.html"
    done = sample_world.call("company", "be", "0403.227.515", "--page", str(page))
    assert (done.code, done.out.strip()) == (0, str(page))
    text = page.read_text("utf-8")
    assert text.count("<svg") >= 3
    assert "BE 0403227515" in text


# --- Python ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_examples_of_the_package_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(firmlake)
    assert (done.failed, done.attempted > 5) == (0, True)


def test_the_notebook_runs_without_a_network(tmp_path, monkeypatch):
    pytest.importorskip("marimo")
    monkeypatch.chdir(tmp_path)
    _, variables = runpy.run_path(str(ROOT / "docs/from_python.py"))["app"].run()
    assert variables["found"].lines["status"].to_list() == ["enriched"] * 4 + ["refused"]
    assert variables["revenue"].height > 0
