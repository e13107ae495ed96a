"""The token goes to the service and into nothing else: no error, traceback, repr, log, pickle or landed answer."""

import contextlib
import logging
import pickle
import traceback

import httpx
import msgspec
import pytest

from firmlake.api import requests
from firmlake.api.answers import read_answer
from firmlake.api.authorization import Token
from firmlake.api.throttle.throttle import open_throttle
from firmlake.core import errors
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings
from spellings import SPELLINGS, decodings, holds_piece

from .conftest import CANARY, script

REQUEST = requests.bulk(ApiSettings(), "financials", [Company("BE", "0770493071")], 5)
ECHO = {"message": f"the key {CANARY} is unknown", "authorization": f"Bearer {CANARY}"}
HEADERS = {
    "X-Request-Id": CANARY,
    "RateLimit": CANARY,
    "Content-Type": CANARY,
    "Authorization": f"Bearer {CANARY}",
    "Set-Cookie": f"token={CANARY}",
    "Location": f"https://service.test/{CANARY}?token={CANARY}",
    "X-Credits-Charged": CANARY,
}


@pytest.mark.parametrize(
    "answer",
    [
        *(
            httpx.Response(status, json=ECHO, headers=HEADERS)
            for status in (200, 202, 302, 400, 401, 402, 403, 404, 429, 500)
        ),
        httpx.ConnectError(f"Bearer {CANARY}"),
        httpx.LocalProtocolError(f"Illegal header value b'Bearer {CANARY}'"),
        httpx.ReadTimeout(CANARY),
    ],
    ids=lambda answer: str(getattr(answer, "status_code", type(answer).__name__)),
)
def test_a_service_that_repeats_the_token_gets_it_nowhere(make_client, landed, caplog, capsys, answer):
    """Not even into a traceback that shows the variables of every frame."""
    caplog.set_level(logging.DEBUG)
    client, shown = make_client(script(answer)), []
    try:
        client.send(REQUEST, lambda body: None)
    except errors.FirmlakeError as error:
        ours = error.__traceback__.tb_next  # the test's own frame knows the token
        shown += traceback.TracebackException(type(error), error, ours, capture_locals=True).format()
        shown += [repr(error), repr(vars(error)), repr(pickle.dumps(error))]
    shown += [repr(client), caplog.text, *capsys.readouterr()]
    shown += [repr(msgspec.structs.asdict(answer)) for answer in landed]
    assert landed
    assert CANARY not in "".join(shown)
    if isinstance(answer, httpx.Response):
        assert b"[token]" in landed[0].body


@pytest.mark.parametrize("status", [200, 401, 404])
@pytest.mark.parametrize("spelling", ["json, all escaped", "percent twice", "base64 of the header"])
def test_a_token_in_another_spelling_gets_nowhere(make_client, landed, spelling, status):
    """A header is cut after 256 characters, and a message after 200; tests/core/test_text.py has every spelling."""
    spelled = SPELLINGS[spelling](CANARY)
    body = b'{"message": "%s%s"}' % (b"x" * 190, spelled.encode().replace(b'"', b""))
    headers = {"X-Request-Id": spelled, "RateLimit": "x" * 245 + spelled, "Location": f"https://a.test/{spelled}"}
    shown = []
    client = make_client(script(httpx.Response(status, content=body, headers=headers)))
    try:
        client.send(REQUEST, lambda body: read_answer("financials", body))
    except errors.FirmlakeError as error:
        shown += [str(error), repr(error)]
    shown += [value for answer in landed for value in answer.headers.values()]
    assert len(landed) >= 1
    assert not any(holds_piece(text, CANARY) for text in shown), shown
    assert not any(CANARY in text for answer in landed for text in decodings(answer.body.decode()))


def test_a_piece_of_the_token_is_in_no_message_and_no_header(make_client, landed):
    body = b'{"message": "the key %s... is unknown"}' % CANARY[:16].encode()
    client = make_client(script(httpx.Response(401, content=body, headers={"X-Request-Id": CANARY[3:]})))
    with pytest.raises(errors.AuthorizationError, match=r"the key \[token\]\.\.\. is unknown"):
        client.send(REQUEST)
    assert landed[0].headers["x-request-id"] == "[token]"
    assert landed[0].body == body, "what lands stays as it is but for the whole token"


def test_nothing_we_write_holds_the_token(make_client, sandbox, tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    for token in (Token(sandbox.token), Token(CANARY)):
        api = ApiSettings(base_url=sandbox.base_url)
        client = make_client(
            base_url=api.base_url, token=token, throttle=open_throttle(api, token.key_hash(api.base_url))
        )
        with contextlib.suppress(errors.AuthorizationError):
            client.send(REQUEST)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2, "one for each key"
    assert not any(CANARY in str(path) or CANARY.encode() in path.read_bytes() for path in files)
    assert "send_request_headers" in caplog.text, "the libraries do log"
    assert CANARY not in caplog.text
