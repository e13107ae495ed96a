"""Dialects: each says what the plain service says in its own way, and takes requests in its own words only."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from typing import Any

import httpx
import msgspec
import pytest

from firmlake_sandbox import Sandbox
from firmlake_sandbox.dialects import DIALECTS, Names, combine, describe_dialects, resolve_dialects

from .calls import Api

KBC = "BE0403227515"
UNKNOWN = "BE0403227516"
DATASETS = ("financials", "lookalikes", "relationships")


def plain(api: Api, dataset: str, companies: list[str]) -> list[Any]:
    api.sandbox.set_options(dialect=[])
    return read(api.bulk(dataset, companies))


def read(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return json.loads(answer.content, parse_float=Decimal)


def ask(api: Api, names: dict[str, str], dataset: str, companies: list[str], **page: int) -> httpx.Response:
    """A bulk request in the words of a dialect."""
    name = {name: name for name in ("companies", "countryCode", "companyNumber", "limit", "offset")} | names
    entries = [{name["countryCode"]: one[:2], name["companyNumber"]: one[2:]} for one in companies]
    page = {name[key]: value for key, value in page.items()}
    return api.call("POST", f"/v1/companies/{dataset}", json={name["companies"]: entries, **page})


NAMES = {name: twist for name, dialect in DIALECTS.items() for twist in dialect.twists if isinstance(twist, Names)}
KEEPING = (
    "json-pretty", "json-escaped", "json-exponents", "gzip", "chunked", "credits-untold", "rate-custom",
    "contacts-names",
)  # fmt: skip


@pytest.mark.parametrize("name", KEEPING)
def test_another_way_to_write_changes_no_value(api: Api, companies: list[str], name: str) -> None:
    for dataset in DATASETS:
        expected = plain(api, dataset, companies[:20])
        api.sandbox.set_options(dialect=[name])
        assert read(api.bulk(dataset, companies[:20])) == expected


@pytest.mark.parametrize("name", NAMES)
def test_renamed_requests_are_answered_in_their_own_words_only(api: Api, companies: list[str], name: str) -> None:
    names = NAMES[name]
    expected = plain(api, "financials", companies[:2])
    api.sandbox.set_options(dialect=[name])
    assert read(ask(api, names.own, "financials", companies[:2], limit=4, offset=0)) == expected
    usual = ask(api, {}, "financials", companies[:2], limit=2, offset=0)
    if name == "contacts-names":
        assert usual.status_code == 200
    elif names.unknown == "ignored":
        assert read(usual)[0]["pagination"]["limit"] == 4, "the default: the name was not understood"
    else:
        assert usual.status_code == 400


def test_a_refused_name_is_said_with_the_one_that_was_expected(api: Api) -> None:
    api.sandbox.set_options(dialect=["body-short"])
    message = ask(api, {}, "lookalikes", [KBC]).json()["message"]
    assert message == "unknown property 'countryCode', expected 'country'"
    api.sandbox.set_options(dialect=["body-silent"])
    assert ask(api, {}, "lookalikes", [KBC]).json() == {"status": 400, "message": "Bad request"}


def test_the_language_is_taken_from_the_header_of_the_dialect_alone(api: Api) -> None:
    api.sandbox.set_options(dialect=["language-header"])
    headers = [{}, {"Accept-Language": "FR"}, {"X-Language": "FR"}]
    places = [api.call("GET", f"/v1/companies/BE/{KBC[2:]}/lookalikes", headers=one).json() for one in headers]
    dutch, also_dutch, french = [place["identifier"]["name"] for place in places]
    assert dutch == also_dutch != french


@pytest.mark.parametrize(("limit", "offset"), [(4, 0), (3, 2), (500, 0), (5, 100)])
def test_the_oldest_first_is_the_newest_first_backwards(
    api: Api, companies: list[str], limit: int, offset: int
) -> None:
    whole = api.single("financials", companies[0], limit=500).json()["data"]
    api.sandbox.set_options(dialect=["oldest-first"])
    page = api.single("financials", companies[0], limit=limit, offset=offset).json()
    assert page["data"] == whole[::-1][offset : offset + limit]
    assert page["pagination"] == {"limit": limit, "offset": offset, "total": len(whole)}


def test_a_required_zero_is_required_of_single_and_bulk_requests(api: Api) -> None:
    api.sandbox.set_options(dialect=["zero-required"])
    assert api.single("lookalikes", KBC).status_code == 200
    assert api.single("lookalikes", "BE403227515").status_code == 404
    assert [one["message"] for one in api.bulk("lookalikes", ["BE403227515", KBC]).json()] == [
        "Company not found",
        None,
    ]


def test_nulls_are_left_out_and_nothing_else(api: Api, companies: list[str]) -> None:
    expected = plain(api, "financials", [*companies[:20], UNKNOWN])
    api.sandbox.set_options(dialect=["nulls-omitted"])
    found = read(api.bulk("financials", [*companies[:20], UNKNOWN]))
    assert found == without_nulls(expected)
    assert found != expected


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def test_fractions_and_scores_are_a_hundredfold_to_the_last_digit(api: Api, companies: list[str]) -> None:
    lookalikes, owners = plain(api, "lookalikes", companies[:5]), plain(api, "relationships", companies[:40])
    api.sandbox.set_options(dialect=["fractions-100", "scores-100"])
    for before, after in zip(lookalikes, read(api.bulk("lookalikes", companies[:5])), strict=True):
        assert [one["score"] for one in after["data"]] == [one["score"] * 100 for one in before["data"]]
    stakes = [
        [party["percentage"] for party in element["data"]["parents"] if "percentage" in party]
        for element in (*owners, *read(api.bulk("relationships", companies[:40])))
    ]
    assert stakes[40:] == [[stake * 100 for stake in of] for of in stakes[:40]]
    assert any(stakes)


@pytest.mark.parametrize("name", ["children-company-id", "children-flat", "children-unknown"])
def test_children_have_another_shape_and_parents_keep_theirs(api: Api, companies: list[str], name: str) -> None:
    before = plain(api, "relationships", companies[:100])
    api.sandbox.set_options(dialect=[name])
    after = read(api.bulk("relationships", companies[:100]))
    assert [one["data"]["parents"] for one in after] == [one["data"]["parents"] for one in before]
    children = [child for one in after for child in one["data"]["children"]]
    assert len(children) == sum(len(one["data"]["children"]) for one in before) > 0
    key = {"children-company-id": "companyId", "children-flat": "companyNumber", "children-unknown": "entity"}[name]
    assert all(key in child and "identifier" not in child for child in children)


@pytest.mark.parametrize("name", [name for name, dialect in DIALECTS.items() if dialect.gap == "whole-request errors"])
def test_errors_say_the_same_in_another_form(api: Api, name: str) -> None:
    api.sandbox.set_options(dialect=[name])
    answer = api.call("POST", "/v1/companies/lookalikes", json={"companies": []})
    assert answer.status_code == 400
    assert "message" not in answer.text or not isinstance(answer.json().get("message"), str)
    assert "Body refused" in answer.text


def test_one_dataset_is_forbidden_or_down_and_nothing_is_charged_for_it(api: Api) -> None:
    for name, dataset, status in (("forbidden", "relationships", 403), ("down", "lookalikes", 500)):
        api.sandbox.set_options(dialect=[name])
        assert {one: api.bulk(one, [KBC]).status_code for one in (dataset,)} == {dataset: status}
        assert api.summary()["credits_charged"] == 0
    assert api.bulk("financials", [KBC]).status_code == 200


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("credits-renamed", {"credits-used", "credits-left"}),
        ("rate-standard", {"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "x-credits-charged"}),
        ("rate-custom", {"x-rate-limit-limit", "x-rate-limit-remaining", "x-rate-limit-reset"}),
    ],
)
def test_headers_have_other_names(api: Api, name: str, seen: set[str]) -> None:
    api.sandbox.set_options(dialect=[name])
    assert seen <= set(api.bulk("lookalikes", [KBC]).headers)


def test_faults_and_refusals_are_spoken_in_the_dialect_too(api: Api) -> None:
    api.sandbox.set_options(dialect=["errors-nested"])
    refused = httpx.get(f"{api.sandbox.base_url}/v1/lists", trust_env=False)
    assert refused.json() == {"error": {"code": "E401", "message": "Authorization: Bearer <ACCESS_TOKEN> is missing"}}
    api.sandbox.set_options(dialect=["companies-reordered"])
    api.sandbox.set_faults([{"kind": "elements", "anomaly": "missing", "count": 1}])
    assert len(api.bulk("lookalikes", [KBC, UNKNOWN]).json()) == 1


# Choosing dialects.


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["nonsense"], "'nonsense' is no dialect"),
        (["page-100", "page-clamped"], "page-100 and page-clamped exclude each other: both are about largest page"),
        (["seed:x"], "'seed:x' is no dialect"),
    ],
)
def test_dialects_that_do_not_exist_or_go_together_are_refused(sandbox: Sandbox, names: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=r"dialect|exclude") as caught:
        resolve_dialects(names)
    assert said in str(caught.value)
    process = subprocess.run(
        [sys.executable, "-m", "firmlake_sandbox", *(f"--dialect={name}" for name in names)],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert process.returncode == 2
    assert said in process.stderr


def test_a_combination_is_the_same_for_the_same_seed_and_every_dialect_is_in_some(api: Api) -> None:
    drawn = [combine(seed) for seed in range(200)]
    assert drawn == [combine(seed) for seed in range(200)]
    for names in drawn:
        resolve_dialects(names)
    assert {name for names in drawn for name in names} == {
        name for name, dialect in DIALECTS.items() if not dialect.ending
    }
    api.sandbox.set_options(dialect=["seed:3"])
    assert api.sandbox.control("GET", "options")["dialect"] == ["seed:3"]


def test_the_help_lists_every_dialect_under_its_gap() -> None:
    text = describe_dialects()
    for name, dialect in DIALECTS.items():
        assert name in text
        assert dialect.says in text
        assert f"\n{dialect.gap}\n" in f"\n{text}"


def test_no_dialect_breaks_the_json(api: Api, companies: list[str]) -> None:
    """Each answers the request of its own words with JSON that can be read, or refuses as it says."""
    refused = {("forbidden", "relationships"): 403, ("down", "lookalikes"): 500}
    for name in DIALECTS:
        api.sandbox.set_options(dialect=[name])
        for dataset in DATASETS:
            answer = ask(api, NAMES[name].own if name in NAMES else {}, dataset, companies[:3])
            assert answer.status_code == refused.get((name, dataset), 200), name
            msgspec.json.decode(answer.content.removeprefix(b"\xef\xbb\xbf"))
