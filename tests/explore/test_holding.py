"""The application reads one generation, finds companies in it, and goes on to the next one by itself."""

from __future__ import annotations

import pytest

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.explore import questions
from firmlake.explore.holding import PREPARED, Newest
from support import ACME, BOLT, CIRC, publish_list, query

from .companies import HOSTILE, publish_companies


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folders = Folders(tmp_path_factory.mktemp("explore") / "data")
    publish_companies(folders, 0)
    publish_list(folders, [ACME, CIRC], day=1)
    return folders


@pytest.fixture(scope="module")
def holding(data):
    return Newest(data).holding()


def test_what_is_prepared_is_what_the_views_say(holding, data):
    for view in PREPARED:
        sql = f"SELECT to_json(v)::VARCHAR AS line FROM {view} v ORDER BY ALL"
        assert [line for (line,) in holding.ask(sql).rows()] == [line for (line,) in query(data, sql)], view


def test_a_company_is_found_by_a_part_of_its_name_or_number_also_within_a_list(holding):
    assert questions.find(holding, "IMG src", questions.ALL)["company_number"].to_list() == [BOLT.company_number]
    assert questions.find(holding, "403.227", questions.ALL)["country"].to_list() == ["BE"]
    assert questions.find(holding, "company", "customers")["country"].to_list() == ["BE", "FR"]
    assert questions.find(holding, "%", questions.ALL).is_empty()
    assert questions.find(holding, " ", questions.ALL).is_empty()


def test_a_list_narrows_the_portfolio(holding):
    assert questions.lists(holding) == [questions.ALL, "customers"]
    assert len(questions.portfolio(holding, questions.ALL)) == 3
    assert questions.portfolio(holding, "customers")["country"].to_list() == ["BE", "FR"]


def test_groups_have_their_members(holding):
    [head] = questions.groups(holding).rows(named=True)
    assert (head["head_id"], head["members"]) == ("NL24202194", 2)
    members = questions.members(holding, head["head_id"])
    assert members["company_number"].to_list() == [BOLT.company_number, ACME.company_number]


def test_the_page_of_a_company_is_that_of_the_command(holding):
    page = holding.page(BOLT)
    assert HOSTILE not in page
    assert HOSTILE.replace("<", "&lt;").replace(">", "&gt;") in page
    with pytest.raises(UsageError, match="does not hold BE 0000000097"):
        holding.page(Company("BE", "0000000097"))


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_csv('/etc/passwd')",
        "COPY companies TO '/tmp/x.csv'",
        "INSTALL httpfs",
        "FROM no",
        "DROP TABLE portfolio",
        "SELECT 1; DROP TABLE portfolio",
        "CREATE TEMP TABLE x AS SELECT 1",
        "",
    ],
)
def test_free_sql_reaches_nothing_but_the_warehouse(holding, sql):
    with pytest.raises(UsageError):
        holding.ask_freely(sql)
    assert len(holding.ask_freely("FROM portfolio")[0]) == 3


def test_free_sql_returns_rows_up_to_a_limit(holding):
    rows, has_more = holding.ask_freely("SELECT country FROM companies ORDER BY ALL")
    assert (rows["country"].to_list(), has_more) == (["BE", "FR", "NL"], False)
    rows, has_more = holding.ask_freely("FROM range(100000)")
    assert (len(rows), has_more) == (10_000, True)


@pytest.mark.parametrize(
    "sql", ["SELECT repeat('x', 1000000) FROM range(1000)", "SELECT list(i) FROM range(20000000) t(i)"]
)
def test_free_sql_returns_text_up_to_a_limit(holding, sql):
    with pytest.raises(UsageError, match="more than 64 MB"):
        holding.ask_freely(sql)
    assert holding.ask_freely("SELECT 1 AS a, 2 AS a, NULL")[0].height == 1


def test_a_newer_generation_is_opened_aside_and_then_shown(folders):
    publish_companies(folders, 0)
    told = []
    shown = Newest(folders, told.append)
    first = shown.holding()
    publish_companies(folders, 1)
    shown.holding()
    assert shown._coming
    shown._coming.join()
    second = shown.holding()
    assert second.number == first.number + 1
    assert questions.generation(first)["run_count"] == 1, "a session may still ask it"
    assert questions.generation(second)["run_count"] == 2
    assert len(told) == 2


def test_nothing_published_yet_is_an_error_with_the_next_step(tmp_path):
    with pytest.raises(UsageError, match="firmlake run LIST"):
        Newest(Folders(tmp_path)).holding()
