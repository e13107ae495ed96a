"""Faults that tests script: which requests each applies to, and what becomes of the answer."""

from __future__ import annotations

import gzip
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from .conftest import STATIC

LISTS = "/v1/lists"


def statuses(api, count):
    return [api.lists().status_code for _ in range(count)]


def raw(api):
    """Head and body of an answer, as far as the connection goes."""
    host, port = api.sandbox.base_url.removeprefix("http://").split(":")
    head = f"GET {LISTS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {api.sandbox.token}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=5) as line:
        line.sendall(head.encode())
        head, _, body = b"".join(iter(lambda: line.recv(65_536), b"")).partition(b"\r\n\r\n")
    return head.lower(), body


# --- which requests a rule applies to --------------------------------------------------------------------------------


def test_a_rule_is_for_an_endpoint_a_dataset_or_the_nth_requests_that_it_concerns(api, companies):
    api.sandbox.set_faults([{"kind": "status", "endpoint": name} for name in ("financials", "lists.overview")])
    assert api.bulk("financials", companies[:2]).status_code == 500
    assert api.single("financials", companies[0]).status_code == 500
    assert api.bulk("lookalikes", companies[:2]).status_code == 200
    assert statuses(api, 1) == [500]
    api.sandbox.set_faults([{"kind": "status", "endpoint": "financials.single"}])
    assert api.bulk("financials", companies[:2]).status_code == 200
    assert api.single("financials", companies[0]).status_code == 500
    api.sandbox.set_faults([{"kind": "status", "endpoint": "lists", "nth": [2, 4]}])
    api.bulk("financials", companies[:1])
    assert statuses(api, 5) == [200, 500, 200, 500, 200]


def test_poison_fails_every_request_that_names_the_company(api, companies):
    poison = companies[7]
    api.sandbox.set_faults([{"kind": "status", "companies": [poison]}])
    assert api.bulk("financials", companies[:20]).status_code == 500
    assert api.bulk("financials", companies[8:20]).status_code == 200
    assert api.single("lookalikes", poison).status_code == 500
    assert api.add_contacts(STATIC, {companies[0]: ["1"], poison: ["1"]}).status_code == 500
    assert api.add_contacts(STATIC, {companies[0]: ["1"]}).status_code == 200
    assert api.summary()["credits_charged"] == 12


@pytest.mark.slow
def test_probability_is_decided_by_the_request_and_not_by_the_order(api):
    paths = [f"{LISTS}?offset={offset}" for offset in range(120)] * 2

    def failures(order, threads, seed=7):
        api.sandbox.set_faults([{"kind": "status", "probability": 0.3, "seed": seed}])
        with ThreadPoolExecutor(threads) as pool:
            return sorted(zip(order, pool.map(lambda path: api.call("GET", path).status_code, order), strict=True))

    alone = failures(paths, 1)
    assert 0.2 < sum(status == 500 for _, status in alone) / len(paths) < 0.4
    assert failures(paths[::-1], 4) == alone
    assert failures(paths, 1, seed=8) != alone


def test_faults_come_after_authorization_and_rate_limit(api):
    api.sandbox.set_options(requests_per_minute=1, rate_limit_kind="sliding-window")
    api.sandbox.set_faults([{"kind": "status"}])
    assert api.call("GET", LISTS, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert statuses(api, 2) == [500, 429]


# --- instead of the work ---------------------------------------------------------------------------------------------

ERRORS = [
    (503, {"message": "Down"}, {}),
    *((429, {}, {"retry-after": wait}) for wait in ("7200", "soon", "-1", "", "Wed, 21 Oct 2015 07:28:00 GMT")),
    (302, {}, {"location": "http://a.test/"}),
]


def test_an_error_has_any_status_and_headers_and_does_no_work(api, companies):
    for status, message, headers in ERRORS:
        api.sandbox.set_faults([{"kind": "status", "status": status, "headers": headers, **message}])
        answer = api.bulk("financials", companies[:2])
        assert answer.status_code == status
        assert {name: answer.headers[name] for name in headers} == headers
        assert not message or answer.json() == {"status": status, **message}
    assert api.summary()["credits_charged"] == 0


def test_a_token_may_expire_and_credits_may_run_out(api, companies):
    api.sandbox.set_faults([{"kind": "exhaust_credits", "nth": [3], "balance": 1}])
    assert [api.single("financials", company).status_code for company in companies[:4]] == [200, 200, 200, 402]
    assert api.single("lookalikes", companies[0]).status_code == 200
    api.sandbox.set_faults([{"kind": "expire_token", "nth": [2]}])
    assert statuses(api, 3) == [200, 401, 401]
    assert api.call("GET", LISTS, headers={"Authorization": "Bearer second"}).status_code == 200


def test_a_delay_comes_before_the_work_and_a_hanging_request_is_never_answered(api, companies):
    api.sandbox.set_faults([{"kind": "delay", "seconds": 0.2, "times": 1}, {"kind": "hang", "nth": [2]}])
    began = time.monotonic()
    assert statuses(api, 1) == [200]
    assert time.monotonic() - began >= 0.2
    with pytest.raises(httpx.ReadTimeout):
        api.call("GET", f"/v1/companies/{companies[0][:2]}/{companies[0][2:]}/financials", timeout=0.1)
    assert statuses(api, 1) == [200]
    assert api.summary()["credits_charged"] == 0


# --- on the connection -----------------------------------------------------------------------------------------------


def test_a_reset_comes_before_any_work_and_an_answer_may_be_lost_after_it(api, companies):
    for kind, charged in (("reset", 0), ("lose", 2)):
        api.sandbox.set_faults([{"kind": kind, "nth": [1]}])
        with pytest.raises(httpx.ReadError):
            api.bulk("financials", companies[:2])
        assert api.summary()["credits_charged"] == charged
    assert api.summary()["by_outcome"] == {"no answer": 2}
    api.sandbox.set_faults([{"kind": "lose", "nth": [1]}])
    with pytest.raises(httpx.ReadError):
        api.add_contacts(STATIC, {companies[0]: ["1"]})
    assert api.add_contacts(STATIC, {companies[0]: ["1"]}).json()["message"].startswith("0 contacts")


def test_an_answer_may_break_off_within_its_body(api, companies):
    for kind, error in (("reset_body", httpx.ReadError), ("truncate", httpx.RemoteProtocolError)):
        for count in (None, 0, 10):
            api.sandbox.set_faults([{"kind": kind, "bytes": count, "nth": [1]}])
            with pytest.raises(error):
                api.bulk("financials", companies[:50])
            assert api.bulk("financials", companies[:50]).status_code == 200
    api.sandbox.set_faults([{"kind": "truncate", "bytes": 10}])
    head, body = raw(api)
    assert body == b'{"data":[{'
    assert int(head.partition(b"content-length: ")[2].split()[0]) > 1000, "it announces all"


def test_a_trickle_arrives_whole_in_the_end(api):
    whole = api.lists().content
    api.sandbox.set_faults([{"kind": "trickle", "bytes": 200, "seconds": 0.01}])
    began = time.monotonic()
    assert api.lists().content == whole
    assert time.monotonic() - began > 0.01 * len(whole) / 200


# --- wrong bodies with status 200 ------------------------------------------------------------------------------------

WRONG = {
    "cut": b"[{", "html": b"<!DOCTYPE", "empty": b"", "null": b"null", "error": b'{"status":500', "empty_object": b"{}",
    "empty_list": b"[]",
}  # fmt: skip


def test_a_body_may_be_none_though_the_work_was_done(api, companies):
    for body, start in WRONG.items():
        api.sandbox.set_faults([{"kind": "wrong_body", "body": body}])
        answer = api.bulk("financials", companies[:3])
        assert (answer.status_code, answer.content[: len(start)]) == (200, start)
        if body in ("cut", "html", "empty"):
            with pytest.raises(ValueError, match="char"):
                answer.json()
        else:
            answer.json()
    assert api.summary()["credits_charged"] == 3
    api.sandbox.set_faults([{"kind": "wrong_body", "body": "nested", "depth": 300_000}])
    assert api.lists().content == b"[" * 300_000 + b"]" * 300_000


def test_a_gzip_bomb_is_small_valid_and_large_within(api):
    api.sandbox.set_faults([{"kind": "gzip_bomb", "megabytes": 20}])
    head, body = raw(api)
    assert b"content-encoding: gzip" in head
    assert len(body) < 100_000
    content = gzip.decompress(body)
    assert (len(content), json.loads(content)) == (20_000_002, [])


# --- elements, totals, pages, fields ---------------------------------------------------------------------------------


def spoil(api, asked, /, dataset="financials", **rule):
    """The right elements and the spoilt ones."""
    api.sandbox.set_faults([])
    right = api.bulk(dataset, asked[:10]).json()
    api.sandbox.set_faults([rule])
    return right, api.bulk(dataset, asked[:10]).json()


ANOMALIES = {
    "missing": lambda right: right[:3] + right[4:],
    "doubled": lambda right: [*right, right[3]],
    "contradictory": lambda right: [*right, right[3] | {"data": None, "message": "Company not found"}],
    "reordered": lambda right: right[::-1],
    "message": lambda right: [element | {"message": "Answered in part"} for element in right],
}


def test_elements_may_be_wrong_in_so_many_ways(api, companies):
    for anomaly, expected in ANOMALIES.items():
        of = {"count": 0} if anomaly in ("reordered", "message") else {"companies": [companies[3]]}
        right, spoilt = spoil(api, companies, kind="elements", anomaly=anomaly, **of)
        assert spoilt == expected(right), anomaly
    right, spoilt = spoil(api, companies, kind="elements", anomaly="foreign")
    assert spoilt[:-1] == right
    assert spoilt[-1]["identifier"] not in [element["identifier"] for element in right]
    drawn = [spoil(api, companies, kind="elements", anomaly="missing", count=4, seed=seed)[1] for seed in range(9)]
    assert all(len(spoilt) == 6 and all(element in right for element in spoilt) for spoilt in drawn)
    assert any(other != drawn[0] for other in drawn)


def test_totals_may_change_between_pages_which_may_be_smaller_than_asked(api, companies):
    right = api.bulk("financials", companies[:5], offset=1).json()
    api.sandbox.set_faults([{"kind": "totals", "by": 2}])
    first, second = (api.bulk("financials", companies[:5], offset=offset).json() for offset in (0, 1))
    assert [one["pagination"]["total"] for one in first] == [one["pagination"]["total"] for one in right]
    assert [one["pagination"]["total"] for one in second] == [one["pagination"]["total"] + 2 for one in right]
    for is_silent, limit in ((False, 2), (True, 5)):
        api.sandbox.set_faults([{"kind": "small_pages", "limit": 2, "is_silent": is_silent}])
        answer = api.single("financials", companies[0], limit=5).json()
        assert len(answer["data"]) == min(2, answer["pagination"]["total"])
        lists = api.lists(limit=5).json()
        assert (answer["pagination"]["limit"], len(lists["data"]), lists["pagination"]["limit"]) == (limit, 2, limit)


def values(elements, field):
    return [record["profitability"].get(field, "nothing") for element in elements for record in element["data"]]


LITERALS = {"1e30": 1e30, "1" + "0" * 30: 10**30, "12.345": 12.345, "null": None, "{}": {}, '"n/a"': "n/a"}
DRIFTS = [
    *(
        ({"change": "literal", "literal": text}, "grossMargin", lambda _, v=value: v)
        for text, value in LITERALS.items()
    ),
    ({"change": "vanished"}, "grossMargin", lambda _: "nothing"),
    ({"change": "renamed"}, "grossMarginV2", lambda right: right),
    ({"change": "unknown"}, "grossMargin", lambda right: right),
    ({"change": "text"}, "grossMargin", str),
]
"""A change of the field grossMargin, and what each record then has instead, under which name."""


def test_a_field_may_hold_any_json_vanish_be_renamed_joined_or_quoted(api, companies):
    for change, name, expected in DRIFTS:
        right, spoilt = spoil(api, companies, kind="drift", field="grossMargin", count=0, **change)
        assert values(spoilt, name) == [expected(one) for one in values(right, "grossMargin")], change
        if change == {"change": "unknown"}:
            assert all(isinstance(one, dict) for one in values(spoilt, "unheardOf"))
    digits = "0.1234567890123456789012345"
    api.sandbox.set_faults([{"kind": "drift", "field": "ebit", "change": "literal", "literal": digits, "count": 1}])
    assert f'"ebit":{digits},'.encode() in api.bulk("financials", companies[:2]).content, "to the last digit"
    of = {"field": "score", "change": "text", "companies": [companies[2]]}
    right, spoilt = spoil(api, companies, "lookalikes", kind="drift", **of)
    assert spoilt[:2] + spoilt[3:] == right[:2] + right[3:]
    assert all(isinstance(entry["score"], str) for entry in spoilt[2]["data"])


def test_faults_of_several_kinds_come_together_and_error_answers_are_not_spoilt(api, companies):
    right = api.bulk("financials", companies[:10]).json()
    missing = {"kind": "elements", "anomaly": "missing"}
    api.sandbox.set_faults(
        [
            {"kind": "elements", "anomaly": "reordered"},
            {**missing, "companies": [companies[0]]},
            {"kind": "delay", "seconds": 0.01},
            {"kind": "trickle", "bytes": 50_000, "seconds": 0.001},
        ]
    )
    assert api.bulk("financials", companies[:10]).json() == right[:0:-1]
    api.sandbox.set_faults([missing, {"kind": "wrong_body", "body": "null"}])
    assert api.bulk("financials", []).json()["status"] == 400
    api.sandbox.set_faults([{"kind": "drift", "field": "success", "change": "literal", "literal": "false"}])
    answer = api.add_contacts(STATIC, {companies[0]: ["1"]}).json()
    assert (answer["success"], answer["message"]) == (False, "1 contact added to the list")
