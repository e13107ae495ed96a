"""Dialects: each says what the plain service says in its own way, and takes requests in its own words only."""

from __future__ import annotations

import json
from decimal import Decimal

import httpx
import msgspec
import pytest

from firmlake_sandbox import sample_numbers
from firmlake_sandbox.dialects import DIALECTS, Names, combine, describe_dialects, resolve_dialects
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.world import World, is_found

from .conftest import DATASETS, KBC, STATIC, UNKNOWN


def plain(api, dataset, companies):
    api.sandbox.set_options(dialect=[])
    return read(api.bulk(dataset, companies))


def read(answer):
    assert answer.status_code == 200, answer.text
    return json.loads(answer.content, parse_float=Decimal)


def ask(api, names, dataset, companies, **page):
    """A bulk request in the words of a dialect."""
    name = {name: name for name in ("companies", "countryCode", "companyNumber", "limit", "offset")} | names
    entries = [{name["countryCode"]: one[:2], name["companyNumber"]: one[2:]} for one in companies]
    page = {name[key]: value for key, value in page.items()}
    return api.call("POST", f"/v1/companies/{dataset}", json={name["companies"]: entries, **page})


def speak(api, *names):
    api.sandbox.set_options(dialect=names)


NEVER_FOUND = next(
    country + number for country, number in sample_numbers(400) if not is_found(World(), parse_number(country, number))
)
"""A company that the service does not know, although its number is well-formed."""
NAMES = {name: twist for name, dialect in DIALECTS.items() for twist in dialect.twists if isinstance(twist, Names)}


def shown(answer):
    """All that a dialect may change of an answer."""
    return answer.status_code, {**answer.headers, "date": ""}, answer.content


def ways(api, companies):
    """Answers to requests that bring out every dialect, each with the same credits."""
    api.sandbox.reset()
    yield api.bulk("financials", [*companies[:20], UNKNOWN], limit=4)
    yield api.bulk("financials", companies[:21], limit=1)
    yield api.bulk("financials", companies[:100], limit=5)
    yield api.bulk("financials", companies[:100], limit=6)
    yield api.bulk("financials", companies[:3], limit=101)
    yield api.bulk("financials", companies[:1], limit=500)
    yield api.single("financials", companies[0])
    yield api.single("lookalikes", "BE403227515")
    yield from (api.bulk(dataset, [UNKNOWN, NEVER_FOUND]) for dataset in DATASETS)
    yield from (api.bulk(dataset, companies[:40]) for dataset in DATASETS[1:])
    yield api.lists(limit=1)
    yield api.add_contacts(STATIC, {companies[0]: ["1"]})


@pytest.mark.slow
def test_each_dialect_makes_a_difference(api, companies):
    """Which one, tests/check/test_dialects.py says: what a check learns of it, and that every value is right then."""
    api.sandbox.set_options(requests_per_minute=6000)
    plain_ones = [shown(answer) for answer in ways(api, companies)]
    assert [shown(answer) for answer in ways(api, companies)] == plain_ones
    for name in DIALECTS:
        speak(api, name)
        assert [shown(answer) for answer in ways(api, companies)] != plain_ones, name


def test_renamed_requests_are_answered_in_their_own_words_only(api, companies):
    expected = plain(api, "financials", companies[:2])
    for name, names in NAMES.items():
        speak(api, name)
        assert read(ask(api, names.own, "financials", companies[:2], limit=4, offset=0)) == expected
        usual = ask(api, {}, "financials", companies[:2], limit=2, offset=0)
        if name != "contacts-names" and names.unknown == "ignored":
            assert read(usual)[0]["pagination"]["limit"] == 4, "the default: the name was not understood"
        else:
            assert usual.status_code == (200 if name == "contacts-names" else 400), name
    for name, said in (("short", "unknown property 'countryCode', expected 'country'"), ("silent", "Bad request")):
        speak(api, f"body-{name}")
        assert ask(api, {}, "lookalikes", [KBC]).json() == {"status": 400, "message": said}


def test_the_language_is_taken_from_the_header_of_the_dialect_alone(api):
    speak(api, "language-header")
    headers = [{}, {"Accept-Language": "FR"}, {"X-Language": "FR"}]
    places = [api.call("GET", f"/v1/companies/BE/{KBC[2:]}/lookalikes", headers=one).json() for one in headers]
    dutch, also_dutch, french = [place["identifier"]["name"] for place in places]
    assert dutch == also_dutch != french


def test_errors_and_faults_are_spoken_in_the_dialect_too(api):
    for name in (name for name, dialect in DIALECTS.items() if dialect.gap == "whole-request errors"):
        speak(api, name)
        answer = api.call("POST", "/v1/companies/lookalikes", json={"companies": []})
        assert answer.status_code == 400
        assert "message" not in answer.text or not isinstance(answer.json().get("message"), str)
        assert "Body refused" in answer.text
    speak(api, "errors-nested")
    refused = httpx.get(f"{api.sandbox.base_url}/v1/lists", trust_env=False)
    assert refused.json() == {"error": {"code": "E401", "message": "Authorization: Bearer <ACCESS_TOKEN> is missing"}}
    speak(api, "companies-reordered")
    api.sandbox.set_faults([{"kind": "elements", "anomaly": "missing", "count": 1}])
    assert len(api.bulk("lookalikes", [KBC, UNKNOWN]).json()) == 1


HEADERS = {
    "credits-renamed": {"credits-used", "credits-left"},
    "rate-standard": {"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "x-credits-charged"},
    "rate-custom": {"x-rate-limit-limit", "x-rate-limit-remaining", "x-rate-limit-reset"},
}
REFUSED = {("forbidden", "relationships"): 403, ("down", "lookalikes"): 500}


def test_each_dialect_answers_its_own_words_with_json_that_can_be_read_or_refuses_as_it_says(api, companies):
    for name in DIALECTS:
        speak(api, name)
        for dataset in DATASETS:
            api.sandbox.reset()
            answer = ask(api, NAMES[name].own if name in NAMES else {}, dataset, companies[:3])
            assert answer.status_code == REFUSED.get((name, dataset), 200), name
            msgspec.json.decode(answer.content.removeprefix(b"\xef\xbb\xbf"))
            assert HEADERS.get(name, set()) <= set(answer.headers)
            assert answer.status_code == 200 or api.summary()["credits_charged"] == 0


# --- choosing dialects -----------------------------------------------------------------------------------------------

IMPOSSIBLE = {
    "nonsense": "'nonsense' is no dialect",
    "page-100 page-clamped": "page-100 and page-clamped exclude each other: both are about largest page",
    "seed:x": "'seed:x' is no dialect",
}


def test_dialects_that_do_not_exist_or_go_together_are_refused():
    for names, said in IMPOSSIBLE.items():
        with pytest.raises(ValueError, match=said):
            resolve_dialects(names.split())


def test_a_combination_is_the_same_for_the_same_seed_and_every_dialect_is_in_some(api):
    drawn = [combine(seed) for seed in range(200)]
    assert drawn == [combine(seed) for seed in range(200)]
    for names in drawn:
        resolve_dialects(names)
    ordinary = {name for name, dialect in DIALECTS.items() if not dialect.ending}
    assert {name for names in drawn for name in names} == ordinary
    speak(api, "seed:3")
    assert api.sandbox.control("GET", "options")["dialect"] == ["seed:3"]


def test_the_help_lists_every_dialect_under_its_gap():
    text = describe_dialects()
    for name, dialect in DIALECTS.items():
        assert name in text
        assert dialect.says in text
        assert f"\n{dialect.gap}\n" in f"\n{text}"
