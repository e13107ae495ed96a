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
from firmlake.api.throttle.stores import FileStore
from firmlake.api.throttle.throttle import Throttle
from firmlake.core import errors
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings, RequestSettings

from .conftest import CANARY, script

API = ApiSettings()
ACME = Company("BE", "0770493071")
REQUEST = requests.bulk(API, "financials", [ACME], 5)
LOOKALIKES = requests.bulk(API, "lookalikes", [ACME])
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


# --- one request, by what comes --------------------------------------------------------------------------------------

LEFT = {"X-Credits-Remaining": "0"}
LONG = {"Retry-After": "7200"}
PACE = {"X-RateLimit-Remaining": "150", "X-RateLimit-Reset": "30"}
"""Requests are left."""
TRY_AGAIN = [
    *map(refusal, (500, 502, 504, 408, 425)),
    *(kind("lost") for kind in (httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError)),
]
LATE, UNREACHED = httpx.ReadTimeout("late"), httpx.ConnectError("refused")
PAGE = "<h1>Not here</h1>"
FAILED, REFUSED, SERVICE = errors.RequestFailedError, errors.RequestRefusedError, errors.ServiceError
TOKEN, FORBIDDEN, SPENT = errors.AuthorizationError, errors.ForbiddenError, errors.OutOfCreditsError
PAUSED, UNAVAILABLE = errors.PausedByServiceError, errors.UnavailableError


@pytest.mark.parametrize(
    ("answers", "sent", "error", "said", "sent_again"),
    [
        # answers, requests, error, its words, requests of a second call: 0 if the client ends
        *(([refusal(code)], 1, REFUSED, rf"\({code}: no\)", 1) for code in (400, 404, 405, 409, 413, 422)),
        ([refusal(400, "too many\r\n\x1b companies")], 1, REFUSED, r"\(400: too many \\x1b companies\)", 1),
        *(([httpx.Response(code, html=PAGE)], 1, SERVICE, r"api\.base_url", 0) for code in (404, 405)),
        ([refusal(401)], 1, TOKEN, "401: no", 0),
        ([refusal(403)], 1, FORBIDDEN, r"403: no.*leave out the dataset \(run.datasets\) or the companies", 1),
        ([refusal(402)], 1, SPENT, "402: no", 1),
        *(([refusal(code, **LEFT)], 1, SPENT, f"{code}: no", 1) for code in (403, 429)),
        *(([refusal(code, "Monthly credits exhausted")], 1, SPENT, f"{code}: Mon", 1) for code in (400, 403, 429, 500)),
        *(([refusal(code, "Not enough credits")], 1, SPENT, f"{code}: Not", 1) for code in (403, 429, 503)),
        *(([refusal(429, said)], 1, SPENT, said, 1) for said in ("Monthly quota exceeded", "Plan limit reached")),
        ([refusal(429, "Uw tegoed is opgebruikt")], 1, SPENT, "tegoed", 1),
        ([refusal(400, "Insufficient balance")], 1, SPENT, "balance", 1),
        ([refusal(429, "Monthly quota exceeded", **{"Retry-After": "60"})], 1, SPENT, "Monthly", 1),
        ([refusal(429, "Quota exceeded", **PACE)], 1, SPENT, "Quota", 1),
        ([refusal(429, "Monthly quota exceeded", **LONG)], 1, PAUSED, "120 minutes", 0),
        ([httpx.Response(200, json={"message": "insufficient credits"})], 1, SPENT, "200: insufficient", 1),
        *(([refusal(code, **LONG)], 1, PAUSED, "120 minutes", 0) for code in (429, 503, 403)),
        ([httpx.Response(404)], 1, UNAVAILABLE, "no /v1/companies/financials at the service", 0),
        *(([one], 3, FAILED, "failed 3 times", 3) for one in TRY_AGAIN),
        ([refusal(503)], 8, FAILED, "failed 8 times: status 503", 8),
        ([LATE], 3, UNAVAILABLE, "financials was not answered in 3 tries: timeout", 0),
        ([UNREACHED], 3, SERVICE, r"service\.test is unreachable: no connection\. Check api", 0),
        *(([httpx.Response(code)], 3, FAILED, f"status {code}", 3) for code in (201, 202, 204, 206)),
        ([httpx.Response(302, headers={"Location": f"https://evil.test/login?token={CANARY}"})], 1, SERVICE,
         r"redirects to https://evil\.test/login \(302", 0),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_answered_ends_with_what_the_caller_does_next(
    make_client, landed, answers, sent, error, said, sent_again
):
    client = make_client(script(*answers))
    for count in (sent, sent + sent_again):
        with pytest.raises(error, match=said) as caught:
            client.send(REQUEST, lambda body: read_answer("financials", body))
        assert len(landed) == count
        assert CANARY not in str(caught.value) + str(landed[0].headers)
    exits = {PAUSED: 4, SPENT: 4, TOKEN: 5, FORBIDDEN: 5}
    assert caught.value.exit_code == exits.get(error, 1)


@pytest.mark.parametrize(
    ("answers", "pauses"),
    [
        # answers before the last, which is one; the pauses, with the largest jitter
        ([refusal(500), refusal(500), refusal(503, **{"Retry-After": "60"}), refusal(500)], [1, 2, 60, 8]),
        ([refusal(code, **{"RateLimit-Reset": "50"}) for code in (503, 429)], [1, 50]),
        ([refusal(429, **{"Retry-After": "17"})], [17]),
        ([refusal(429, **{"Retry-After": "Thu, 01 Jan 2026 00:17:00 GMT"})], [20]),  # it is 00:16:40
        *(([refusal(429, **{"Retry-After": value})], [1]) for value in ("soon", "-1", "Thu, 01 Jan 1970 00:00:00 GMT")),
        ([refusal(403, **{"Retry-After": "8"})] * 4, [8] * 4),
        ([refusal(429, "Quota exceeded for quota metric 'requests per minute'")] * 5, [1, 2, 4, 8, 16]),
        ([refusal(429, **LEFT, **{"Retry-After": "2"})] * 2, [2, 2]),
        ([refusal(429, "Quota exceeded", **{"Retry-After": "2"})] * 2, [2, 2]),
        ([refusal(503, "No credit information available")] * 2, [1, 2]),
        ([refusal(429, **{"X-Credits-Remaining": "1"})] * 2, [1, 2]),
        ([refusal(403, "Rate limit exceeded")] * 2, [1, 2]),
        ([httpx.Response(200, json={"error": "rate_limit_exceeded"})] * 5, [1, 2, 4, 8, 16]),
        ([refusal(429)] * 9 + [refusal(500)] + [refusal(429)] * 9, None),
    ],
)
def test_before_a_request_is_repeated_it_waits_as_long_as_the_service_says_or_ever_longer(
    make_client, landed, answers, pauses
):
    """A 429 never uses up a try."""
    slept = []
    client = make_client(script(*answers, OK), sleep=slept.append, tries=5)
    assert client.send(REQUEST, lambda body: read_answer("financials", body)).attempt == len(answers) + 1
    assert pauses is None or slept == pauses
    assert [answer.attempt for answer in landed] == [*range(1, len(answers) + 2)]


@pytest.mark.parametrize("tries", [1, 2, 5])
def test_a_request_is_tried_as_often_as_set(make_client, landed, tries):
    with pytest.raises(
        errors.RequestFailedError, match="failed once" if tries == 1 else f"failed {tries} times"
    ) as caught:
        make_client(script(refusal(500)), tries=3).send(REQUEST, tries=tries)
    assert len(landed) == caught.value.attempts == tries
    assert caught.value.answer is landed[-1]
    assert not caught.value.is_outage


def test_a_429_for_want_of_credits_slows_down_no_other_request(make_client, tmp_path, time):
    """A dozen of them, one for each smaller page, made a run wait for ten minutes."""
    throttle = Throttle(FileStore(tmp_path / "key", time.clock_ns), 200)
    client = make_client(script(refusal(429, "Monthly quota exceeded", **{"Retry-After": "60"})), throttle=throttle)
    before = time.now
    for _ in range(12):
        with pytest.raises(SPENT):
            client.send(REQUEST)
    assert time.now == before


def complain(body):
    raise errors.UnusableAnswerError("no array")


@pytest.mark.parametrize(("status", "said"), [(200, "failed 3 times: no array"), (202, "status 202, and no array")])
def test_an_unusable_answer_is_asked_for_three_times(make_client, landed, status, said):
    with pytest.raises(errors.RequestFailedError, match=said):
        make_client(script(httpx.Response(status, json={})), tries=5).send(REQUEST, complain)
    assert len(landed) == 3


@pytest.mark.parametrize("status", [200, 201, 207])
def test_a_check_sees_only_complete_answers_of_a_status_that_means_success(make_client, landed, status):
    """Some services say 207 for a bulk request, and charge for it."""
    bodies, good = [], httpx.Response(status, json=[{"data": []}])
    client = make_client(script(refusal(500), httpx.Response(200, content=b"x" * 2000), good), body_bytes_max=1024)
    client.send(REQUEST, bodies.append)
    assert bodies == [good.content]


def test_the_status_counts_even_if_the_body_of_a_refusal_is_no_use(make_client, landed):
    with pytest.raises(errors.AuthorizationError, match=r"\(401\)"):
        make_client(script(httpx.Response(401, content=b"x" * 2000)), body_bytes_max=1024).send(REQUEST)
    assert landed[0].error.startswith("body")


def test_what_is_wrong_is_told_before_each_further_try_and_that_it_is_over(make_client):
    told = []
    answers = [LATE, refusal(500), refusal(429, **{"Retry-After": "7"}), OK]
    make_client(script(*answers), on_wait=told.append, tries=4).send(REQUEST)
    assert told[0].startswith("timeout: no answer within 0")
    assert [text.rpartition(", ")[2] for text in told] == ["try 2 of 4", "try 3 of 4", "again in 7 s", ""]


@pytest.mark.parametrize("status", [429, 403])
def test_429s_without_end_have_an_end(make_client, landed, time, status):
    headers = {"Retry-After": "17"} if status == 403 else {}
    with pytest.raises(errors.PausedByServiceError, match=f"nothing but {status}"):
        make_client(script(refusal(status, **headers))).send(REQUEST)
    assert time.now - 1000 <= 900
    assert len(landed) < 60


@pytest.mark.parametrize(("said", "is_open"), [("Limit Exceeded", True), ("Too Many Requests", False)])
def test_the_end_of_429s_repeats_what_the_service_said_and_that_it_may_mean_credits(make_client, said, is_open):
    """A gateway says so of a quota of credits; the wait ended without a word about that."""
    with pytest.raises(errors.PausedByServiceError) as caught:
        make_client(script(refusal(429, said))).send(REQUEST)
    assert f"for 15 minutes (status 429: {said})" in str(caught.value)
    assert ("If that is about credits or a quota, add some" in str(caught.value)) == is_open


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


def test_a_slash_that_a_redirect_asks_for_is_sent_from_then_on(make_client):
    seen = []

    def handle(request):
        seen.append(request.url.path)
        return OK if request.url.path.endswith("/") else httpx.Response(308, headers={"Location": f"{seen[-1]}/?a=b"})

    client = make_client(handle, base_url="https://service.test/gateway")
    assert [client.send(REQUEST).status for _ in range(2)] == [200, 200]
    make_client(handle, base_url="https://service.test/gateway", trailing_slash=True).send(REQUEST)
    path = "/gateway/v1/companies/financials"
    assert seen == [path, *[path + "/"] * 3]


def test_a_path_that_is_not_there_is_named_from_the_host_on(make_client):
    with pytest.raises(errors.UnavailableError, match=r"^There is no /gateway/v1/companies/financials at the service"):
        make_client(lambda request: httpx.Response(404), base_url="https://service.test/gateway/").send(REQUEST)


# --- the service as a whole ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(403, **LONG), errors.EndpointPausedError),
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
            client.send(LOOKALIKES)
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
                client.send(LOOKALIKES)

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


@pytest.mark.parametrize(("count", "seconds"), [(25, 8), (100, 60)])
def test_a_rate_limiter_that_answers_503_fails_no_request(make_client, tmp_path, landed, time, count, seconds):
    """It names no time. Four threads send more than it allows; each request is answered in the end."""
    granted = []

    def handle(request):
        time.sleep(0.1)
        granted[:] = [at for at in granted if time.now - at < seconds]
        if len(granted) >= count:
            return httpx.Response(503)
        granted.append(time.now)
        return OK

    throttle = Throttle(FileStore(tmp_path / "key", time.clock_ns), 200)
    client = make_client(handle, throttle=throttle)
    each = [requests.bulk(API, "financials", [Company("NL", f"{number:08}")], 5) for number in range(200)]
    results = time.run(*[lambda part=part: [client.send(one).status for one in each[part::4]] for part in range(4)])
    assert results == [[200] * 50] * 4
    assert len(landed) <= 1.25 * len(each)


def test_an_endpoint_that_fails_on_every_request_is_not_asked_by_who_is_not_patient(make_client, landed, time):
    client = make_client(script(refusal(500)))
    for _ in range(20):
        with pytest.raises(errors.RequestFailedError) as caught:
            client.send(REQUEST, tries=1, is_patient=False)
    assert (caught.value.is_outage, len(landed), time.now) == (True, 8, 1000)


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
