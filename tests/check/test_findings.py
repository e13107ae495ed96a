"""What `check` says of a service; the services are functions of a request."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from threading import Event
from typing import Any

import msgspec
import pytest

from firmlake.api.authorization import Token
from firmlake.api.client import Access
from firmlake.api.connection import REAL
from firmlake.api.exchange import Answer
from firmlake.api.requests import Request
from firmlake.api.throttle.throttle import Throttle
from firmlake.check.examples import find_paging
from firmlake.check.finding import Finding
from firmlake.check.limits import (
    choose_repeated,
    find_bounds,
    find_companies_cap,
    find_language,
    find_messages,
    find_not_found,
    find_page_cap,
    find_records_cap,
)
from firmlake.check.questions import (
    ask_briefly,
    ask_questions,
    find_credit_headers,
    find_lists,
    find_price,
    find_spelling,
)
from firmlake.check.talk import Talk, pagination
from firmlake.core.company import Company, normal_form
from firmlake.core.errors import RequestFailedError, RequestRefusedError, ServiceError, UnavailableError
from firmlake.core.settings import ApiSettings, ContractSettings, Settings
from firmlake.enrich.check import Checked
from firmlake.enrich.contact import choose_companies
from firmlake.enrich.values import describe_values
from firmlake.terminal.rows import show
from firmlake.terminal.runs import checked_parts
from firmlake_sandbox import sample_numbers
from support import ACME, BOLT, NOON, found, lookalike, not_found, period

API = ApiSettings(base_url="http://127.0.0.1:1")
Said = tuple[int, Any] | tuple[int, Any, dict[str, str]]


class Service(Talk):
    """A conversation without a connection: a function gives status, content and perhaps headers of the answer."""

    def __init__(self, answer: Callable[[Request], Said], api: ApiSettings = API) -> None:
        self._answer, self.sizes = answer, list[int]()
        super().__init__(Access(api, Token("none"), Throttle()), 10**6, Event(), lambda answer: None, REAL)

    def _connect(self) -> Any:
        return self

    def close(self) -> None:
        """Nothing is open."""

    def send(self, request: Request, check: object, *, on_answer: Callable[[Answer], None], **how: object) -> None:
        """Take the place of a client."""
        self.sizes.append(request.limit or len(named(request)))
        status, content, *headers = self._answer(request)
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.take(Answer(request, 1, status, "", *(headers or [{}]), body, NOON, 1, 0), on_answer)

    def take(self, answer: Answer, on_answer: Callable[[Answer], None]) -> None:
        on_answer(answer)
        if not answer.is_success:
            raise RequestRefusedError("no")


def named(request: Request) -> list[Company | None]:
    """The companies that a request names, as often as it names them."""
    if request.method == "GET":
        return [*request.companies]
    entries = json.loads(request.body)["companies"] if request.body else []
    return [normal_form(one["countryCode"], str(one["companyNumber"])) for one in entries]


def answering(*known: Company, leaves_out: bool = False, **change: Any) -> Callable[[Request], Said]:
    """Answer for known companies; others are not found, or left out."""

    def answer(request: Request) -> Said:
        elements = [
            found(one, request.endpoint) | change if one in known else not_found(one, request.endpoint)
            for one in named(request)
            if one in known or not leaves_out
        ]
        return 200, elements[0] if request.method == "GET" and elements else elements

    return answer


def finding(row: str, answer: Callable[[Request], Said], api: ApiSettings = API) -> Finding:
    talk = Service(answer, api)
    return next(one for one in chain(find_lists(talk), ask_questions(talk, [ACME], None)) if one.assumption == row)


def gets(answer: Callable[[Request], Said]) -> Callable[[Request], Said]:
    """Give an answer of its own to each GET for a company."""
    others = answering(ACME)
    return lambda request: answer(request) if request.method == "GET" and request.companies else others(request)


def refusing(status: int, message: str) -> Callable[[Request], Said]:
    return gets(lambda request: (status, {"error": {"message": message}}))


@pytest.mark.parametrize("datasets", [("lookalikes",), ("relationships", "financials")])
def test_a_first_run_asks_for_financials_first_if_it_wants_them_at_all(datasets: tuple[str, ...]) -> None:
    talk = Service(answering(ACME))
    ask_briefly(talk, datasets, [ACME])
    assert {answer.request.endpoint for answer in talk.answers} == {datasets[-1]}


def test_values_that_answers_show_are_told_without_those_that_were_set_before() -> None:
    before = ContractSettings(scales={"lookalikes.score": 100})
    told = describe_values({"contract.scales": {**before.scales, "relationships.stake_fraction": 100}}, before)
    assert ("stake_fraction" in told, "score" in told) == (True, False)


# --- endpoints -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("needs_limit", [True, False], ids=["limit required", "limit unknown"])
def test_pages_are_asked_for_with_a_limit_as_in_runs_and_without_one_if_that_is_refused(needs_limit: bool) -> None:
    def answer(request: Request) -> Said:
        is_wrong = request.endpoint == "financials" and (request.limit is None) == needs_limit
        return (400, {"message": "no"}) if is_wrong else answering(ACME)(request)

    assert finding("endpoints of financials", gets(answer)).verdict == "as_assumed"


@pytest.mark.parametrize(
    ("row", "answer", "verdict", "seen", "step"),
    [
        ("lists", answering(ACME), "covered", "not an overview of lists", ""),
        ("endpoints of lookalikes", refusing(400, "no year"), "needs_you", "GET 400: refused (400: no year)",
         "Ask the service to allow or repair lookalikes"),
        ("endpoints of lookalikes", refusing(405, ""), "needs_you", "GET 405: fails", "`firmlake run LIST --sample 5`"),
        ("spelling of company numbers", refusing(404, "no such route"), "needs_you", "(404: no such route)",
         "api.base_url"),
        ("bulk body", refusing(400, "header X-Client is required"), "needs_you",
         "is refused (400: header X-Client is required)", "api.requests"),
        ("structure of answers",
         lambda request: (200, [{"identifier": {"companyNumber": ACME.company_number}, "data": []}]), "needs_you",
         "is no company number of the specification", "structure of answers cannot be set"),
    ],
)  # fmt: skip
def test_what_a_person_must_know_is_said_in_the_words_of_the_service(
    row: str, answer: Callable[[Request], Said], verdict: str, seen: str, step: str
) -> None:
    one = finding(row, answer)
    assert one.verdict == verdict
    assert seen in one.seen
    assert step in one.next_step


@pytest.mark.parametrize(
    ("ours", "said", "step"),
    [
        ("Accept-Language", "header 'X-Language' must be one of NL, FR", "accepts in X-Language, and"),
        ("Accept-Language", "the X-Lang header is required", "accepts in X-Lang, and"),
        ("X-Language", "header 'X-Language' must be one of NL, FR", "api.language to a language"),
    ],
)
def test_where_the_service_names_a_header_for_the_language_so_does_the_next_step(
    ours: str, said: str, step: str
) -> None:
    text = API.requests.financials.replace("Accept-Language", ours)
    api = msgspec.structs.replace(API, requests=msgspec.structs.replace(API.requests, financials=text))
    assert step in finding("endpoints of lookalikes", refusing(400, said), api).next_step


# --- companies -------------------------------------------------------------------------------------------------------

KBC, SOLVAY, UCB = Company("BE", "0403227515"), Company("BE", "0403091220"), Company("BE", "0403053608")
HEINEKEN = Company("NL", "33011433")
COMPANIES = [ACME, BOLT, HEINEKEN, SOLVAY, UCB]


def knowing(*spelled: str) -> Callable[[Request], Said]:
    """Know companies only as they are spelled here."""

    def answer(request: Request) -> Said:
        (entry,) = json.loads(request.body)["companies"]
        identifier = {"country": entry["countryCode"], "companyNumber": entry["companyNumber"]}
        return 200, [{"identifier": identifier, "data": [] if entry["companyNumber"] in spelled else None}]

    return answer


@pytest.mark.parametrize(
    ("spelled", "asked", "verdict", "settings", "seen"),
    [
        (["0403.227.515"], [KBC, SOLVAY, UCB], "needs_you", {},
         "but not BE 0403227515, BE 0403091220, BE 0403053608 with or without the leading zero"),
        ([], [KBC], "not_observed", {}, "BE 0403227515 unknown, too few to tell"),
        (["0403227515"], [KBC], "covered", {"api.keep_leading_zero": True}, "only with the leading zero"),
        (["403227515"], [KBC], "as_assumed", {}, "only 403227515 is known"),
        (["403227515", "0403227515"], [KBC], "as_assumed", {}, "known with and without the leading zero"),
        ([], [], "not_observed", {}, "no Belgian company was requested"),
    ],
)  # fmt: skip
def test_a_spelling_is_found_for_each_country(
    spelled: list[str], asked: list[Company], verdict: str, settings: dict[str, Any], seen: str
) -> None:
    """A known Dutch company does not hide that Belgian ones need the zero."""
    talk = Service(knowing("33011433", *spelled))
    one = find_spelling(talk, "lookalikes", HEINEKEN, [HEINEKEN, *asked], usual=False)
    assert (one.verdict, one.settings) == (verdict, settings)
    assert seen in one.seen
    assert talk.api.keep_leading_zero == bool(settings)


def test_of_belgium_a_company_with_two_spellings_is_asked_for_if_the_list_has_one(tmp_path: Any) -> None:
    """Otherwise the check would not see how most numbers of the list must be spelled."""
    path = tmp_path / "list.csv"
    path.write_text("country,number\nNL,33011433\nBE,1012555878\nBE,0403227515\n", encoding="utf-8")
    assert choose_companies(Settings(), (), path, 3).companies == (KBC, HEINEKEN)


def strict(request: Request) -> Said:
    """Leave out unknown companies, and refuse a request for one alone."""
    if ACME not in request.companies:
        return 404, {"detail": "No companies found"}
    return answering(ACME, leaves_out=True)(request)


def refusing_a_stranger(status: int, message: str) -> Callable[[Request], Said]:
    return lambda request: (status, {"message": message}) if BOLT in request.companies else answering(ACME)(request)


def saying(message: str) -> Callable[[Request], Said]:
    return lambda request: (200, [not_found(one, request.endpoint, message=message) for one in request.companies])


@pytest.mark.parametrize(
    ("answer", "verdict", "settings", "seen"),
    [
        (answering(ACME), "as_assumed", {}, "'Company not found'"),
        (answering(ACME, leaves_out=True), "covered", {}, "no element about"),
        (strict, "covered", {}, "alone in a request: 404: No companies found"),
        (lambda request: (200, []), "needs_you", {}, "answered for no company"),
        (refusing_a_stranger(422, "Company not found"), "covered", {}, "finds such companies by halving"),
        (refusing_a_stranger(500, "Company not found"), "covered", {}, "finds such companies by halving"),
        (refusing_a_stranger(422, "Bad companies"), "needs_you", {}, "(422: Bad companies)"),
        (refusing_a_stranger(422, f"Unknown company NL {BOLT.company_number}"), "covered",
         {"api.names.not_found_message": "Unknown company {country} {number}"}, ""),
        (refusing_a_stranger(422, f"NL {BOLT.company_number}: try again later"), "needs_you", {}, "try again"),
        (lambda request: (422, {"message": f"No {BOLT.company_number}, {len(request.companies)}"}), "needs_you", {},
         f"(422: No {BOLT.company_number}, 2)"),
        (saying(f"No company NL/{BOLT.company_number} could be found"), "covered",
         {"api.names.not_found_message": "No company {country}/{number} could be found"}, ""),
        (saying("Temporarily unavailable"), "needs_you", {}, "may be said of any company"),
    ],
)  # fmt: skip
def test_how_a_service_says_that_it_does_not_know_a_company(
    answer: Callable[[Request], Said], verdict: str, settings: dict[str, Any], seen: str
) -> None:
    """Words of a passing fault are not taken for them: every company that fails so would count as unknown."""
    one = find_not_found(Service(answer), "lookalikes", ACME, BOLT)
    assert (one.verdict, one.settings) == (verdict, settings)
    assert seen in one.seen


@pytest.mark.parametrize(("status", "is_proposed"), [(422, True), (404, True), (500, True), (403, False)])
def test_words_are_proposed_only_where_a_run_reads_them(status: int, is_proposed: bool) -> None:
    one = find_not_found(Service(refusing_a_stranger(status, "onderneming niet gevonden")), "lookalikes", ACME, BOLT)
    assert one.verdict == "needs_you"
    assert ("set api.names.not_found_message" in one.next_step) == is_proposed


@pytest.mark.parametrize(
    ("messages", "verdict", "settings"),
    [
        ((None, None), "as_assumed", {}),
        (("OK", "ok"), "covered", {}),
        (("Done", "Done"), "covered", {"api.names.success_message": "Done"}),
        (("1 record", "2 records"), "needs_you", {}),
        (("Try again later", "Try again later"), "needs_you", {}),
    ],
)
def test_the_message_beside_records_is_found(messages: Any, verdict: str, settings: dict[str, Any]) -> None:
    said = dict(zip((ACME, BOLT), messages, strict=True))
    talk = Service(lambda request: (200, [found(one, "financials", period()) | {"message": said[one]} for one in said]))
    one = find_messages(talk, {"financials": talk.bulk("financials", [ACME, BOLT])})
    assert (one.verdict, one.settings) == (verdict, settings)


@pytest.mark.parametrize("change", [{}, {"data": None, "message": None}], ids=["absent", "null"])
def test_an_absent_array_is_named(change: dict[str, Any]) -> None:
    element = {key: value for key, value in found(ACME, "lookalikes").items() if key not in ("data", "message")}
    talk = Service(lambda request: (200, [element | change]))
    one = find_messages(talk, {"lookalikes": talk.bulk("lookalikes", [ACME])})
    said = "no `data` for 1 of 1; read as no records if the company has a name"
    assert (one.verdict, one.seen) == ("covered", said)


def test_a_language_is_not_seen_in_another_order_of_the_elements() -> None:
    turn = [ACME, BOLT]

    def answer(request: Request) -> Said:
        turn.reverse()
        return 200, [found(company, "lookalikes", lookalike()) for company in turn]

    talk = Service(answer)
    one = find_language(talk, *(talk.bulk("lookalikes", [ACME, BOLT], language=each) for each in ("EN", "NL")))
    assert (one.verdict, one.settings) == ("not_observed", {})


def test_an_answer_says_which_language_it_is_in_where_names_are_the_same_in_all() -> None:
    def answer(request: Request) -> Said:
        language = dict(request.headers).get("X-Locale", "NL")
        return 200, [found(ACME, "lookalikes")], {"content-language": language.lower()}

    talk = Service(answer)
    one = find_language(talk, *(talk.bulk("lookalikes", [ACME], language=each) for each in ("EN", "NL")))
    assert (one.verdict, one.seen, len(one.settings)) == ("covered", "X-Locale: 'nl', 'fr'", 3)


@pytest.mark.parametrize("usual", ["NL", "FR"])
@pytest.mark.parametrize(
    ("header", "most", "verdict"),
    [
        ("Accept-Language", 2, "as_assumed"),
        *((name, 8, "covered") for name in ("X-Language", "X-Locale", "X-Lang", "X-Culture", "Content-Language")),
        ("X-Tongue", 4, "not_observed"),
    ],
)
def test_the_header_for_the_language_is_found_in_few_requests(header: str, most: int, verdict: str, usual: str) -> None:
    """Where none has an effect, a person learns that names may be in another language, and what to set."""

    def answer(request: Request) -> Said:
        place = {"NL": "Luik", "FR": "Liège", "EN": "Liege"}[dict(request.headers).get(header, usual)]
        element = found(ACME, "lookalikes")
        return 200, [element | {"identifier": {**element["identifier"], "place": place}}]

    talk = Service(answer)
    one = find_language(talk, *(talk.bulk("lookalikes", [ACME], language=each) for each in ("EN", "NL")))
    assert (one.verdict, len(talk.answers) <= most) == (verdict, True), talk.answers
    assert all(f"\n{header}: {{language}}\n" in text for text in one.settings.values())
    assert len(one.settings) == (3 if verdict == "covered" else 0)
    if verdict == "not_observed":
        assert one.seen == "names may not be in EN: Accept-Language and 9 other headers change none"
        assert "X-NAME: {language}" in one.next_step
        assert one.next_step in [*checked_parts(Checked([one], Settings(), {}, 30, None))][-1]


# --- credits ---------------------------------------------------------------------------------------------------------


def told(*headers: dict[str, str]) -> Service:
    """A conversation whose answers had these headers."""
    left = iter(headers)
    talk = Service(lambda request: (200, [], next(left)))
    for offset in range(len(headers)):  # what was answered is not sent again
        talk.bulk("financials", [ACME, BOLT], 1, offset)
    return talk


@pytest.mark.parametrize(
    ("headers", "charged"),
    [
        ([{"x-credits-charged": "1.00"}, {"x-credits-charged": "2 credits"}], 3),
        ([{"x-credits-remaining": "90.00"}, {"x-credits-remaining": "70"}], 20),
        ([{"x-credits-charged": "1", "x-credits-remaining": "90"}, {"x-credits-remaining": "50"}], 1),
        ([{"x-credits-used": "3"}, {"x-credits-used": "0"}], 3),
        ([{"x-month-credits-used": "515"}, {"x-month-credits-used": "517"}], 2),
        ([{"x-credits-used": "515", "x-credits-charged": "3"}, {"x-credits-used": "517", "x-credits-charged": "2"}], 5),
        ([{}, {}], 0),
    ],
)
def test_charges_are_read_in_any_spelling_or_from_what_is_left(headers: list[dict[str, str]], charged: int) -> None:
    """What is left may fall for others who use the key, so it counts only if no charge is told.

    What was used may be that of a request, or of a month so far: such a total was taken for an unjust bill.
    """
    talk = told(*headers)
    assert (talk.charged, talk.tells_credits) == (charged, bool(charged))


@pytest.mark.parametrize(("status", "count"), [(200, 1), (400, 1), (404, 2)])
def test_a_question_that_was_answered_or_refused_for_its_form_is_not_sent_again(status: int, count: int) -> None:
    talk = Service(lambda request: (status, []))
    for _ in range(2):
        talk.bulk("lookalikes", [ACME])
    assert len(talk.answers) == count


@pytest.mark.parametrize(
    ("rows", "charged", "left"),
    [
        ({"x-balance": (97, 95, 95)}, "", "x-balance"),
        ({"x-balance": (97, 95, 95), "x-charged": (3, 2, 0)}, "x-charged", "x-balance"),
        ({"x-balance": (94, 90, 90), "x-cost": (6, 4, 0)}, "x-cost", "x-balance"),
        ({"x-charged": (3, 2, 0), "x-count": (3, 5, 5)}, "x-charged", ""),
        ({"x-quota-remaining": (97, 96, 95), "x-cost": (1, 1, 1)}, "", ""),
        ({"x-balance": (97, 97, 97), "x-charged": (0, 0, 0)}, "", ""),
        ({"x-balance": (90, 80, 80)}, "", ""),
    ],
)
def test_headers_of_any_name_tell_credits_if_their_numbers_do(
    rows: dict[str, tuple[int, ...]], charged: str, left: str
) -> None:
    """Three companies are bought by the first answer, two by the second. A quota of requests falls by one with each."""
    headers = iter([{name: str(row[place]) for name, row in rows.items()} for place in range(3)])
    talk = Service(lambda request: (200, [found(one, "lookalikes") for one in request.companies], next(headers)))
    for asked in (COMPANIES[:3], COMPANIES, COMPANIES):
        talk.bulk("lookalikes", asked)
    expected = {"api.names.credits_charged_header": charged, "api.names.credits_remaining_header": left}
    assert find_credit_headers(talk).settings == {key: name for key, name in expected.items() if name}


def test_credits_of_a_service_that_tells_only_what_is_left_are_seen() -> None:
    left = iter(("90", "89", "88", "88"))
    talk = Service(lambda request: (*answering(ACME, BOLT)(request), {"x-credits-remaining": next(left)}))
    for offset in range(4):
        talk.bulk("financials", [ACME, BOLT], 1, offset)
    headers = talk.adopt(find_credit_headers(talk))
    price = find_price(talk)
    assert headers.seen == "x-credits-remaining; firmlake counts the credits of a run itself"
    assert (price.seen, price.verdict) == ("2 for 2 companies, then free", "as_assumed")


@pytest.mark.parametrize(
    ("charges", "seen", "verdict"),
    [
        (("1", "2", "0"), "3 for 3 companies, then free", "as_assumed"),
        (("1", "3", "0"), "4 for 3 companies and 1 that it does not know", "covered"),
        (("1", "3", "4"), "8 for 3 companies", "needs_you"),
    ],
)
def test_the_price_counts_every_company_that_was_answered(charges: tuple[str, ...], seen: str, verdict: str) -> None:
    """A first contact buys further companies of the list to find the limits."""
    headers = iter(charges)
    talk = Service(lambda request: (*answering(ACME, SOLVAY, UCB)(request), {"x-credits-charged": next(headers)}))
    for offset, companies in enumerate(([ACME], [ACME, BOLT, SOLVAY, UCB], [ACME])):
        talk.bulk("financials", companies, 1, offset)
    price = find_price(talk)
    assert (price.seen, price.verdict) == (seen, verdict)


def test_a_quota_of_requests_is_no_credit_although_it_fell_by_as_much_as_was_bought() -> None:
    """A request between two that were answered was refused, without a header."""
    said = iter([(200, "199"), (422, ""), (200, "197")])

    def answer(request: Request) -> Said:
        status, left = next(said)
        return (*answering(*COMPANIES)(request), {"x-quota-remaining": left}) if left else (status, {"message": "no"})

    talk = Service(answer)
    for offset, companies in enumerate((COMPANIES[:3], COMPANIES, COMPANIES)):
        talk.bulk("financials", companies, 1, offset)
    assert find_credit_headers(talk).settings == {}


def test_a_check_does_not_say_that_nothing_was_charged_if_nobody_told_it(capsys: Any) -> None:
    show(checked_parts(Checked([], Settings(), {}, 30, None)))
    assert "credits unknown" in capsys.readouterr().out


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize("tells", [True, False])
def test_a_company_is_named_many_times_only_where_that_should_cost_nothing(tells: bool, repeats: bool) -> None:
    """One that headers show to be free, or else one that does not exist."""
    headers = {"x-credits-charged": "0"} if tells else {}
    talk = Service(lambda request: (200, [{}] * len(named(request)) * repeats, headers))
    talk.bulk("lookalikes", [ACME])
    expected = ([ACME] if tells else [ACME, BOLT]) if repeats else []
    assert choose_repeated(talk, "lookalikes", ACME, BOLT) == expected


# --- limits ----------------------------------------------------------------------------------------------------------

LOST: dict[str, tuple[int | None, str, type[ServiceError]]] = {
    "cut before a byte": (None, "broken: the answer is truncated or not HTTP", RequestFailedError),
    "cut within": (200, "broken: the answer is truncated or not HTTP", RequestFailedError),
    "late": (None, "timeout: no answer within 60 s", UnavailableError),
    "too long": (200, "body: has more than 9 bytes", RequestFailedError),
}


class Weak(Service):
    """A service whose large answers do not arrive."""

    def __init__(self, most: int, status: int | None, error: str, failure: type[ServiceError]) -> None:
        super().__init__(self._page)
        self._most, self._lost, self._failure = most, (status, error), failure

    def _page(self, request: Request) -> Said:
        paging = {"limit": request.limit, "offset": 0, "total": 900}
        return 200, {**found(ACME, "financials", period()), "pagination": paging} if request.limit else []

    def take(self, answer: Answer, on_answer: Callable[[Answer], None]) -> None:
        if self.sizes[-1] <= self._most:
            super().take(answer, on_answer)
            return
        status, error = self._lost
        failure: Any = error.partition(":")[0]
        on_answer(msgspec.structs.replace(answer, status=status, error=error, failure=failure, body=b"[99, "))
        raise self._failure("it failed", "")


@pytest.mark.parametrize("how", LOST)
def test_where_large_answers_do_not_arrive_half_as_many_companies_are_asked_for_until_they_do(how: str) -> None:
    talk = Weak(20, *LOST[how])
    one = talk.adopt(find_companies_cap(talk, "lookalikes", [ACME]))
    assert talk.sizes == [100, 50, 25, 12]
    assert (one.verdict, one.settings) == ("covered", {"api.companies_per_request": 12})
    assert one.seen == f"12, larger answers do not arrive ({LOST[how][1]})"
    assert talk.api.companies_per_request == 12


@pytest.mark.parametrize(("total", "offsets"), [(1, {0}), (2, {0, 1})])
def test_a_second_page_is_asked_for_where_there_is_one(total: int, offsets: set[int]) -> None:
    """A service that ignores the offset would send the first one for each."""
    talk = Service(answering(ACME, pagination={"limit": 1, "offset": 0, "total": total}))
    find_paging(talk, ACME)
    assert {answer.request.offset for answer in talk.answers} == offsets


def test_the_largest_page_that_arrives_is_found_by_halving() -> None:
    talk = Weak(130, *LOST["late"])
    assert find_page_cap(talk, ACME).settings == {"api.page_limit_max": 125}
    assert talk.sizes == [500, 250, 125]


def test_a_bound_that_a_refusal_names_is_tried_first() -> None:
    def answer(request: Request) -> Said:
        is_short = (request.limit or 0) <= 120
        return (200, found(ACME, "financials")) if is_short else (400, {"message": "limit must be at most 120"})

    talk = Service(answer)
    assert find_page_cap(talk, ACME).settings == {"api.page_limit_max": 120}
    assert talk.sizes == [500, 120, 121]


def test_a_service_that_sends_not_even_one_company_needs_a_person() -> None:
    one = find_companies_cap(Weak(0, *LOST["late"]), "lookalikes", [ACME])
    assert (one.verdict, one.settings) == ("needs_you", {})
    assert "timeout: no answer within 60 s" in one.seen


def test_a_service_that_cannot_be_reached_any_more_ends_the_check() -> None:
    """Half as many companies would not help."""
    with pytest.raises(RequestFailedError):
        find_companies_cap(Weak(20, None, "unreachable: no connection", RequestFailedError), "lookalikes", [ACME])


@pytest.mark.parametrize(("names_it", "status"), [(True, 422), (False, 422), (True, 404), (False, 404)])
@pytest.mark.parametrize("most", [20, 100])
def test_a_company_that_is_refused_for_its_own_reason_says_nothing_about_the_size(
    most: int, names_it: bool, status: int
) -> None:
    """A limit of fourteen was concluded from it, and kept for all runs."""
    listed = [normal_form(*pair) for pair in sample_numbers(40)]
    companies = [company for company in listed if company]
    odd = [companies[14], companies[30]]

    def answer(request: Request) -> Said:
        if len(request.companies) > most:
            return 413, {"message": "too many companies"}
        refused = [str(company) for company in odd if company in request.companies]
        said = f"Unknown: {refused[0] * names_it}" if refused else ""
        return (status, {"message": said}) if refused else answering(*companies)(request)

    talk = Service(answer)
    one = find_companies_cap(talk, "lookalikes", companies, is_list=True)
    assert one.settings == ({"api.companies_per_request": 20} if most == 20 else {})
    assert len(talk.answers) <= (4 if names_it and most == 100 else 20)


@pytest.mark.parametrize(("cut", "is_cut"), [(20, True), (700, False)])
def test_a_service_that_cuts_answers_is_asked_for_no_more_records_than_it_sends(cut: int, is_cut: bool) -> None:
    """One company, named several times, then comes with different numbers of records."""

    def answer(request: Request) -> Said:
        room, elements = cut, []
        for company in named(request):
            count = min(6, request.limit or 0, room)
            room -= count
            elements.append(found(company or ACME, "financials", *[period()] * count))
        return 200, elements

    one = find_records_cap(Service(answer, ApiSettings(page_limit_max=100)), ACME, [ACME])
    # A request for 100 companies needs room for 100 records.
    assert one.settings == ({"api.records_per_request": 20, "api.companies_per_request": 20} if is_cut else {})
    assert ("answers are cut to 20 records" in one.seen) == is_cut


def test_no_more_records_are_found_than_were_asked_for() -> None:
    """31 records of three companies are ten of each, so the limit is no more than 30."""

    def answer(request: Request) -> Said:
        return (504, {}) if len(named(request)) * (request.limit or 0) > 30 else answering(ACME)(request)

    one = find_records_cap(Service(answer, ApiSettings(page_limit_max=15)), ACME, [ACME])
    assert one.settings["api.records_per_request"] <= 30


def test_a_company_that_may_be_charged_twice_is_named_once_in_every_request_about_records() -> None:
    counts = set()

    def answer(request: Request) -> Said:
        counts.add(len(named(request)))
        return (200, []) if (request.limit or 0) <= 60 else (400, {"message": "no"})

    one = find_records_cap(Service(answer, ApiSettings(page_limit_max=100)), ACME, [])
    assert (one.settings["api.records_per_request"], counts) == (60, {1})


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        ("limit must not be greater than 100", 500, [100]),
        ("101 companies, but a request may have at most 100", 101, [100]),
        ("2 companies x limit 500 is more than 500 records: send fewer companies or a smaller limit", 1000, [500, 2]),
        ("Input should be less than or equal to 250 (v1.2, request 7f00-12ab)", 500, [250]),
        ("Bad request", 500, []),
    ],
)
def test_the_bound_is_the_largest_number_below_what_was_asked(text: str, asked: int, expected: list[int]) -> None:
    assert find_bounds([text], asked) == expected


@pytest.mark.parametrize("limit", [0, -5, "1" * 5_000])
def test_a_page_size_that_is_none_is_not_read_as_one(limit: Any) -> None:
    talk = Service(lambda request: (200, [{"identifier": {}, "pagination": {"limit": limit, "offset": 0}}]))
    assert not pagination(talk.bulk("financials", [ACME], 5, 0)).get("limit")
