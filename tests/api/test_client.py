"""What a client does with each answer: use it, ask again, or end; in simulated time."""

import contextlib
import json
import random
import threading
import time as real_time
from functools import partial

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firmlake.api import requests
from firmlake.api.answers import read_answer
from firmlake.api.authorization import read_token
from firmlake.core import errors
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings, RequestSettings

from .conftest import CANARY, script

API = ApiSettings()
ACME = Company("BE", "0770493071")
REQUEST = requests.bulk(API, "financials", [ACME], 5)
OK = httpx.Response(200, json=[{"data": []}])


def refusal(status, message="no", **headers):
    return httpx.Response(status, json={"status": status, "message": message}, headers=headers)


# --- what goes out ---------------------------------------------------------------------------------------------------


def test_a_request_carries_token_language_and_body_to_base_url_and_path(make_client):
    seen = []
    client = make_client(lambda request: seen.append(request) or OK, base_url="https://service.test/gateway/")
    client.send(requests.bulk(msgspec.structs.replace(API, language="NL"), "financials", [ACME], 5))
    example = "GET /v1/companies/{country}/{number}/financials?limit={limit}&offset={offset}"
    by_get = msgspec.structs.replace(API, requests=RequestSettings(financials=example))
    client.send(requests.bulk(by_get, "financials", [ACME], 5, 10))
    bulk, single = seen
    assert str(bulk.url) == "https://service.test/gateway/v1/companies/financials"
    assert json.loads(bulk.content)["limit"] == 5
    assert bulk.headers["Authorization"] == f"Bearer {CANARY}"
    assert bulk.headers["Accept-Language"] == "NL"
    assert bulk.headers["Content-Type"] == "application/json"
    assert bulk.headers["Accept-Encoding"] == "gzip"
    assert str(single.url) == "https://service.test/gateway/v1/companies/BE/770493071/financials?limit=5&offset=10"
    assert "Content-Type" not in single.headers


@pytest.mark.parametrize("base_url", ["", "sandbox", "http://service.test"])
def test_an_address_that_cannot_be_used_is_found_before_any_request(make_client, base_url):
    with pytest.raises(errors.SettingsError, match=r"api\.base_url"):
        make_client(script(OK), base_url=base_url)


# --- what comes back -------------------------------------------------------------------------------------------------


def test_an_answer_is_landed_and_returned(make_client, landed, time):
    body = httpx.Response(200, json=[1], headers={"X-Credits-Charged": "7", "Set-Cookie": "a=b"})
    answer = make_client(script(body)).send(REQUEST)
    assert landed == [answer]
    assert (answer.request, answer.attempt, answer.status, answer.error) == (REQUEST, 1, 200, "")
    assert (answer.body, answer.wire_bytes, answer.fetched_at) == (b"[1]", 3, time.utc())
    assert answer.headers == {"content-type": "application/json", "x-credits-charged": "7"}


def test_every_attempt_lands_before_anything_is_decided(make_client, landed):
    answers = [httpx.ReadError("lost"), refusal(503), refusal(429, **{"Retry-After": "1"}), OK]
    make_client(script(*answers)).send(REQUEST)
    assert [(answer.attempt, answer.status) for answer in landed] == [(1, None), (2, 503), (3, 429), (4, 200)]
    assert landed[0].error == "broken: connection lost"


def test_what_landing_raises_ends_the_request(make_client):
    def disk_is_full(answer):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        make_client(script(OK), on_answer=disk_is_full).send(REQUEST)


def test_a_request_may_have_a_landing_of_its_own(make_client, landed):
    own = []
    make_client(script(OK)).send(REQUEST, on_answer=own.append)
    assert (len(own), landed) == (1, [])


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 404, 405, 409, 413, 422])
def test_a_refusal_is_not_repeated_and_says_why(make_client, landed, status):
    with pytest.raises(errors.RequestRefusedError, match=rf"\({status}: too many \\x1b companies\)") as caught:
        make_client(script(refusal(status, "too many\r\n\x1b companies"))).send(REQUEST)
    assert len(landed) == 1
    assert caught.value.answer.status == status
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("status", [404, 405])
def test_a_place_that_is_not_the_services_ends_the_run(make_client, landed, status):
    page = httpx.Response(status, html="<h1>Not here</h1>")
    with pytest.raises(errors.ServiceError, match=r"api\.base_url") as caught:
        make_client(script(page)).send(REQUEST)
    assert not isinstance(caught.value, errors.RequestRefusedError)
    assert len(landed) == 1


@pytest.mark.parametrize(
    ("status", "error", "exit_code"),
    [(401, errors.AuthorizationError, 5), (403, errors.AuthorizationError, 5), (402, errors.OutOfCreditsError, 4)],
)
def test_refusals_of_a_token_and_of_credits_are_told_apart(make_client, landed, status, error, exit_code):
    with pytest.raises(error, match="no") as caught:
        make_client(script(refusal(status))).send(REQUEST)
    assert caught.value.exit_code == exit_code
    assert len(landed) == 1


def test_after_a_refused_token_nothing_more_is_sent(make_client, landed):
    client = make_client(script(refusal(401), OK))
    for _ in range(3):
        with pytest.raises(errors.AuthorizationError):
            client.send(REQUEST)
    assert len(landed) == 1


def test_what_a_token_may_not_use_may_be_a_dataset_or_a_country(make_client):
    """A request that names one company of a country outside the subscription may be refused whole."""
    client = make_client(script(refusal(403), OK))
    with pytest.raises(errors.ForbiddenError) as caught:
        client.send(REQUEST)
    assert client.send(REQUEST).status == 200, "a request about other companies may be answered"
    assert "run.datasets" in caught.value.next_step
    assert "companies" in caught.value.next_step


def test_without_credits_the_companies_already_paid_for_are_still_fetched(make_client):
    client = make_client(script(refusal(402), OK))
    with pytest.raises(errors.OutOfCreditsError):
        client.send(REQUEST)
    assert client.send(REQUEST).status == 200


LEFT = {"X-Credits-Remaining": "0"}


@pytest.mark.parametrize("status", [403, 429])
def test_a_service_that_has_no_status_for_used_up_credits_shows_it_by_its_balance(make_client, landed, status):
    with pytest.raises(errors.OutOfCreditsError, match=f"{status}: no"):
        make_client(script(refusal(status, **LEFT), OK)).send(REQUEST)
    assert len(landed) == 1


@pytest.mark.parametrize("said", ["Monthly credits exhausted", "Not enough credits"])
@pytest.mark.parametrize("status", [403, 429])
def test_used_up_credits_are_recognised_by_the_words_of_the_service(make_client, landed, status, said):
    """Without headers that tell the balance, a run would wait for a rate limit that never ends."""
    with pytest.raises(errors.OutOfCreditsError, match=f"{status}: {said}"):
        make_client(script(refusal(status, said), OK)).send(REQUEST)
    assert len(landed) == 1


@pytest.mark.parametrize(
    "refused",
    [
        refusal(429, "Quota exceeded for quota metric 'requests per minute'"),
        refusal(429, **LEFT, **{"Retry-After": "2"}),
        refusal(429, **{"X-Credits-Remaining": "1"}),
        refusal(403, "Rate limit exceeded"),
        httpx.Response(200, json={"error": "rate_limit_exceeded"}),
    ],
    ids=["of requests", "with a wait", "with a credit left", "as 403", "as 200"],
)
def test_a_rate_limit_is_waited_out_however_it_is_told(make_client, landed, refused):
    body = []
    answers = [refused] * 5 + [OK]
    make_client(script(*answers)).send(REQUEST, check=lambda said: read_answer("financials", said) or body.append(said))
    assert [answer.status for answer in landed] == [refused.status_code] * 5 + [200]


@pytest.fixture
def token_file(tmp_path):
    file = tmp_path / "token"
    file.write_text("old")
    return file


def accepts_new(request, status=401):
    return OK if request.headers["Authorization"] == "Bearer new" else refusal(status)


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_was_replaced_is_read_again(make_client, landed, token_file, status):
    """Some services answer 403 to a token that has expired."""
    answers = partial(accepts_new, status=status)
    client = make_client(answers, token=read_token({"FIRMLAKE_API_TOKEN_FILE": str(token_file)}))
    token_file.write_text("new")
    assert client.send(REQUEST).status == 200
    assert [answer.status for answer in landed] == [status, 200]


@pytest.mark.parametrize("content", ["old", "other", ""])
def test_a_token_file_is_read_again_once(make_client, landed, token_file, content):
    client = make_client(accepts_new, token=read_token({"FIRMLAKE_API_TOKEN_FILE": str(token_file)}))
    token_file.write_text(content)
    with pytest.raises(errors.AuthorizationError):
        client.send(REQUEST)
    assert len(landed) == (2 if content == "other" else 1)


def test_threads_that_hold_an_old_token_all_go_on_with_the_new_one(make_client, time, token_file):
    def slow(request):
        answer = accepts_new(request) if time.now > 1010 else OK
        time.sleep(1)
        return answer

    def work():
        return [client.send(REQUEST).status for _ in range(20)]

    client = make_client(slow, token=read_token({"FIRMLAKE_API_TOKEN_FILE": str(token_file)}))
    token_file.write_text("new")
    assert time.run(*[work] * 4) == [[200] * 20] * 4


def test_the_status_counts_even_if_the_body_of_a_refusal_is_no_use(make_client, landed):
    refused = httpx.Response(401, content=b"x" * 2000)
    with pytest.raises(errors.AuthorizationError, match=r"\(401\)"):
        make_client(script(refused), body_bytes_max=1024).send(REQUEST)
    assert landed[0].error.startswith("body")
    assert len(landed) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_and_its_target_named_without_parameters(make_client, landed, status):
    seen = []

    def handle(request):
        seen.append(str(request.url.host))
        return httpx.Response(status, headers={"Location": f"https://evil.test/login?token={CANARY}"})

    with pytest.raises(errors.ServiceError, match=r"redirects to https://evil\.test/login \(30") as caught:
        make_client(handle).send(REQUEST)
    assert seen == ["service.test"]
    assert CANARY not in str(caught.value) + str(landed[0].headers)


def test_a_redirect_to_the_same_path_with_a_slash_names_the_setting(make_client):
    seen = []

    def handle(request):
        seen.append(request.url.path)
        slash = httpx.Response(308, headers={"Location": f"{request.url.path}/?a=b"})
        return OK if request.url.path.endswith("/") else slash

    with pytest.raises(errors.ServiceError, match=r"Set api\.trailing_slash = true"):
        make_client(handle, base_url="https://service.test/gateway").send(REQUEST)
    make_client(handle, base_url="https://service.test/gateway", trailing_slash=True).send(REQUEST)
    assert seen == ["/gateway/v1/companies/financials", "/gateway/v1/companies/financials/"]


# --- tries -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        refusal(500),
        refusal(502),
        refusal(503),
        refusal(504),
        refusal(408),
        refusal(425),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("cut"),
        httpx.WriteError("reset"),
    ],
    ids=str,
)
def test_what_may_pass_is_tried_again_as_often_as_set(make_client, landed, failure):
    client = make_client(script(failure), tries=3)
    with pytest.raises(errors.RequestFailedError, match="failed 3 times") as caught:
        client.send(REQUEST)
    assert len(landed) == caught.value.attempts == 3
    assert caught.value.answer is landed[-1]
    assert not caught.value.is_outage
    assert make_client(script(failure, failure, OK), tries=3).send(REQUEST).attempt == 3


def test_a_request_under_suspicion_can_be_tried_once(make_client, landed):
    with pytest.raises(errors.RequestFailedError):
        make_client(script(refusal(500))).send(REQUEST, tries=1)
    assert len(landed) == 1


def test_what_is_wrong_is_told_before_each_further_try_and_that_it_is_over(make_client):
    told = []
    answers = [httpx.ReadTimeout("late"), refusal(500), refusal(429, **{"Retry-After": "7"}), OK]
    make_client(script(*answers), on_wait=told.append, tries=4).send(REQUEST)
    assert told[0].startswith("timeout: no answer within 0")
    assert [text.rpartition(", ")[2] for text in told] == ["try 2 of 4", "try 3 of 4", "again in 7 s", ""]
    assert "status 500: no" in told[1]


def test_pauses_grow_and_a_hint_of_the_service_counts_if_it_is_longer(make_client, time):
    pauses = []
    answers = [refusal(500), refusal(500), refusal(503, **{"Retry-After": "60"}), refusal(500), OK]
    make_client(script(*answers), sleep=pauses.append, tries=5).send(REQUEST)
    assert pauses == [1, 2, 60, 8], "with the largest jitter"


def test_the_reset_of_the_rate_limit_concerns_429s_only(make_client):
    pauses = []
    answers = [refusal(code, **{"RateLimit-Reset": "50"}) for code in (503, 429)]
    make_client(script(*answers, OK), sleep=pauses.append).send(REQUEST)
    assert pauses == [1, 50]


def complain(body):
    raise errors.UnusableAnswerError("the answer is not JSON")


def test_an_unusable_answer_is_asked_for_three_times(make_client, landed):
    with pytest.raises(errors.RequestFailedError, match="failed 3 times: the answer is not JSON"):
        make_client(script(OK)).send(REQUEST, complain)
    assert len(landed) == 3


@pytest.mark.parametrize("status", [201, 202, 204, 206])
def test_a_success_without_the_answer_is_unusable(make_client, landed, status):
    with pytest.raises(errors.RequestFailedError, match=f"status {status}"):
        make_client(script(httpx.Response(status))).send(REQUEST)
    assert len(landed) == 3


@pytest.mark.parametrize("status", [200, 201, 207])
def test_a_success_with_the_answer_is_the_answer(make_client, landed, status):
    """Some services say 207 for a bulk request, and charge for it."""
    bodies = []
    make_client(script(httpx.Response(status, json=[{"data": []}]))).send(REQUEST, bodies.append)
    assert (len(landed), len(bodies)) == (1, 1)


def test_a_success_with_another_body_says_its_status(make_client):
    def complain(body):
        raise errors.UnusableAnswerError("no array")

    with pytest.raises(errors.RequestFailedError, match="status 202, and no array"):
        make_client(script(httpx.Response(202, json={}))).send(REQUEST, complain)


def test_a_check_sees_only_complete_answers_of_status_200(make_client):
    bodies = []
    client = make_client(script(refusal(500), httpx.Response(200, content=b"x" * 2000), OK), body_bytes_max=1024)
    client.send(REQUEST, bodies.append)
    assert bodies == [OK.content]


# --- 429 -------------------------------------------------------------------------------------------------------------


def test_a_429_never_uses_up_a_try(make_client, landed):
    storm = [refusal(429)] * 9
    assert make_client(script(*storm, refusal(500), *storm, OK), tries=2).send(REQUEST).attempt == 20


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("17", 17),
        ("Thu, 01 Jan 2026 00:17:00 GMT", 20),  # the simulated clock begins at 00:16:40
        ("soon", 1),
        ("-1", 1),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 1),
    ],
)
def test_a_429_waits_as_the_service_asks_or_by_its_own_measure(make_client, value, seconds):
    pauses = []
    make_client(script(refusal(429, **{"Retry-After": value}), OK), sleep=pauses.append).send(REQUEST)
    assert pauses == [seconds]


def test_a_403_that_says_when_to_come_back_is_a_quota_and_waits_like_a_429(make_client, landed):
    pauses = []
    quota = [refusal(403, **{"Retry-After": "8"})] * 4
    make_client(script(*quota, OK), sleep=pauses.append, tries=1).send(REQUEST)
    assert pauses == [8] * 4


@pytest.mark.parametrize("status", [429, 503, 403])
def test_a_pause_of_hours_stops_the_run_resumably(make_client, landed, status):
    client = make_client(script(refusal(status, **{"Retry-After": "7200"})))
    for _ in range(2):
        with pytest.raises(errors.PausedByServiceError, match="120 minutes") as caught:
            client.send(REQUEST)
    assert caught.value.exit_code == 4
    assert len(landed) == 1, "the second one is not sent"


@pytest.mark.parametrize("status", [429, 403])
def test_429s_without_end_have_an_end(make_client, landed, time, status):
    headers = {"Retry-After": "17"} if status == 403 else {}
    with pytest.raises(errors.PausedByServiceError, match=f"nothing but {status}"):
        make_client(script(refusal(status, **headers))).send(REQUEST)
    assert time.now - 1000 <= 900
    assert len(landed) < 60


# --- the service as a whole ------------------------------------------------------------------------------------------


def test_a_service_that_was_never_reached_is_named(make_client, landed):
    with pytest.raises(errors.ServiceError, match=r"service\.test is unreachable: no connection\. Check api") as caught:
        make_client(script(httpx.ConnectError("refused"))).send(REQUEST)
    assert not isinstance(caught.value, errors.RequestFailedError)
    assert len(landed) == API.tries


def test_an_endpoint_of_a_service_that_never_answered_is_given_up_after_the_tries(make_client, landed, time):
    client = make_client(script(httpx.ReadTimeout("late")))
    for _ in range(2):
        with pytest.raises(errors.UnavailableError, match="financials was not answered in 3 tries: timeout"):
            client.send(REQUEST)
    assert len(landed) == API.tries
    assert time.now - 1000 < 5


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(403, **{"Retry-After": "7200"}), errors.EndpointPausedError),
        (refusal(403, **{"Retry-After": "17"}), errors.EndpointPausedError),
        (httpx.Response(404), errors.UnavailableError),
    ],
    ids=["long pause", "throttled for long", "not there"],
)
def test_an_endpoint_that_is_not_to_be_had_leaves_the_others(make_client, landed, answer, error):
    def handle(request):
        return answer if request.url.path.endswith("lookalikes") else OK

    client, sent = make_client(handle), []
    for _ in range(2):
        with pytest.raises(error, match=r"lookalikes|7200|pause|nothing but 403"):
            client.send(requests.bulk(API, "lookalikes", [ACME]))
        sent.append(len(landed))
    assert sent[0] == sent[1], "nothing more is sent to that endpoint"
    assert client.send(REQUEST).status == 200


def test_patience_counts_for_each_endpoint(make_client, landed, time):
    def handle(request):
        time.sleep(0.3)
        return refusal(500) if request.url.path.endswith("lookalikes") else OK

    def work():
        while True:
            with contextlib.suppress(errors.RequestFailedError):
                client.send(requests.bulk(API, "lookalikes", [ACME]))

    client = make_client(handle)
    (error,) = time.run(work)
    assert isinstance(error, errors.UnavailableError)
    assert "/v1/companies/lookalikes has failed on every request for 5 minutes: status 500" in str(error)
    assert client.send(REQUEST).status == 200


def test_a_connection_that_fails_is_never_the_requests_fault(make_client, landed, time):
    """An outage of some minutes after the first success makes no request fail."""

    def handle(request):
        if 1010 < time.now < 1200:
            raise httpx.ConnectError("refused")
        time.sleep(0.3)
        return OK

    client = make_client(handle)
    results = time.run(*[lambda: [client.send(REQUEST).status for _ in range(60)]] * 4)
    assert results == [[200] * 60] * 4
    assert sum(answer.status is None for answer in landed) < 25


@pytest.mark.parametrize("failure", [refusal(503), httpx.ConnectError("refused"), httpx.ReadTimeout("late")], ids=str)
def test_a_dead_service_ends_in_bounded_time_and_requests(make_client, landed, time, failure):
    def handle(request):
        if time.now > 1010:
            return script(failure)(request)
        time.sleep(0.3)
        return OK

    def work():
        failed = 0
        while True:
            try:
                client.send(REQUEST)
            except errors.RequestFailedError as error:
                failed += error.is_outage

    client = make_client(handle)
    results = time.run(*[work] * 4)
    assert all("failed on every request for 5 minutes" in str(result) for result in results)
    assert sum(answer.status != 200 for answer in landed) <= 30
    assert time.now - 1010 < 400


def test_ordinary_failures_cost_at_most_a_fifth_more_requests(make_client, landed, time):
    chance = random.Random(11)

    def handle(request):
        time.sleep(0.2)
        luck = chance.random()
        if luck < 0.02:
            raise httpx.ReadError("reset")
        return refusal(503) if luck < 0.12 else OK

    client = make_client(handle, tries=5)
    results = time.run(*[lambda: [client.send(REQUEST).status for _ in range(250)]] * 4)
    assert results == [[200] * 250] * 4, "none is lost"
    assert len(landed) <= 1.2 * 1000


def fails_for(poison):
    """A service that fails on every request that names a company."""
    return lambda request: refusal(500) if poison.company_number.lstrip("0") in request.content.decode() else OK


POISON = requests.bulk(API, "financials", [Company("BE", "0403170701")], 5)


def test_requests_that_fail_alone_are_no_outage_because_what_was_answered_is_answered_again(make_client, landed, time):
    client = make_client(fails_for(Company("BE", "0403170701")))
    client.send(REQUEST)
    for _ in range(40):
        with pytest.raises(errors.RequestFailedError) as caught:
            client.send(POISON, tries=1)
        assert not caught.value.is_outage
    probes = [answer for answer in landed[1:] if answer.request is REQUEST]
    assert [answer.status for answer in probes] == [200] * 5, "one for eight failures in a row"
    assert time.now - 1000 < 20


def test_a_probe_that_is_forbidden_by_now_shows_that_the_service_works(make_client, landed):
    """The token may have lost the companies of the probe; nothing is said about those of the request that failed."""
    answers, fails = script(OK, refusal(403)), fails_for(Company("BE", "0403170701"))
    client = make_client(lambda request: answers(request) if fails(request) is OK else refusal(500))
    client.send(REQUEST)
    for _ in range(9):
        with pytest.raises(errors.RequestFailedError):
            client.send(POISON, tries=1)
    assert [answer.status for answer in landed if answer.request is REQUEST] == [200, 403]


def test_a_request_that_failed_while_the_probe_failed_too_is_not_to_blame(make_client, landed, time):
    answers = script(OK, *[refusal(503)] * 20, OK)
    client = make_client(lambda request: answers(request) if time.now < 2000 else OK)
    client.send(REQUEST)
    outages = []
    for _ in range(9):
        try:
            client.send(POISON, tries=1)
        except errors.RequestFailedError as error:
            outages.append(error.is_outage)
    assert outages[:7] == [False] * 7, "failures in a row show an outage, one does not"
    assert outages[7:] == [True]
    assert landed[-1].status == 200


def test_who_is_not_patient_does_not_wait_for_a_service_that_answered_nothing(make_client, landed, time):
    client = make_client(fails_for(Company("BE", "0403170701")))
    for _ in range(20):
        with pytest.raises(errors.RequestFailedError) as caught:
            client.send(POISON, tries=1, is_patient=False)
    assert caught.value.is_outage
    assert len(landed) == 8
    assert time.now == 1000


# --- being interrupted -----------------------------------------------------------------------------------------------


def test_a_stop_wakes_every_waiting_thread_at_once(make_client):
    stop, waiting = threading.Event(), threading.Semaphore(0)

    class Forever:
        def acquire(self, sleep, tell):
            waiting.release()
            sleep(3600)

    client = make_client(script(OK), throttle=Forever(), stop=stop, sleep=None)
    caught = []

    def work():
        try:
            client.send(REQUEST)
        except errors.InterruptedRunError as error:
            caught.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert waiting.acquire(timeout=60)
    began = real_time.monotonic()
    stop.set()
    for thread in threads:
        thread.join(60)
    assert len(caught) == 4
    assert real_time.monotonic() - began < 30, "an hour is what they waited for"


def test_once_interrupted_nothing_is_sent_and_nothing_counts_as_failed(make_client, landed):
    stop = threading.Event()

    def handle(request):
        stop.set()
        raise httpx.ReadTimeout("deadline")

    client = make_client(handle, stop=stop)
    for tries in (1, None):
        with pytest.raises(errors.InterruptedRunError, match="run again to continue"):
            client.send(REQUEST, tries=tries)
    assert len(landed) == 1


# --- whatever happens ------------------------------------------------------------------------------------------------

OUTCOMES = [
    OK,
    *(refusal(status) for status in (202, 302, 400, 401, 402, 403, 404, 408, 429, 500, 503)),
    refusal(429, **{"Retry-After": "5"}),
    refusal(503, **{"Retry-After": "9999"}),
    httpx.ReadTimeout("late"),
    httpx.ConnectError("refused"),
    httpx.RemoteProtocolError("cut"),
]


@given(outcomes=st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=12))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_comes_each_attempt_lands_once_and_a_request_ends_in_an_answer_or_a_named_error(
    make_client, landed, outcomes
):
    landed.clear()
    sent = []
    answers = script(*outcomes, OK)
    client = make_client(lambda request: sent.append(request) or answers(request))
    for _ in range(3):
        first, answer = len(landed), None
        with contextlib.suppress(errors.FirmlakeError):
            answer = client.send(REQUEST)
        assert answer is None or (answer.status, answer) == (200, landed[-1])
        assert [answer.attempt for answer in landed[first:]] == list(range(1, len(landed) - first + 1))
        assert len(landed) == len(sent)
