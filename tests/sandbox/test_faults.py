import gzip
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from .calls import Api

LISTS = "/v1/lists"


def statuses(api: Api, count: int, path: str = LISTS) -> list[int]:
    return [api.call("GET", path).status_code for _ in range(count)]


def raw(api: Api) -> bytes:
    """All bytes of an answer, as far as the connection goes."""
    host, port = api.sandbox.base_url.removeprefix("http://").split(":")
    request = b"GET /v1/lists HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer secret\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=5) as line:
        line.sendall(request)
        parts = []
        while part := line.recv(65_536):
            parts.append(part)
        return b"".join(parts)


# Which requests a rule applies to.


def test_a_rule_is_for_an_endpoint_or_a_dataset(api: Api, companies: list[str]) -> None:
    rules = [{"kind": "status", "endpoint": endpoint} for endpoint in ("financials", "lists.overview")]
    api.sandbox.set_faults(rules)
    assert api.bulk("financials", companies[:2]).status_code == 500
    assert api.single("financials", companies[0]).status_code == 500
    assert api.bulk("lookalikes", companies[:2]).status_code == 200
    assert statuses(api, 1) == [500]
    api.sandbox.set_faults([{"kind": "status", "endpoint": "financials.single"}])
    assert api.bulk("financials", companies[:2]).status_code == 200
    assert api.single("financials", companies[0]).status_code == 500


def test_a_rule_is_for_the_nth_requests_that_it_concerns(api: Api, companies: list[str]) -> None:
    api.sandbox.set_faults([{"kind": "status", "endpoint": "lists", "nth": [2, 4]}])
    api.bulk("financials", companies[:1])
    assert statuses(api, 5) == [200, 500, 200, 500, 200]


def test_poison_fails_every_request_that_names_the_company(api: Api, companies: list[str]) -> None:
    poison = companies[7]
    api.sandbox.set_faults([{"kind": "status", "companies": [poison]}])
    assert api.bulk("financials", companies[:20]).status_code == 500
    assert api.bulk("financials", companies[8:20]).status_code == 200
    assert api.single("lookalikes", poison).status_code == 500
    assert api.add_contacts(1002, {companies[0]: ["1"], poison: ["1"]}).status_code == 500
    assert api.add_contacts(1002, {companies[0]: ["1"]}).status_code == 200
    assert api.summary()["credits_charged"] == 12


def test_probability_is_decided_by_the_request_and_not_by_the_order(api: Api) -> None:
    paths = [f"{LISTS}?offset={offset}" for offset in range(120)] * 2
    rule = {"kind": "status", "probability": 0.3, "seed": 7}

    def failures(order: list[str], threads: int) -> list[tuple[str, int]]:
        api.sandbox.set_faults([rule])
        with ThreadPoolExecutor(threads) as pool:
            return sorted(zip(order, pool.map(lambda path: api.call("GET", path).status_code, order), strict=True))

    alone = failures(paths, 1)
    assert 0.2 < sum(status == 500 for _, status in alone) / len(paths) < 0.4
    assert failures(paths[::-1], 4) == alone
    rule["seed"] = 8
    assert failures(paths, 1) != alone


def test_faults_come_after_authorization_and_rate_limit(api: Api) -> None:
    api.sandbox.set_options(requests_per_minute=1, rate_limit_kind="sliding-window")
    api.sandbox.set_faults([{"kind": "status"}])
    assert api.call("GET", LISTS, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert statuses(api, 2) == [500, 429]


# Instead of the work.


@pytest.mark.parametrize(
    ("rule", "status", "headers"),
    [
        ({"kind": "status", "status": 503, "message": "Down"}, 503, {}),
        *(
            ({"kind": "status", "status": 429, "headers": {"Retry-After": value}}, 429, {"retry-after": value})
            for value in ("7200", "soon", "-1", "", "Wed, 21 Oct 2015 07:28:00 GMT")
        ),
        (
            {"kind": "status", "status": 302, "headers": {"location": "http://a.test/"}},
            302,
            {"location": "http://a.test/"},
        ),
    ],
)
def test_an_error_has_any_status_and_headers_and_does_no_work(
    api: Api, companies: list[str], rule: dict[str, Any], status: int, headers: dict[str, str]
) -> None:
    api.sandbox.set_faults([rule])
    answer = api.bulk("financials", companies[:2])
    assert answer.status_code == status
    assert {name: answer.headers[name] for name in headers} == headers
    assert "message" not in rule or answer.json() == {"status": status, "message": rule["message"]}
    assert api.summary()["credits_charged"] == 0


def test_a_token_may_expire(api: Api) -> None:
    api.sandbox.set_faults([{"kind": "expire_token", "nth": [2]}])
    assert statuses(api, 3) == [200, 401, 401]
    assert api.call("GET", LISTS, headers={"Authorization": "Bearer second"}).status_code == 200


def test_credits_may_run_out(api: Api, companies: list[str]) -> None:
    api.single("financials", companies[0])
    api.sandbox.set_faults([{"kind": "exhaust_credits", "nth": [2], "balance": 1}])
    codes = [api.single("financials", company).status_code for company in companies[1:4]]
    assert codes == [200, 200, 402]
    assert api.single("lookalikes", companies[0]).status_code == 200


def test_a_delay_comes_before_the_work(api: Api) -> None:
    api.sandbox.set_faults([{"kind": "delay", "seconds": 0.2}])
    began = time.monotonic()
    assert statuses(api, 1) == [200]
    assert time.monotonic() - began >= 0.2


def test_a_hanging_request_is_never_answered(api: Api, companies: list[str]) -> None:
    api.sandbox.set_faults([{"kind": "hang", "times": 1}])
    with pytest.raises(httpx.ReadTimeout):
        api.call("GET", f"/v1/companies/{companies[0][:2]}/{companies[0][2:]}/financials", timeout=0.1)
    assert statuses(api, 1) == [200]
    assert api.summary()["credits_charged"] == 0


# On the connection.


def test_a_reset_comes_before_any_work_and_an_answer_may_be_lost_after_it(api: Api, companies: list[str]) -> None:
    for kind, charged in (("reset", 0), ("lose", 2)):
        api.sandbox.set_faults([{"kind": kind, "nth": [1]}])
        with pytest.raises(httpx.ReadError):
            api.bulk("financials", companies[:2])
        assert api.summary()["credits_charged"] == charged
    assert api.summary()["by_outcome"] == {"no answer": 2}
    api.sandbox.set_faults([{"kind": "lose", "nth": [1]}])
    with pytest.raises(httpx.ReadError):
        api.add_contacts(1002, {companies[0]: ["1"]})
    assert api.add_contacts(1002, {companies[0]: ["1"]}).json()["message"].startswith("0 contacts")


@pytest.mark.parametrize(("kind", "error"), [("reset_body", httpx.ReadError), ("truncate", httpx.RemoteProtocolError)])
@pytest.mark.parametrize("count", [None, 0, 10])
def test_an_answer_may_break_off_within_its_body(
    api: Api, companies: list[str], kind: str, error: type[Exception], count: int | None
) -> None:
    api.sandbox.set_faults([{"kind": kind, "bytes": count, "nth": [1]}])
    with pytest.raises(error):
        api.bulk("financials", companies[:50])
    assert api.bulk("financials", companies[:50]).status_code == 200


def test_a_truncated_answer_announces_all_and_ends_early(api: Api) -> None:
    api.sandbox.set_faults([{"kind": "truncate", "bytes": 10}])
    head, _, body = raw(api).partition(b"\r\n\r\n")
    assert body == b'{"data":[{'
    assert int(head.lower().partition(b"content-length: ")[2].split()[0]) > 1000


def test_a_trickle_arrives_whole_in_the_end(api: Api) -> None:
    whole = api.call("GET", LISTS).content
    api.sandbox.set_faults([{"kind": "trickle", "bytes": 200, "seconds": 0.01}])
    began = time.monotonic()
    assert api.call("GET", LISTS).content == whole
    assert time.monotonic() - began > 0.01 * len(whole) / 200


# Wrong bodies with status 200.


@pytest.mark.parametrize(
    ("body", "start", "is_json"),
    [
        ("cut", b"[{", False),
        ("html", b"<!DOCTYPE", False),
        ("empty", b"", False),
        ("null", b"null", True),
        ("error", b'{"status":500', True),
        ("empty_object", b"{}", True),
        ("empty_list", b"[]", True),
    ],
)
def test_a_body_may_be_none_though_the_work_was_done(
    api: Api, companies: list[str], body: str, start: bytes, is_json: bool
) -> None:
    api.sandbox.set_faults([{"kind": "wrong_body", "body": body}])
    answer = api.bulk("financials", companies[:3])
    assert answer.status_code == 200
    assert answer.content.startswith(start)
    assert api.summary()["credits_charged"] == 3
    if is_json:
        answer.json()
    else:
        with pytest.raises(ValueError, match="char"):
            answer.json()


def test_a_body_may_be_nested_beyond_reading(api: Api) -> None:
    api.sandbox.set_faults([{"kind": "wrong_body", "body": "nested", "depth": 300_000}])
    assert api.call("GET", LISTS).content == b"[" * 300_000 + b"]" * 300_000


def test_a_gzip_bomb_is_small_valid_and_large_within(api: Api) -> None:
    api.sandbox.set_faults([{"kind": "gzip_bomb", "megabytes": 20}])
    head, _, body = raw(api).partition(b"\r\n\r\n")
    assert b"content-encoding: gzip" in head.lower()
    assert len(body) < 100_000
    content = gzip.decompress(body)
    assert len(content) == 20_000_002
    assert json.loads(content) == []


# Elements, totals, pages, fields.


def spoil(api: Api, asked: list[str], /, dataset: str = "financials", **rule: object) -> tuple[list[Any], list[Any]]:
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


@pytest.mark.parametrize("anomaly", ANOMALIES)
def test_elements_may_be_wrong_in_so_many_ways(api: Api, companies: list[str], anomaly: str) -> None:
    whole = anomaly in ("reordered", "message")
    of = {"count": 0} if whole else {"companies": [companies[3]]}
    right, spoilt = spoil(api, companies, kind="elements", anomaly=anomaly, **of)
    assert spoilt == ANOMALIES[anomaly](right)


def test_a_company_nobody_asked_for_may_be_there(api: Api, companies: list[str]) -> None:
    right, spoilt = spoil(api, companies, kind="elements", anomaly="foreign")
    assert spoilt[:-1] == right
    assert spoilt[-1]["identifier"] not in [element["identifier"] for element in right]


def test_so_many_elements_are_drawn_by_the_request(api: Api, companies: list[str]) -> None:
    right, spoilt = spoil(api, companies, kind="elements", anomaly="missing", count=4)
    assert len(spoilt) == 6
    assert all(element in right for element in spoilt)
    others = [spoil(api, companies, kind="elements", anomaly="missing", count=4, seed=seed)[1] for seed in range(1, 9)]
    assert any(other != spoilt for other in others)


def test_totals_may_change_between_pages(api: Api, companies: list[str]) -> None:
    right = api.bulk("financials", companies[:5], offset=1).json()
    api.sandbox.set_faults([{"kind": "totals", "by": 2}])
    first, second = (api.bulk("financials", companies[:5], offset=offset).json() for offset in (0, 1))
    assert [one["pagination"]["total"] for one in first] == [one["pagination"]["total"] for one in right]
    assert [one["pagination"]["total"] for one in second] == [one["pagination"]["total"] + 2 for one in right]


@pytest.mark.parametrize(("is_silent", "limit"), [(False, 2), (True, 5)])
def test_pages_may_be_smaller_than_asked(api: Api, companies: list[str], is_silent: bool, limit: int) -> None:
    api.sandbox.set_faults([{"kind": "small_pages", "limit": 2, "is_silent": is_silent}])
    answer = api.single("financials", companies[0], limit=5).json()
    assert len(answer["data"]) == min(2, answer["pagination"]["total"])
    assert answer["pagination"]["limit"] == limit
    lists = api.call("GET", LISTS, params={"limit": 5}).json()
    assert (len(lists["data"]), lists["pagination"]["limit"]) == (2, limit)


def values(elements: list[Any], field: str) -> Iterator[Any]:
    for element in elements:
        for record in element["data"]:
            yield record["profitability"].get(field, "nothing")


LITERALS = {"1e30": 1e30, "1" + "0" * 30: 10**30, "12.345": 12.345, "null": None, "{}": {}, '"n/a"': "n/a"}
# A change of the field grossMargin, and what each record then has instead, under which name.
DRIFTS = [
    *(
        ({"change": "literal", "literal": text}, "grossMargin", lambda _, value=value: value)
        for text, value in LITERALS.items()
    ),
    ({"change": "vanished"}, "grossMargin", lambda _: "nothing"),
    ({"change": "renamed"}, "grossMarginV2", lambda right: right),
    ({"change": "unknown"}, "grossMargin", lambda right: right),
    ({"change": "text"}, "grossMargin", str),
]


@pytest.mark.parametrize(("change", "name", "expected"), DRIFTS)
def test_a_field_may_hold_any_json_vanish_be_renamed_joined_or_quoted(
    api: Api, companies: list[str], change: dict[str, str], name: str, expected: Any
) -> None:
    right, spoilt = spoil(api, companies, kind="drift", field="grossMargin", count=0, **change)
    assert list(values(spoilt, name)) == [expected(one) for one in values(right, "grossMargin")]
    if change == {"change": "unknown"}:
        assert all(isinstance(one, dict) for one in values(spoilt, "unheardOf"))


def test_a_literal_is_sent_to_the_last_digit(api: Api, companies: list[str]) -> None:
    digits = "0.1234567890123456789012345"
    api.sandbox.set_faults([{"kind": "drift", "field": "ebit", "change": "literal", "literal": digits, "count": 1}])
    assert f'"ebit":{digits},'.encode() in api.bulk("financials", companies[:2]).content


def test_drift_may_concern_one_company_alone(api: Api, companies: list[str]) -> None:
    right, spoilt = spoil(
        api, companies, "lookalikes", kind="drift", field="score", change="text", companies=[companies[2]]
    )
    assert spoilt[:2] + spoilt[3:] == right[:2] + right[3:]
    assert all(isinstance(entry["score"], str) for entry in spoilt[2]["data"])


def test_faults_of_several_kinds_come_together(api: Api, companies: list[str]) -> None:
    right = api.bulk("financials", companies[:10]).json()
    api.sandbox.set_faults(
        [
            {"kind": "elements", "anomaly": "reordered"},
            {"kind": "elements", "anomaly": "missing", "companies": [companies[0]]},
            {"kind": "delay", "seconds": 0.01},
            {"kind": "trickle", "bytes": 50_000, "seconds": 0.001},
        ]
    )
    assert api.bulk("financials", companies[:10]).json() == right[:0:-1]


def test_error_answers_are_not_spoilt(api: Api) -> None:
    api.sandbox.set_faults([{"kind": "elements", "anomaly": "missing"}, {"kind": "wrong_body", "body": "null"}])
    assert api.bulk("financials", []).json()["status"] == 400


def test_the_fields_of_a_contacts_answer_can_be_changed(api: Api, companies: list[str]) -> None:
    api.sandbox.set_faults([{"kind": "drift", "field": "success", "change": "literal", "literal": "false"}])
    answer = api.add_contacts(1002, {companies[0]: ["1"]}).json()
    assert (answer["success"], answer["message"]) == (False, "1 contact added to the list")
