"""The overview is complete although lists move while it is read, and says so where it cannot be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from firmlake.api.exchange import Answer
from firmlake.api.requests import Request
from firmlake.api.service import connect
from firmlake.core.errors import ForbiddenError, RequestRefusedError, ServiceError, UnusableAnswerError
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
            "paths.data": str(folders.data),
            **{name.replace("__", "."): str(value) for name, value in settings.items()},
        }
        chosen = load_settings(flags=flags, environment={})[0]
        with connect(chosen) as client:
            found = take_overview(client, chosen, kind)
        assert list_overviews(folders)[-1] == found, "read again from what landed"
        return found

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
    flags = {"api.page_limit_max": str(asked), "api.base_url": "sandbox", "paths.data": str(folders.data)}
    found = take_overview(client, load_settings(flags=flags, environment={})[0])
    assert (list(found.lists), found.is_consistent) == (list(range(1, count + 1)), True)
    assert client.sent <= 2 * (count // 10 + 2)
    assert list(list_overviews(folders)) == [found]


def test_an_id_is_a_number_however_it_is_written():
    page = b'{"data": [{"id": %b, "type": "STATIC"}]}'
    for literal in (b'"1001"', b"1001.0"):
        assert read_list_page(page % literal).ids == [1001]
    with pytest.raises(UnusableAnswerError, match=r"data\[0\]\.id: an integer of more than 64 bits"):
        read_list_page(page % b"9223372036854775808")


def test_it_holds_every_list_of_the_kind_asked_for(take):
    static, smart, both = (take(kind) for kind in ("STATIC", "SMART", "OVERVIEW"))
    assert list(both.lists) == list(range(FIRST, LAST + 1))
    assert both.lists.keys() == static.lists.keys() | smart.lists.keys()
    assert (set(values(static, "type")), set(values(smart, "type"))) == ({"STATIC"}, {"SMART"})


class Scene(NamedTuple):
    """Faults of the service while twenty lists are read by pages of six, and what is found.

    Attributes:
        gone, new: Lists by which the overview differs from the twenty.
        sent: Requests, counted by their attempt.
    """

    faults: list[dict[str, Any]]
    gone: frozenset[int] = frozenset()
    new: frozenset[int] = frozenset()
    sweeps: int = 1
    sent: dict[int, int] | None = None
    page_limit: int = 6


ID = {"kind": "drift", "field": "id"}
SCENES = {
    "as it is": Scene([], sent={1: 4}),
    # One page that holds all is enough, unless it is full: its total may be that of the page.
    "one page": Scene([], sent={1: 1}, page_limit=21),
    "small pages": Scene([{"kind": "small_pages", "limit": 3, "is_silent": False}]),
    "small pages unsaid": Scene([{"kind": "small_pages", "limit": 3, "is_silent": True}]),
    # One before the page vanishes: all that follow move up, and the next page begins one too late.
    "one vanishes": Scene([change("vanish", FIRST, 2)], gone=frozenset({FIRST}), sweeps=2),
    # One moves to the front from a page not read yet.
    "one moves": Scene([change("front", LAST, 2)], sweeps=2),
    "some appear": Scene([change("appear", 0, 1, 2, 3, 4)], new=frozenset(range(LAST + 1, LAST + 5)), sweeps=2),
    # A page with a list that is none is asked for again.
    "a list without an id": Scene([{**ID, "change": "vanished", "nth": [1]}], sent={1: 4, 2: 1}),
}


@pytest.mark.parametrize("name", SCENES)
def test_no_list_slips_through_small_pages_nor_while_others_come_go_and_move(take, folders, name):
    scene = SCENES[name]
    found = take("OVERVIEW", *scene.faults, api__page_limit_max=scene.page_limit)
    assert found.lists.keys() == {*range(FIRST, LAST + 1)} - scene.gone | scene.new
    assert (found.sweeps, found.is_consistent) == (scene.sweeps, True)
    assert scene.sent in (None, Counter(one.header.attempt for one in landed(folders)))


def test_where_lists_never_stand_still_it_ends_and_has_those_that_were_there_all_the_time(take):
    found = take("OVERVIEW", {"kind": "change_lists", "change": "appear"})
    assert (found.sweeps, found.is_consistent) == (SWEEPS_MAX, False)
    assert {*range(FIRST, LAST + 1)} <= found.lists.keys()


LIMIT = {"kind": "status", "status": 400, "message": "limit must not be greater than 5"}


@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        (LIMIT, RequestRefusedError, r"greater than 5.*api\.page_limit_max"),
        ({"kind": "status", "status": 403}, ForbiddenError, r"Get a token that may use it$"),
        ({**ID, "change": "literal", "literal": "1"}, ServiceError, "states 20 lists, but pages hold 1"),
    ],
)
def test_an_overview_that_cannot_be_completed_is_none_and_says_what_may_help(take, folders, fault, error, says):
    with pytest.raises(error, match=says):
        take("OVERVIEW", fault)
    assert list_overviews(folders) == []


@pytest.mark.parametrize("mode", ["as_is", "hash", "omit"])
def test_who_made_a_list_lands_only_as_the_settings_want_it(take, folders, mode):
    cut = {"kind": "truncate", "nth": [1], "bytes": 300}
    makers = set(values(take("OVERVIEW", cut, lists__created_by=mode), "created_by"))
    texts = [*map(str, makers), *(one.body.decode() for one in landed(folders))]
    assert any("example.com" in text for text in texts) == (mode == "as_is")
    assert (makers == {None}) == (mode == "omit")
    assert 1 < len(makers) < 6 or mode == "omit"
