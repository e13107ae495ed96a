"""The overview is complete although lists move while it is read, and says so where it cannot be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from firmlake.api.exchange import Answer
from firmlake.api.requests import Request
from firmlake.api.service import connect
from firmlake.core.errors import (
    ForbiddenError,
    RequestRefusedError,
    ServiceError,
    UnusableAnswerError,
)
from firmlake.core.settings_layers import load_settings
from firmlake.landing.segments import list_segments, read_segment
from firmlake.service_lists.overview import SWEEPS_MAX, Overview, list_overviews, read_list_page, take_overview

ENDPOINT = {"endpoint": "lists.overview"}
FIRST, LAST = 1001, 1020
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture
def take(sandbox, folders, monkeypatch):
    """Read an overview of twenty lists, by pages of six."""
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    sandbox.set_options(lists=20)

    def take(kind: Any = "OVERVIEW", *faults: dict[str, Any], **settings: object):
        sandbox.set_faults([{**ENDPOINT, **fault} for fault in faults])
        flags = {
            "api.base_url": sandbox.base_url,
            "api.requests_per_minute": "0",
            "api.retry_wait_max_seconds": "0",
            "api.page_limit_max": "6",
            **{name.replace("__", "."): str(value) for name, value in settings.items()},
        }
        chosen = load_settings(flags=flags, environment={})[0]
        with connect(chosen) as client:
            return take_overview(client, chosen, folders, "this machine", kind)

    return take


def landed(folders):
    return [
        one
        for folder in sorted(folders.overviews.iterdir())
        for path in list_segments(folder)
        for one in read_segment(path)
    ]


def values(overview: Overview, column: str) -> list[Any]:
    return overview.gather().frame[column].to_list()


def change(kind: str, number: int = 0, *nth: int) -> dict[str, Any]:
    return {"kind": "change_lists", "change": kind, "list": number, "nth": nth}


class Paged:
    """A client of a service with lists of ids 1 to `count`, which words its pages in a way of its own."""

    def __init__(self, count: int, largest: int, pagination: Callable[[int, int], Any]) -> None:
        self.count, self.largest, self.pagination = count, largest, pagination
        self.sent = 0

    def send(self, request: Request, check: Callable[[bytes], object], on_answer: Callable[[Answer], None]) -> None:
        first = (request.offset or 0) + 1
        data = [{"id": n, "type": "STATIC"} for n in range(first, min(self.count, first + self.largest - 1) + 1)]
        body = json.dumps({"data": data, **self.pagination(len(data), self.count)}).encode()
        check(body)
        self.sent += 1
        on_answer(Answer(request, 1, 200, "", {}, body, NOON, 0.1, len(body)))


@pytest.mark.parametrize(
    "pagination",
    [
        lambda shown, count: {"pagination": {"limit": 10, "total": str(count)}},
        lambda shown, count: {"pagination": {"limit": 10, "total": shown}},
        lambda shown, count: {"pagination": {"limit": 10, "total": None}},
        lambda shown, count: {"pagination": None},
        lambda shown, count: {},
    ],
    ids=["text", "of the page", "null", "no pagination", "absent"],
)
@pytest.mark.parametrize("count", [7, 10, 30, 37])
@pytest.mark.parametrize("asked", [10, 500])
def test_no_list_is_left_out_whatever_total_the_service_states(folders, pagination, count, asked):
    """Pages have ten lists: as many as were asked for, or fewer."""
    client: Any = Paged(count, 10, pagination)
    settings = load_settings(flags={"api.page_limit_max": str(asked)}, environment={})[0]
    found = take_overview(client, settings, folders, "this machine")
    assert (list(found.lists), found.is_consistent) == (list(range(1, count + 1)), True)
    assert client.sent <= 2 * (count // 10 + 2)
    assert list(list_overviews(folders)) == [found]


def test_an_id_is_a_number_however_it_is_written():
    page = b'{"data": [{"id": %b, "type": "STATIC"}]}'
    for literal in (b'"1001"', b"1001.0"):
        assert read_list_page(page % literal).ids == [1001]
    with pytest.raises(UnusableAnswerError, match=r"data\[0\]\.id: an integer of more than 64 bits"):
        read_list_page(page % b"9223372036854775808")


def test_a_refusal_says_which_settings_may_help(take):
    refusal = {"kind": "status", "status": 400, "message": "limit must not be greater than 5"}
    with pytest.raises(RequestRefusedError, match=r"greater than 5.*api\.page_limit_max"):
        take("OVERVIEW", refusal)


def test_a_token_that_may_not_read_lists_is_not_told_to_leave_out_datasets(take):
    with pytest.raises(ForbiddenError) as caught:
        take("OVERVIEW", {"kind": "status", "status": 403})
    assert caught.value.next_step == "Get a token that may use it"


def test_it_holds_every_list_of_the_kind_asked_for(take):
    static, smart, both = (take(kind) for kind in ("STATIC", "SMART", "OVERVIEW"))
    assert list(both.lists) == list(range(FIRST, LAST + 1))
    assert both.lists.keys() == static.lists.keys() | smart.lists.keys()
    assert (set(values(static, "type")), set(values(smart, "type"))) == ({"STATIC"}, {"SMART"})


def test_one_page_that_holds_all_is_enough(take, folders):
    """Unless it is full: its total may be that of the page."""
    found = take(api__page_limit_max=21)
    assert (found.sweeps, found.is_consistent, len(landed(folders))) == (1, True, 1)


@pytest.mark.parametrize("is_silent", [False, True])
def test_pages_smaller_than_asked_for_leave_nothing_out(take, is_silent):
    found = take("OVERVIEW", {"kind": "small_pages", "limit": 3, "is_silent": is_silent})
    assert len(found.lists) == 20


@pytest.mark.parametrize(
    ("changes", "gone", "new"),
    [
        # One before the page vanishes: all that follow move up, and the next page begins one too late.
        ([change("vanish", FIRST, 2)], {FIRST}, set()),
        # One moves to the front from a page not read yet.
        ([change("front", LAST, 2)], set(), set()),
        ([change("appear", 0, 1, 2, 3, 4)], set(), set(range(LAST + 1, LAST + 5))),
    ],
)
def test_no_list_slips_through_while_others_come_go_and_move(take, changes, gone, new):
    found = take("OVERVIEW", *changes)
    assert found.lists.keys() == {*range(FIRST, LAST + 1)} - gone | new
    assert found.is_consistent


def test_where_lists_never_stand_still_it_ends_and_has_those_that_were_there_all_the_time(take):
    found = take("OVERVIEW", {"kind": "change_lists", "change": "appear"})
    assert (found.sweeps, found.is_consistent) == (SWEEPS_MAX, False)
    assert {*range(FIRST, LAST + 1)} <= found.lists.keys()


def test_a_service_that_shows_fewer_than_it_announces_is_not_believed(take, folders):
    with pytest.raises(ServiceError, match="states 20 lists, but pages hold 1"):
        take("OVERVIEW", {"kind": "drift", "field": "id", "change": "literal", "literal": "1"})
    assert list(list_overviews(folders)) == []


def test_an_overview_read_again_from_what_landed_is_the_same(take, folders):
    taken = [take("OVERVIEW", change("vanish", FIRST, 2)), take("STATIC")]
    assert list(list_overviews(folders)) == taken


def test_a_page_with_a_list_that_is_none_is_asked_for_again(take, folders):
    found = take("OVERVIEW", {"kind": "drift", "field": "id", "change": "vanished", "nth": [1]})
    assert len(found.lists) == 20
    assert Counter(one.header.attempt for one in landed(folders)) == {1: 4, 2: 1}


@pytest.mark.parametrize(("mode", "stays"), [("as_is", True), ("hash", False), ("omit", False)])
def test_who_made_a_list_lands_only_as_the_settings_want_it(take, folders, mode, stays):
    cut = {"kind": "truncate", "nth": [1], "bytes": 300}
    found = take("OVERVIEW", cut, lists__created_by=mode, api__page_limit_max=20)
    makers = set(values(found, "created_by"))
    bodies = [one.body for one in landed(folders)]
    assert any(b"example.com" in body for body in bodies) == stays
    assert any("example.com" in str(maker) for maker in makers) == stays
    assert (makers == {None}) == (mode == "omit")
    if mode == "hash":
        assert {len(maker or "") for maker in makers} == {32}
        assert 1 < len(makers) < 6
        assert (folders.state / "created_by.key").stat().st_mode & 0o777 == 0o600
        assert set(values(take(api__page_limit_max=20), "created_by")) == makers
    assert json.loads(bodies[-1])["pagination"]["total"] == 20
