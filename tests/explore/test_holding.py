"""The application reads one generation, finds companies in it, and goes on to the next one by itself."""

from __future__ import annotations

import shutil

import pytest

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.explore.holding import PREPARED, Newest
from support import ACME, BOLT, CIRC, publish_list, query

from .companies import HOSTILE, publish_companies


@pytest.fixture(scope="module")
def data(built, tmp_path_factory):
    folders = Folders(tmp_path_factory.mktemp("explore") / "data")
    shutil.copytree(built(publish_companies), folders.data, symlinks=True)
    publish_list(folders, [ACME, CIRC], day=1)
    return folders


@pytest.fixture(scope="module")
def holding(data):
    return Newest(data).holding()


def test_what_is_prepared_is_what_the_views_say(holding, data):
    for view in PREPARED:
        sql = f"SELECT to_json(v)::VARCHAR AS line FROM {view} v ORDER BY ALL"
        assert [line for (line,) in holding.ask(sql).rows()] == [line for (line,) in query(data, sql)], view


@pytest.mark.parametrize(
    ("question", "values", "countries"),
    [
        # A company is found by a part of its name or number, also within a list.
        ("find", {"text": "IMG src", "list": None}, ["NL"]),
        ("find", {"text": "403.227", "list": None}, ["BE"]),
        ("find", {"text": "company", "list": "customers"}, ["BE", "FR"]),
        ("find", {"text": "%", "list": None}, []),
        ("portfolio", {"list": None}, ["BE", "NL", "FR"]),
        ("portfolio", {"list": "customers"}, ["BE", "FR"]),
        ("members", {"head": "NL24202194"}, ["NL", "BE"]),
        ("changes", {"list": "customers", "kinds": ("company_appeared",)}, ["BE", "FR"]),
        ("changes", {"list": None, "kinds": ("company_gone",)}, []),
        ("peers", {"country": "BE", "number": ACME.company_number}, ["FR", "NL"]),
    ],
)
def test_questions_are_answered_about_all_companies_or_those_of_a_list(holding, question, values, countries):
    assert sorted(holding.answer(question, **values)["country"].to_list()) == sorted(countries)


def test_groups_and_alerts_are_those_of_the_report(holding):
    [head] = holding.groups().rows(named=True)
    assert (head["head_id"], head["members"]) == ("NL24202194", 2)
    assert len(holding.alerts(None, with_closed=False)) == 3
    assert holding.alerts("customers", with_closed=True)["country"].to_list() == ["BE", "FR"]


def test_the_page_of_a_company_is_that_of_the_command(holding):
    page = holding.page(BOLT)
    assert HOSTILE not in page
    assert HOSTILE.replace("<", "&lt;").replace(">", "&gt;") in page
    with pytest.raises(UsageError, match="does not hold BE 0000000097"):
        holding.page(Company("BE", "0000000097"))


def test_free_sql_reaches_nothing_but_the_warehouse_and_returns_so_much(holding):
    refused = [
        "FROM read_csv('/etc/passwd')", "COPY companies TO '/tmp/x.csv'", "INSTALL httpfs", "FROM no",
        "DROP TABLE portfolio", "SELECT 1; DROP TABLE portfolio", "CREATE TEMP TABLE x AS SELECT 1", "",
    ]  # fmt: skip
    large = ["SELECT repeat('x', 1000000) FROM range(100)", "SELECT list(i) FROM range(9000000) t(i)"]
    for sql, says in [*((sql, None) for sql in refused), *((sql, "more than 64 MB") for sql in large)]:
        with pytest.raises(UsageError, match=says):
            holding.ask_freely(sql)
    rows, has_more = holding.ask_freely("SELECT country FROM portfolio ORDER BY ALL")
    assert (rows["country"].to_list(), has_more) == (["BE", "FR", "NL"], False)
    rows, has_more = holding.ask_freely("FROM range(100000)")
    assert (len(rows), has_more) == (10_000, True)


def test_a_newer_generation_is_opened_while_the_earlier_one_goes_on_answering(folders, copy_of):
    with pytest.raises(UsageError, match="firmlake run LIST"):
        Newest(folders).holding()
    copy_of(publish_companies)
    shown = Newest(folders)
    first = shown.holding()
    assert shown.holding() is first
    publish_companies(folders, 1)
    second = shown.holding()
    assert second.number == first.number + 1
    assert [one.answer("generation")["run_count"].item() for one in (first, second)] == [1, 2]
