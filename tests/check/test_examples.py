"""Which request a service understands, found from what its refusals name; the services are functions of a body."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmlake.api.exchange import Answer
from firmlake.api.requests import bulk
from firmlake.check.examples import find_bulk_example
from firmlake.check.finding import Finding
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings
from support import NOON

KNOWN = Company("FR", "005550082")
FOUND = b'[{"identifier": {"country": "FR", "companyNumber": "005550082"}, "data": [], "message": null}]'
Said = bytes | str | list[Any] | dict[str, Any]


class Talk:
    """Stands for a service: a function gives the body of its answer, or the text or JSON of its refusal."""

    def __init__(self, answer: Callable[[Any], Said]) -> None:
        self.api = self.given = ApiSettings()
        self.count = 0
        self._answer = answer

    def bulk(self, dataset: str, companies: list[Company], *page: int, **api: Any) -> Answer:
        self.count += 1
        request = bulk(msgspec.structs.replace(self.api, **api), dataset, companies, *page)
        said = self._answer(json.loads(request.body))
        if isinstance(said, bytes):
            return Answer(request, 1, 200, "", {}, said, NOON, 1, 0)
        body = json.dumps({"message": said} if isinstance(said, str) else said).encode()
        return Answer(request, 1, 400, "", {}, body, NOON, 1, 0)


def find(answer: Callable[[Any], Said]) -> tuple[Finding, int]:
    talk = Talk(answer)
    return find_bulk_example(cast("Any", talk), "lookalikes", KNOWN), talk.count


def validator(array: str, *names: str) -> Callable[[Any], Said]:
    """Name each key that should not exist, and each that should."""

    def answer(sent: Any) -> Said:
        if not isinstance(sent, dict) or set(sent) - {array}:
            return [f"{key} should not exist" for key in sent if isinstance(sent, dict)] or "body is not an object"
        (element,) = sent[array]
        if not isinstance(element, dict):
            return f"{array}.0 must be an object"
        unknown = [f"{array}.0.property {key} should not exist" for key in element if key not in names]
        return unknown + [f"{array}.0.{key} must be a string" for key in names if key not in element] or FOUND

    return answer


def in_words(sent: Any) -> Said:
    names = {"countryCode": "country", "companyNumber": "number"}
    wrong = next((key for key in sent["companies"][0] if key not in names.values()), None)
    return f"unknown property {wrong!r}, expected {names[wrong]!r}" if wrong else FOUND


def pydantic(sent: Any) -> Said:
    place, element = ["body", "companies", 0], sent["companies"][0]
    missing = [{"loc": [*place, "country"], "msg": "Field required"}] * ("country" not in element)
    extra = [{"loc": [*place, key], "msg": "Extra inputs are not permitted"} for key in element if key == "countryCode"]
    return {"detail": [*missing, *extra]} if missing or extra else FOUND


def ajv(sent: Any) -> Said:
    said = "must have required property 'registrationNumber'"
    has_it = "registrationNumber" in sent["companies"][0]
    return FOUND if has_it else {"errors": [{"instancePath": "/companies/0", "message": said}]}


def dotnet(sent: Any) -> Said:
    errors = {"Identifiers": ["The Identifiers field is required."]}
    is_there = isinstance(sent, dict) and "identifiers" in sent
    return FOUND if is_there else {"title": "Validation errors", "errors": errors}


def django(sent: Any) -> Said:
    names = ("country_code", "company_number")
    missing = [name for name in names if name not in sent["companies"][0]]
    return {"companies": [{name: ["This field is required."] for name in missing}]} if missing else FOUND


def elasticsearch(sent: Any) -> Said:
    said = {"error": {"reason": "Validation Failed: 1: no [ids] to get;"}, "status": 400}
    return FOUND if isinstance(sent, dict) and "ids" in sent else said


def jackson(sent: Any) -> Said:
    """Name the first field that an object does not have, and those that it has."""
    for class_name, name in (("Envelope", "query"), ("Query", "companies"), ("Reference", "companyId")):
        for field in sent:
            if field != name:
                return (
                    f'JSON parse error: Unrecognized field "{field}" (class be.data.{class_name}), not marked as '
                    f'ignorable (1 known properties: ["{name}"])'
                )
        sent = sent[name][0] if class_name == "Query" else sent[name]
    return FOUND


def rails(sent: Any) -> Said:
    if "lookup" not in sent:
        return "param is missing or the value is empty or invalid: lookup"
    element = sent["lookup"].get("companies", [""])[0] if isinstance(sent["lookup"], dict) else ""
    return FOUND if "company_number" in element else "Company number can't be blank"


def spring(sent: Any) -> Said:
    """Say that a request is bad, with the time, and only the first thing that is wrong."""
    said = validator("items", "country", "number")(sent)
    spring.count = getattr(spring, "count", 0) + 1  # type: ignore[attr-defined]
    first = said[0] if isinstance(said, list) else said
    return said if isinstance(said, bytes) else {"error": "Bad Request", "at": str(spring.count), "detail": first}  # type: ignore[attr-defined]


def nest_js(sent: Any) -> Said:
    """Say Bad Request beside the sentences, and less of a body with an object `request`."""
    said = "body is not valid" if "request" in sent else validator("companies", "country", "companyNumber")(sent)
    return said if isinstance(said, bytes) else {"message": said, "error": "Bad Request"}


def silent(sent: Any) -> Said:
    said = validator("identifiers", "country", "companyNumber")(sent)
    return said if isinstance(said, bytes) else "Bad Request"


def nest(sent: Any) -> Said:
    """Refuse names of ours in one place that are right in another."""
    element = sent["companies"][0] if isinstance(sent, dict) and "companies" in sent else {}
    if "companyId" in element:
        return FOUND
    return [f"companies.0.property {name} should not exist" for name in element] or "companies is required"


def go(sent: Any) -> Said:
    """Want an array alone, and name the first field that an element does not have."""
    if not isinstance(sent, list):
        return "json: cannot unmarshal object into Go value of type []api.CompanyRef"
    unknown = [key for key in sent[0] if key not in ("country", "number")]
    return f'json: unknown field "{unknown[0]}"' if unknown else FOUND


def texts(array: str, example: str = "") -> Callable[[Any], Said]:
    """Want texts, of which the refusal may show one."""

    def answer(sent: Any) -> Said:
        if not isinstance(sent, dict) or array not in sent:
            return f"'{array}' must be an array of company ids{example}"
        return FOUND if isinstance(sent[array][0], str) else f"invalid company id in '{array}'{example}"

    return answer


def lower_case(sent: Any) -> Said:
    """Want countries in lower case, and another name for them."""
    (element,) = sent.get("companies", [{}])
    if "country" not in element:
        return "companies.0.country is required"
    is_lower = element["country"] == "fr"
    return FOUND if is_lower else {"detail": [{"loc": ["country"], "msg": "Input should be 'be', 'nl' or 'fr'"}]}


def body_of(array: str, country: str, number: str) -> str:
    return f'{{"{array}": [{{"{country}": "{{country}}", "{number}": "{{number}}"}}]}}'


FLAT = '{"country": "{country}", "companyNumber": "{number}"}'


@pytest.mark.parametrize(
    ("service", "body", "most"),
    [
        (in_words, body_of("companies", "country", "number"), 4),
        (validator("companies", "country", "number"), body_of("companies", "country", "number"), 3),
        (validator("items", "country", "number"), body_of("items", "country", "number"), 20),
        (validator("ondernemingen", "land", "nummer"), body_of("ondernemingen", "land", "nummer"), 40),
        (pydantic, body_of("companies", "country", "companyNumber"), 3),
        (ajv, body_of("companies", "country", "registrationNumber"), 3),
        (dotnet, body_of("identifiers", "countryCode", "companyNumber"), 3),
        (django, body_of("companies", "country_code", "company_number"), 3),
        (elasticsearch, body_of("ids", "countryCode", "companyNumber"), 3),
        (jackson, f'{{"query": {{"companies": [{{"companyId": {FLAT}}}]}}}}', 4),
        (rails, '{"lookup": {"companies": [{"country": "{country}", "company_number": "{number}"}]}}', 12),
        (nest, f'{{"companies": [{{"companyId": {FLAT}}}]}}', 3),
        (spring, body_of("items", "country", "number"), 30),
        (nest_js, body_of("companies", "country", "companyNumber"), 2),
        (silent, body_of("identifiers", "country", "companyNumber"), 20),
        (lower_case, body_of("companies", "country", "companyNumber").replace("{country}", "{country_lower}"), 4),
        (go, '[{"country": "{country}", "number": "{number}"}]', 7),
        (texts("ids", ' such as "BE0403227515"'), '{"ids": ["{country}{number}"]}', 2),
        (texts("identifiers"), '{"identifiers": ["{country}{number}"]}', 20),
    ],
)
def test_what_refusals_name_leads_to_the_request(service: Callable[[Any], Said], body: str, most: int) -> None:
    finding, count = find(service)
    assert (finding.verdict, finding.seen) == ("covered", body)
    assert count <= most


_JSON = st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(_JSON)
@settings(max_examples=5, deadline=None)
def test_after_forty_refusals_of_any_kind_the_first_is_quoted(content: Any) -> None:
    finding, count = find(lambda sent: {"detail": content})
    assert finding.verdict == "needs_you"
    assert finding.seen.startswith("400")
    assert count <= 40


@pytest.mark.slow
def test_a_refusal_of_any_length_is_read_at_once() -> None:
    assert find(lambda sent: f"unknown 'companyNumber', expected '{'number' * 40_000}'")[0].verdict == "needs_you"


def test_numbers_of_another_form_in_answers_are_named() -> None:
    finding, _ = find(lambda sent: FOUND.replace(b"005550082", b"00555008200014"))
    assert finding.verdict == "needs_you"
    assert finding.seen == (
        "where FR 005550082 was requested, 'FR 00555008200014' is no company number of the specification"
    )


def test_a_structure_that_only_other_names_bring_to_light_is_quoted() -> None:
    """With ours such a service reads no companies and answers none, which says nothing about the structure."""
    finding, _ = find(lambda sent: b'[{"Id": 1}]' if "identifiers" in sent else b"[]")
    assert (finding.verdict, finding.seen) == ("needs_you", 'the answer is not an array of elements: 200: [{"Id": 1}]')
