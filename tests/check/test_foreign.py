"""A service that never heard of firmlake: the first run gets to know it, and every value is what it says."""

from __future__ import annotations

import json
import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from firmlake.api.contract import DATASETS
from firmlake.warehouse.generations import open_warehouse
from firmlake_sandbox import sample_numbers
from lake import Lake, wait_until
from support import slow

from .foreign import Foreign, foreign, truth

COUNT = 8
REQUIRED = "Required request header '{}' for method parameter type is not present"
ODD: dict[str, dict[str, Any]] = {
    "as the specification": {},
    "as the specification, with one name for each company": {"has_one_language": True},
    "failing now and then": {"fails_every": 5},
    "a validator's names": {"body": ("items", "country", "number"), "paging": ("take", "skip"), "has_zero": True},
    "pydantic and small": {
        "refusal": "pydantic", "body": ("companies", "country", "companyNumber"), "page_max": 50, "bulk_max": 5,
    },
    "silent and closing": {
        "refusal": "plain", "body": ("identifiers", "country", "companyNumber"), "closes": True, "cuts_pages": True,
        "page_max": 2, "charge": "X-Credit-Cost", "language": "X-Language",
    },
    "counting in pages": {"counts_pages": True, "page_max": 6, "bulk_max": 5},
    "an object around each company": {"form": "company-id", "body": ("companies", "country", "companyNumber")},
    "numbers as texts": {"form": "texts", "refusal": "plain"},
    "an array alone": {"form": "array", "body": ("companies", "country", "companyNumber"), "refusal": "plain"},
    "a wrapper": {"form": "wrapped"},
    "numbers as integers": {"form": "integers"},
    "pages in an object": {"form": "nested-page"},
    "GET alone": {"form": "none"},
    "a stricter POST": {"bulk_has_zero": "unknown"},
    "a POST that refuses short numbers": {"bulk_has_zero": "refused", "refusal": "plain"},
    "and has other names": {
        "bulk_has_zero": "refused", "body": ("companies", "country", "companyNumber"), "refusal": "pydantic",
    },
    "no POST": {"posts": False, "has_zero": True, "paging": ("max", "start")},
    "a header that is required": {"language": "X-Lang", "needs_language": REQUIRED},
    "a header that a validator requires": {"language": "X-Language", "needs_language": '"{}" is required'},
    "a gateway that gives up": {"records_max": 30, "body": ("companies", "country", "companyNumber")},
    "a GET without pages": {"get_pages": False, "body": ("companies", "country", "companyNumber")},
    "each company once": {"names_once": True, "bulk_max": 5, "refusal": "plain"},
    "numbers under another name": {"number": "registrationNumber"},
    "an envelope": {"envelope": "result", "form": "texts", "unknown": "omitted"},
    "countries in lower case": {"countries": "be, nl, fr", "body": ("companies", "country", "companyNumber")},
    "countries in lower case, by GET": {"countries": "nl, fr or be", "form": "none"},
    "refusals of status 200": {
        "says_200": True, "body": ("companies", "country", "companyNumber"), "page_max": 6, "bulk_max": 5,
    },
    "keys in lower case": {"case": "snake"},
    "keys with capitals": {"case": "pascal", "envelope": "Items"},
    "days first": {"dates": "%d/%m/%Y"},
    "months first": {"dates": "%m-%d-%Y"},
    "sparing with keys": {"omits_null": True, "children": "flat", "refusal": "pydantic", "has_zero": True},
}  # fmt: skip


class Remote:
    """As much of the sandbox's handle as a lake needs."""

    def __init__(self, service: Foreign) -> None:
        self.base_url, self.token = service.url, "geheim"


def new_lake(folder: Path, service: Foreign) -> Lake:
    return Lake(folder, Remote(service), COUNT, run__check="true")  # type: ignore[arg-type]


def parties(company: tuple[str, str]) -> list[Any]:
    found = truth(*company)
    assert found
    return [*found["relationships"]["parents"], *found["relationships"]["children"]]


def first_contact(folder: Path, service: Foreign, count: int = COUNT) -> tuple[Lake, Any, Any]:
    lake = Lake(folder, Remote(service), count)  # type: ignore[arg-type]
    checked = lake.call("check", str(lake.list), "--write", str(folder / "written.toml"), "--json")
    return lake, checked, lake.run("--config", str(folder / "written.toml"))


def at(record: Any, path: str) -> Any:
    for name in path.split("."):
        record = record[name] if record else None
    return record


def assert_true(lake: Lake) -> None:
    """Every period, lookalike and party of every company is in the warehouse, to the last digit."""
    fields = DATASETS["financials"].fields
    columns = [name for name, field in fields.items() if field.kind != "codes"]
    with open_warehouse(lake.folders) as connection:
        for country, number in lake.numbers:
            known = truth(country, number)
            assert known is not None
            where = f"WHERE country = '{country}' AND company_number = '{number}'"
            sql = f"SELECT {', '.join(columns)} FROM financials {where} ORDER BY end_date DESC"
            rows = connection.execute(sql).fetchall()
            expected = [[at(period, fields[name].path) for name in columns] for period in known["financials"]]
            assert [[_plain(value) for value in row] for row in rows] == [[_plain(v) for v in row] for row in expected]
            sql = f"SELECT lookalike_company_number, score FROM lookalikes {where} ORDER BY rank"
            scores = [(one["companyId"]["companyNumber"], float(one["score"])) for one in known["lookalikes"]]
            assert scores == connection.execute(sql).fetchall()
            parties = known["relationships"]["parents"][1:] + known["relationships"]["children"]
            stakes = connection.execute(
                f"SELECT related_company_number, stake_fraction FROM relationships {where} "
                "AND related_company_number IS NOT NULL ORDER BY ALL"
            ).fetchall()
            assert stakes == sorted((one["identifier"]["companyNumber"], one["percentage"]) for one in parties)


def _plain(value: Any) -> Any:
    return Decimal(value).normalize() if isinstance(value, int | Decimal) else value if value is None else str(value)


@pytest.mark.slow
@pytest.mark.parametrize("choices", ODD.values(), ids=ODD)
def test_the_first_run_of_a_service_gets_every_value_right(choices: dict[str, Any], tmp_path: Path) -> None:
    with foreign(**choices) as service:
        lake = new_lake(tmp_path, service)
        run = lake.run()
        asked = len(service.requests)
        again = lake.run("--refresh")
    assert run.code == again.code == 0, run.err + again.err
    assert_true(lake)
    assert len(service.paid) == COUNT, "it asked for companies of the list, and one that does not exist"
    assert not any(request.startswith("PUT") for request in service.requests)
    assert "First contact" in run.err
    assert "First contact" not in again.err
    profile = tomllib.loads((lake.data / "state/profile.toml").read_text())
    asks_by_get = profile["api"].get("requests", {}).get("financials", "").startswith("GET")
    assert asks_by_get or profile["api"]["totals"] == "company"
    assert asks_by_get == ("runs ask by GET" in run.err) == ("With these settings the list takes about" in run.err)
    assert len([line for line in run.err.splitlines() if "First contact" in line]) <= 2
    assert not (asks_by_get and "bulk_has_zero" in choices)
    assert "get_pages" not in choices or "page_limit_max" not in profile["api"]
    assert run.content["request_count"] == asked
    assert ("sent again" in run.err, "failed or refused" in run.err) == ("fails_every" in choices, False)
    is_as_assumed = choices.keys() <= {"has_one_language", "fails_every", "number"}
    assert (profile == {"api": {"totals": "company"}}) == is_as_assumed
    order = {"%d/%m/%Y": "day", "%m-%d-%Y": "month"}.get(choices.get("dates", ""))
    assert profile.get("contract", {}).get("date_order") == order
    assert not is_as_assumed or "fails_every" in choices or asked <= len(DATASETS) + 1 + 3, (
        "a service as assumed is asked three questions"
    )
    assert ("names may not be in EN" in run.err) == ("has_one_language" in choices)


@pytest.mark.slow
def test_a_first_contact_waits_where_an_answer_of_status_200_says_that_requests_come_too_fast(tmp_path: Path) -> None:
    with foreign(says_200=True, rate=(5, 1), body=("companies", "country", "companyNumber")) as service:
        lake = new_lake(tmp_path, service)
        run = lake.run()
    assert run.code == 0, run.err
    assert_true(lake)


@pytest.mark.slow
def test_a_rate_limiter_that_answers_503_is_taken_for_no_limit_of_companies(tmp_path: Path) -> None:
    """It took companies_per_request = 1 for the limit, and companies failed."""
    with foreign(rate=(12, 3), bulk_max=5, body=("companies", "country", "companyNumber")) as service:
        lake = new_lake(tmp_path, service)
        lake.set("api__requests_per_minute", 200)
        lake.set("api__retry_wait_max_seconds", 9)
        run = lake.run()
    assert run.code == 0, run.err
    assert_true(lake)
    assert tomllib.loads((lake.data / "state/profile.toml").read_text())["api"]["companies_per_request"] == 5
    fetched = next(line for line in run.err.splitlines() if line.startswith("Fetched: "))  # not those on the way
    assert "sent again" in fetched
    assert "failed" not in fetched


STRICT: dict[str, Any] = {"bulk_has_zero": "unknown", "body": ("companies", "country", "companyNumber")}


@pytest.mark.parametrize(
    ("unknown", "choices"),
    [
        (("BE", "0999000129"), STRICT),
        *slow(
            (("BE", "0999000129"), {"unknown": "null"}),
            (("BE", "0999000129"), {"unknown": "404"}),
            (("BE", "0999000129"), {"unknown": "422"}),
            (("FR", "099900102"), STRICT),
            (("BE", "0999000129"), {"posts": False}),
            (("BE", "0999000129"), {"posts": False, "unknown": "204"}),
        ),
    ],
)
def test_a_first_company_that_does_not_exist_hides_nothing_about_the_others(
    unknown: tuple[str, str], choices: dict[str, Any], tmp_path: Path
) -> None:
    """A list has such companies. What is learnt from one company of a country must not decide about all of them."""
    with foreign(**choices) as service:
        lake = new_lake(tmp_path, service)
        lines = lake.list.read_text().splitlines()
        lake.list.write_text("\n".join([lines[0], ",".join(unknown), *lines[1:]]))
        run = lake.run()
    assert run.code == 0, run.err
    assert "First contact" in run.err
    assert_true(lake)
    assert lake.query(f"SELECT DISTINCT status FROM company_state WHERE company_number = '{unknown[1]}'") == [
        ("not_found",)
    ]


def test_companies_for_which_whole_requests_are_refused_cost_few_requests_and_are_named_by_the_service(
    tmp_path: Path,
) -> None:
    """The words for them are learnt from a company that does not exist, and a quota of requests is none of credits."""
    with foreign(unknown="named", names_once=True, quota="X-Quota-Remaining") as service:
        lake = new_lake(tmp_path, service)
        lines = lake.list.read_text().splitlines()
        unknown = ["BE,0999000129", "NL,09990012", "FR,099900102"]
        lake.list.write_text("\n".join([*lines[:3], unknown[0], *lines[3:6], *unknown[1:], *lines[6:]]))
        run = lake.run()
    assert run.code == 0, run.err
    assert_true(lake)
    assert lake.query("SELECT count(*) FROM company_state WHERE status = 'not_found'") == [(9,)]
    profile = tomllib.loads((lake.data / "state/profile.toml").read_text())
    assert profile["api"]["names"] == {"not_found_message": "Unknown company {country} {number}"}
    assert "companies_per_request" not in profile["api"]
    assert "quota" not in run.err
    assert len(service.requests) < 60


def test_belgian_numbers_that_need_the_country_before_them_are_asked_for_so(tmp_path: Path) -> None:
    """It said that no setting covers other forms, though a request by example does."""
    with foreign(has_country=True, has_zero=True, body=("companies", "countryCode", "vatNumber")) as service:
        lake = new_lake(tmp_path, service)
        others = ["FR,552032534", "NL,33031431"]
        lake.list.write_text("\n".join([*lake.list.read_text().splitlines(), *others]))
        run = lake.run()
    assert run.code == 0, run.err
    assert_true(lake)
    assert len(service.paid) == COUNT + len(others)
    profile = tomllib.loads((lake.data / "state/profile.toml").read_text())
    assert '"vatNumber": "{country}{number}"' in profile["api"]["requests"]["financials"]
    assert profile["api"]["keep_leading_zero"]


@pytest.mark.parametrize(
    "places", [(1, "Company not found"), *slow(((0, "Company not found"),), ((0, "is in no register"),))]
)
def test_unknown_companies_that_a_refusal_names_by_their_places_are_not_found(
    places: tuple[int, str], tmp_path: Path
) -> None:
    """A first run stopped, with a setting that did not help; companies failed. Places may be counted from one."""
    with foreign(places=places) as service:
        lake = new_lake(tmp_path, service)
        lines = lake.list.read_text().splitlines()
        lake.list.write_text("\n".join([*lines[:3], "BE,0999000129", *lines[3:6], "FR,099900102", *lines[6:]]))
        run = lake.run()
    assert run.code == 0, run.err
    assert_true(lake)
    assert lake.query("SELECT count(*) FROM company_state WHERE status = 'not_found'") == [(6,)]
    assert len(service.paid) == COUNT
    assert len(service.requests) < 70


def test_a_token_that_is_refused_for_everything_costs_a_handful_of_requests_also_if_that_is_a_403(
    tmp_path: Path,
) -> None:
    with foreign(wrong_token_is_forbidden=True) as service:
        lake = new_lake(tmp_path, service)
        lake.environment["FIRMLAKE_API_TOKEN"] = "wrong"
        run = lake.run()
        assert run.code == 5
        assert "refuses the token (403: Invalid access token; oauth). Get a valid token" in run.error_line
        assert len(service.requests) <= 6
        checked = lake.call("check", str(lake.list))
        assert checked.code == 5
        assert "403: Invalid access token" in checked.error_line
        assert len(service.requests) <= 6 + 10
        lake.environment["FIRMLAKE_API_TOKEN"] = "geheim"
        assert lake.run().code == 0
        lake.write(2 * COUNT)
        lake.environment["FIRMLAKE_API_TOKEN"] = "wrong"
        service.requests.clear()
        assert lake.run().code == 5, "other companies are fresh, and it is still the token that is refused"
        assert len(service.requests) <= 6


@pytest.mark.parametrize("count", [25, *slow(60)])
def test_a_list_whose_first_companies_are_refused_for_their_own_reason_loses_no_other(
    count: int, tmp_path: Path
) -> None:
    """Nothing was bought of such a list."""
    numbers = [("BE", number) for country, number in sample_numbers(500) if country == "BE" and number[0] == "0"][:80]
    refused = numbers[:count]
    with foreign(dissolved=frozenset(number.removeprefix("0") for _, number in refused)) as service:
        lake = Lake(tmp_path, Remote(service), numbers, run__check="true")  # type: ignore[arg-type]
        run = lake.run()
    assert run.code == 3, run.err
    assert f"{count} companies failed" in run.error_line
    assert "not asked for" not in run.error_line
    lake.numbers = numbers[count:]
    assert_true(lake)


def test_companies_that_are_not_asked_for_because_those_before_were_refused_are_counted_at_the_end(
    tmp_path: Path,
) -> None:
    numbers = sample_numbers(150)
    with foreign(bulk_has_zero="refused") as service:
        lake = Lake(tmp_path, Remote(service), numbers)  # type: ignore[arg-type]
        run = lake.run()
    short = [number for country, number in numbers if country == "BE" and number[0] == "0"]
    assert run.code == 3, run.err
    said = re.search(r"(\d+) companies failed, of which (\d+) were not asked for because", run.error_line)
    assert said is not None, run.error_line
    assert (int(said[1]), int(said[2]) >= len(short) - 20) == (len(short), True)
    assert "it finds the spelling of company numbers" in run.error_line


# What chooses the language -> where companies are said to be; headers of credits -> whether only their numbers tell.
LOOSE = [
    ("X-Locale", "Gent", "X-Credits-Used", "X-Credits-Left", False),
    ("X-Tongue", "Gand", "X-Charged", "X-Balance", True),
]


@pytest.mark.parametrize(("language", "place", "charge", "left", "is_nameless"), [LOOSE[1], *slow(LOOSE[0])])
def test_shares_language_and_credits_are_read_from_the_first_run_on_or_it_says_so(
    language: str, place: str, charge: str, left: str, is_nameless: bool, tmp_path: Path
) -> None:
    """Where all companies were paid for before, no number of credits changes, so the headers are named."""
    with foreign(percent=not is_nameless, language=language, charge=charge, left=left) as service:
        lake = new_lake(tmp_path, service)
        run = lake.run("--set", "api.language=NL")
        later = new_lake(tmp_path / "later", service).run("--set", "api.language=NL")
    assert (run.code, run.content["credit_count"]) == (0, COUNT), run.err
    assert f"{5000 - COUNT:,} left" in run.err
    shares = lake.query("SELECT stake_fraction FROM relationships WHERE stake_fraction IS NOT NULL ORDER BY ALL")
    expected = [one["percentage"] for company in lake.numbers for one in parties(company) if "percentage" in one]
    assert [share for (share,) in shares] == sorted(expected)
    assert lake.query("FROM rejects") == []
    assert ("relationships.stake_fraction in per cent, so divided by 100. Written: " in run.err) != is_nameless
    assert lake.query("SELECT DISTINCT place FROM companies WHERE place <> 'Sluis'") == [(place,)]
    lines = [line for line in run.err.splitlines() if "names may not be in NL" in line]
    assert len(lines) == (place == "Gand")
    assert all("in api.requests, as X-NAME: {language}" in line for line in lines)
    said = "The service may report credits in x-balance, x-charged: set api.names.credits_charged_header, or"
    assert (said in run.err, said in later.err) == (False, is_nameless), later.err


@pytest.mark.slow
def test_what_was_said_is_not_said_again_when_a_first_run_looks_closer(tmp_path: Path) -> None:
    with foreign(bulk_max=5, has_one_language=True) as service:
        run = new_lake(tmp_path, service).run()
    assert run.code == 0, run.err
    assert "it differs from the settings in api.companies_per_request" in run.err
    assert run.err.count("names may not be in EN") == 1


def test_a_first_run_stops_before_it_buys_what_it_cannot_read_and_goes_on_once_it_can(tmp_path: Path) -> None:
    with foreign(dates="%d %b %Y") as service:
        lake = new_lake(tmp_path, service)
        run = lake.run()
        assert run.code == 1
        assert "The list was not bought" in run.error_line
        assert "financials startDate = \"01 Jan 2024\": '01 Jan 2024' is no date YYYY-MM-DD; all of" in run.error_line
        assert "Then run the list again: companies that were bought cost nothing then" in run.error_line
        assert (len(service.paid), len(service.requests) <= 3) == (5, True)
        service.choices.dates = "%d.%m.%Y"
        run = lake.run()
    assert run.code == 0, run.err
    assert_true(lake)
    assert len(service.paid) == COUNT


@pytest.mark.parametrize(
    ("choices", "step"),
    [
        ({"identifier": "company"}, "the structure of answers cannot be set"),
        ({"unknown": "204", "form": "none"}, "name companies that the service certainly knows"),
    ],
)
@pytest.mark.slow
def test_no_advice_leads_back_to_where_it_was_given(choices: dict[str, Any], step: str, tmp_path: Path) -> None:
    """A check that finds nothing does not say that its file helps, and a run that asked everything names no check."""
    numbers = [("BE", "0999000129"), ("NL", "09990000")] if "unknown" in choices else COUNT
    with foreign(**choices) as service:
        lake = Lake(tmp_path, Remote(service), numbers, run__check="true")  # type: ignore[arg-type]
        checked = lake.call("check", str(lake.list), "--write", str(tmp_path / "fit.toml"), "--json")
        run = lake.run()
    assert checked.code == run.code == 1, run.err
    findings = {each["assumption"]: each for each in json.loads(checked.out)["findings"]}
    assert not any("firmlake check" in each["next_step"] for each in findings.values())
    assert "a run with these settings" not in findings
    assert "fit.toml, with the settings in use, and no new one" in checked.err
    assert step in run.error_line
    assert "--write FILE" not in run.error_line


@pytest.mark.slow
def test_a_person_says_what_comes_first_in_dates_that_have_two_readings(tmp_path: Path) -> None:
    """No day is above 12."""
    with foreign(dates="02/%m/%Y") as service:
        lake = new_lake(tmp_path, service)
        run = lake.run()
        assert run.code == 1
        assert "'02/01/2024' may begin with the day or with the month; all of" in run.error_line
        assert 'Set contract.date_order to "day" or "month", whichever comes first' in run.error_line
        run = lake.run("--set", "contract.date_order=day")
    assert run.code == 0, run.err
    assert lake.query("SELECT DISTINCT day(end_date), month(end_date) FROM financials") == [(2, 12)]


@pytest.mark.parametrize("form", ["flat", "none"])
def test_a_list_is_not_bought_from_a_service_whose_answers_have_another_structure(form: str, tmp_path: Path) -> None:
    with foreign(identifier="company", form=form) as service:
        run = new_lake(tmp_path, service).run()
    assert run.code == 1
    assert "The list was not bought" in run.error_line
    assert 'it starts \'{"company":' in run.error_line
    assert "it answers as the settings say" not in run.err
    assert len(service.paid) <= 3


NAMELESS = {"form": "none", "paging": ("aantal", "vanaf"), "language": "X-Lang", "needs_language": REQUIRED}


@pytest.mark.parametrize(
    ("choices", "what"), [({"refusal": "plain", "form": "none", "gets": False}, ""), (NAMELESS, "paging parameters")]
)
def test_a_first_run_stops_before_it_buys_where_a_person_must_decide(
    choices: dict[str, Any], what: str, tmp_path: Path
) -> None:
    """A header for the language that was found in a refusal is not forgotten when nothing is found for the pages."""
    with foreign(**choices) as service:
        lake = new_lake(tmp_path, service)
        run = lake.run()
        assert run.code == 1
        assert "The list was not bought" in run.error_line
        assert (what in run.error_line, " more difference" in run.error_line) == (True, bool(what))
        assert "`firmlake check LIST` shows everything; --no-check runs the list as it is" in run.error_line
        assert len(service.paid) == bool(what), "one company was answered by GET"
        assert "Run `firmlake check" in lake.run("--no-check").error_line


DUTCH = """
POST /v1/companies/{dataset}
Accept-Language: {{language}}

{{"ondernemingen": [{{"landcode": "{{country}}", "ondernemingsnummer": "{{number}}"}}]{page}}}
"""


@pytest.mark.slow
def test_names_that_nobody_guesses_are_given_by_example(tmp_path: Path) -> None:
    page = ', "aantal": {limit}, "vanaf": {offset}'
    examples = {dataset: DUTCH.format(dataset=dataset, page=page * (dataset == "financials")) for dataset in DATASETS}
    flags = [part for name, text in examples.items() for part in ("--set", f"api.requests.{name}={text}")]
    names = {"body": ("ondernemingen", "landcode", "ondernemingsnummer"), "paging": ("aantal", "vanaf")}
    with foreign(refusal="plain", **names) as service:
        lake = Lake(tmp_path, Remote(service), COUNT)  # type: ignore[arg-type]
        checked = lake.call("check", str(lake.list), "--write", str(tmp_path / "written.toml"), "--json", *flags)
        run = lake.run(*flags)
    assert (checked.code, run.code) == (0, 0), checked.out + run.err
    assert_true(lake)


@pytest.mark.parametrize("wrong", ["lookalikes", *slow("")])
def test_an_example_of_financials_alone_is_followed_for_the_other_datasets_and_kept(wrong: str, tmp_path: Path) -> None:
    """A wrong example of another dataset is replaced; that of financials is kept as it was given."""
    body = '{"request": {"companies": [{"countryCode": "{country}", "companyNumber": "{number}"}], "limit": {limit}, '
    given = f'POST /v1/companies/financials\nX-Gateway-Tongue: {{language}}\n\n{body}"offset": {{offset}}}}}}'
    flags = ["--set", f"api.requests.financials={given}"]
    if wrong:
        text = f'POST /v1/companies/{wrong}\nX-Gateway-Tongue: {{language}}\n\n{{"these": [{{"x": "{{number}}"}}]}}'
        flags += ["--set", f"api.requests.{wrong}={text}"]
    with foreign(
        form="wrapped",
        refusal="plain",
        language="X-Gateway-Tongue",
        needs_language="Required request header '{}' is not present",
    ) as service:
        lake = new_lake(tmp_path, service)
        run = lake.run(*flags)
        asked = len(service.requests)
    assert run.code == 0, run.err
    assert_true(lake)
    profile = tomllib.loads((lake.data / "state/profile.toml").read_text())["api"]
    assert "financials" not in profile.get("requests", {})
    assert bool(wrong) or (asked <= len(DATASETS) + 4 and "requests" not in profile)


@pytest.mark.slow
def test_children_of_a_shape_nobody_knows_are_kept_as_json_and_said(tmp_path: Path) -> None:
    with foreign(children="entity") as service:
        lake, checked, run = first_contact(tmp_path, service)
    assert (checked.code, run.code) == (0, 3), run.err
    assert "children do not say in a documented way who they are, and have children[].entity instead" in run.error_line
    ((count, kept),) = lake.query(
        "SELECT count(*), count_if(extra_json LIKE '%entity%') FROM relationships WHERE direction = 'child'"
    )
    assert count == kept == sum(len(truth(*company)["relationships"]["children"]) for company in lake.numbers)  # type: ignore[index]


@pytest.mark.slow
def test_a_forbidden_dataset_of_a_service_that_never_heard_of_us_costs_that_dataset_alone(tmp_path: Path) -> None:
    with foreign(forbidden="lookalikes") as service:
        lake, checked, run = first_contact(tmp_path, service)
    assert (checked.code, run.code) == (1, 3), run.err
    assert lake.query("SELECT count(*) FROM lookalikes") == [(0,)]
    periods = sum(len(truth(*company)["financials"]) for company in lake.numbers)  # type: ignore[index]
    assert lake.query("SELECT count(*) FROM financials") == [(periods,)]


@pytest.mark.slow
def test_a_forbidden_country_needs_a_person_and_everything_else_is_checked_and_fetched(tmp_path: Path) -> None:
    with foreign(forbidden_country="FR") as service:
        lake, checked, run = first_contact(tmp_path, service, 80)  # Belgian, Dutch and French
    findings = {each["assumption"]: each for each in json.loads(checked.out)["findings"]}
    for dataset in DATASETS:
        finding = findings[f"endpoints of {dataset}"]
        assert finding["verdict"] == "needs_you"
        assert finding["seen"] == "GET 200, POST 200, but 403 for companies in FR: forbidden"
    others = [name for name, each in findings.items() if each["verdict"] == "needs_you" and "endpoints" not in name]
    assert others == []
    assert run.code == 3, run.err
    assert "The token may not ask about companies in FR (403: Forbidden resource)" in run.err
    lake.numbers = [company for company in lake.numbers if company[0] != "FR"]
    assert_true(lake)


@pytest.mark.slow
def test_a_first_run_with_a_token_that_is_limited_to_some_countries_finds_the_limits_and_buys_the_rest(
    tmp_path: Path,
) -> None:
    """Companies of its list tell the limit, because one that is named twice is answered once."""
    numbers = sample_numbers(200)
    with foreign(forbidden_country="FR", names_once=True, bulk_max=5, refusal="plain") as service:
        lake = new_lake(tmp_path, service)
        lake.write([one for country in ("FR", "BE", "NL") for one in [x for x in numbers if x[0] == country][:6]])
        run = lake.run()
    assert run.code == 3, run.err
    assert "The token may not ask about companies in FR (403: Forbidden resource)" in run.err
    profile = tomllib.loads((lake.data / "state/profile.toml").read_text())
    assert profile["api"]["companies_per_request"] == 5
    lake.numbers = [company for company in lake.numbers if company[0] != "FR"]
    assert_true(lake)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 9, 20, 25, 27])
def test_a_first_run_that_is_killed_goes_on_with_what_it_has_found_out(count: int, tmp_path: Path) -> None:
    with foreign(form="company-id", body=("companies", "country", "companyNumber")) as service:
        lake = new_lake(tmp_path, service)
        process = lake.start("run", str(lake.list))
        wait_until(lambda: len(service.requests) >= count or process.poll() is not None)
        process.kill()
        lake.end(process)
        run = lake.run()
        assert run.code == 0, run.err
        assert lake.call("verify").code == 0
        assert lake.run("--refresh").code == 0
    assert_true(lake)
    assert "companyId" in (lake.data / "state/profile.toml").read_text()
    assert lake.strays() == []
