"""One try over a real connection to servers that behave badly."""

import contextlib
import socket
import ssl
import subprocess
import threading
import time as real_time

import pytest

from firmlake.api import requests
from firmlake.api.connection import environment_proxy
from firmlake.core import errors
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings

ACME = Company("BE", "0770493071")
REQUEST = requests.bulk(ApiSettings(), "financials", [ACME], 5)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"


def receive_request(connection):
    """Read one request to the end of its JSON; whether there was one."""
    received = b""
    while not received.endswith(b"}"):
        piece = connection.recv(65536)
        if not piece:
            return False
        received += piece
    return True


@contextlib.contextmanager
def serve(behave, context=None):
    """Let `behave(socket, stop)` deal with each connection, after the head and body of a request are read."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop, threads = threading.Event(), []

    def deal(connection):
        with contextlib.suppress(OSError), connection:
            connection.settimeout(5)
            if context:
                connection = context.wrap_socket(connection, server_side=True)
            if receive_request(connection):
                behave(connection, stop)
            connection.close()

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=deal, args=(connection,)))
            threads[-1].start()

    threads.append(threading.Thread(target=accept))
    threads[-1].start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in threads:
            thread.join(5)


@pytest.fixture
def ask(make_client, landed):
    """Send one request once; give what landed and how long it took."""

    def send(base_url, stop=None, **settings):
        client = make_client(base_url=base_url, stop=stop or threading.Event(), **settings)
        began = real_time.monotonic()
        with contextlib.suppress(errors.RequestFailedError, errors.UnavailableError, errors.InterruptedRunError):
            client.send(REQUEST, tries=1)
        return landed[-1], real_time.monotonic() - began

    return send


def reply(*pieces, every=0.0, closes=True):
    def behave(connection, stop):
        for piece in pieces:
            connection.sendall(piece)
            if every and stop.wait(every):
                return
        if not closes:
            stop.wait(5)

    return behave


def trickle(begin):
    return reply(begin, *[b"x"] * 200, every=0.05)


@pytest.mark.parametrize(
    "begin", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"], ids=["head", "body"]
)
def test_a_trickle_ends_by_the_deadline_of_the_try(ask, begin):
    """httpx alone would wait for ever: each single piece comes in time."""
    with serve(trickle(begin)) as base_url:
        answer, seconds = ask(base_url, total_timeout_seconds=0.3, read_timeout_seconds=0.2)
    assert answer.error.startswith("timeout: ")
    assert 0.25 < seconds < 5, "the trickle lasts for 10"


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n123"], ids=["head", "body"])
def test_silence_ends_by_the_read_timeout(ask, begin):
    with serve(reply(begin, closes=False)) as base_url:
        answer, seconds = ask(base_url, total_timeout_seconds=60, read_timeout_seconds=0.2)
    assert answer.error.startswith("timeout: not the whole answer within" if begin else "timeout: no answer within")
    assert answer.body == (b"123" if begin else b"")
    assert seconds < 4, "the silence lasts for 5"


def test_a_server_that_does_not_answer_with_tls_is_left_by_the_connect_timeout(ask):
    in_time = pytest.raises(errors.ServiceError, match="no connection in time")  # it closes the connection after 5 s
    with serve(reply()) as base_url, in_time:
        ask(base_url.replace("http:", "https:"), total_timeout_seconds=60, connect_timeout_seconds=0.2)


@pytest.mark.parametrize(("content", "status"), [(b"", None), (OK, 200)])
def test_an_interrupted_run_waits_only_a_grace_period_for_the_answer_under_way(ask, monkeypatch, content, status):
    if not content:
        monkeypatch.setattr("firmlake.api.connection.GRACE_SECONDS", 0.2)
    stop = threading.Event()

    def behave(connection, end):
        stop.set()
        connection.sendall(content)
        if not content:
            end.wait(5)

    with serve(behave) as base_url:
        answer, seconds = ask(base_url, stop)
    assert (answer.status, answer.error.startswith("timeout")) == (status, not content)
    assert seconds < 4, "the silence lasts for 5"


def reset(*pieces):
    def behave(connection, stop):
        for piece in pieces:
            connection.sendall(piece)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    return behave


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


CUT = "broken: the answer is truncated or not HTTP"
BROKEN = {
    # what a server does -> error, status and body of the answer
    "closed at once": (reply(), CUT, None, b""),
    "reset at once": (reset(), "broken: connection reset", None, b""),
    "not HTTP": (reply(b"SSH-2.0-OpenSSH\r\n"), CUT, None, b""),
    "cut": (reply(HEAD + b"Content-Length: 100\r\n\r\n[1,"), CUT, 200, b"[1,"),
    "chunked and cut": (reply(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n"), CUT, 200, b"[1,"),
    "too long": (
        reply(HEAD + b"Content-Length: 999999999\r\n\r\n["),
        "body: declares 999999999 bytes, more than 33554432", 200, b"",
    ),
    "not gzip": (
        reply(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\n[1,2]"),
        "body: compressed body is damaged", 200, b"",
    ),
    "whole, after a byte order mark": (reply(HEAD + b"Content-Length: 5\r\n\r\n\xef\xbb\xbf[]"), "", 200, b"[]"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_that_does_not_arrive_whole_says_so_and_keeps_what_came(ask, name):
    behave, *expected = BROKEN[name]
    with serve(behave) as base_url:
        answer, _ = ask(base_url, wire_bytes_max=33_554_432)
    assert [answer.error, answer.status, answer.body] == expected


def test_a_body_longer_than_declared_spoils_no_other_answer(make_client, landed):
    """What is too much is the next answer's problem in HTTP: it is recognised and the request repeated."""
    with serve(reply(HEAD + b"Content-Length: 2\r\n\r\n[]{garbage}\r\n\r\n", closes=False)) as base_url:
        client = make_client(base_url=base_url)
        assert [client.send(REQUEST).body for _ in range(3)] == [b"[]"] * 3


def test_a_connection_is_kept_alive_between_requests(make_client):
    peers = set()

    def behave(connection, stop):
        peers.add(connection.getpeername())
        connection.sendall(OK)
        while receive_request(connection):
            connection.sendall(OK)

    with serve(behave) as base_url:
        client = make_client(base_url=base_url)
        for _ in range(5):
            client.send(REQUEST)
        client.close()
    assert len(peers) == 1


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A certificate that nobody signed but itself."""
    folder = tmp_path_factory.mktemp("tls")
    names = "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 -pkeyopt ec_paramgen_curve:P-256"
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    command = f"openssl req -x509 -newkey ec -nodes -days 2 {names}".split() + files
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context, str(folder / "cert.pem")


def test_an_unknown_authority_ends_the_run_before_the_token_is_sent(make_client, landed, certificate):
    context, _ = certificate
    received = []
    untrusted = pytest.raises(errors.ServiceError, match="untrusted: the certificate cannot be verified")
    with serve(lambda connection, stop: received.append(1), context) as base_url, untrusted:
        make_client(base_url=base_url).send(REQUEST)
    assert (len(landed), received) == (1, [])


def test_an_authority_named_in_the_environment_is_trusted(make_client, certificate, monkeypatch):
    context, file = certificate
    monkeypatch.setenv("SSL_CERT_FILE", file)
    with serve(reply(OK), context) as base_url:
        assert make_client(base_url=base_url).send(REQUEST).status == 200


def test_a_deadline_holds_over_tls_too(ask, certificate, monkeypatch):
    context, file = certificate
    monkeypatch.setenv("SSL_CERT_FILE", file)
    with serve(trickle(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"), context) as base_url:
        answer, seconds = ask(base_url, total_timeout_seconds=0.5, read_timeout_seconds=0.2)
    assert answer.error.startswith("timeout")
    assert seconds < 5, "the trickle lasts for 10"


def test_on_this_machine_no_proxy_is_used(make_client, monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serve(reply(OK)) as base_url:
        assert make_client(base_url=base_url).send(REQUEST).status == 200


def test_elsewhere_a_proxy_sees_a_tunnel_and_not_the_token(make_client, landed, monkeypatch):
    received = []

    def proxy():
        connection, _ = listener.accept()
        with connection:
            received.append(connection.recv(65536))
            connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=proxy)
        thread.start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(errors.ServiceError, match="unreachable"):
            make_client(base_url="https://service.test", tries=1).send(REQUEST)
        thread.join(5)
    assert received[0].startswith(b"CONNECT service.test:443")
    assert b"uthorization" not in received[0]
    assert landed[0].error == "unreachable: the proxy refuses"


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://proxy:3128"}, "http://proxy:3128"),
        ({"ALL_PROXY": "proxy:3128"}, "http://proxy:3128"),
        ({"HTTP_PROXY": "http://proxy:3128"}, None),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "other.test, service.test"}, None),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".test"}, None),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "*"}, None),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "ice.test"}, "http://proxy:3128"),
    ],
)
def test_the_environment_names_a_proxy_and_who_is_exempt(monkeypatch, environment, proxy):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        for spelling in (name, name.lower()):
            monkeypatch.delenv(spelling, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert environment_proxy("https://service.test") == proxy


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "http://", "ftp://127.0.0.1", "gopher://127.0.0.1"])
def test_a_proxy_of_another_kind_is_a_setting(make_client, monkeypatch, proxy):
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(errors.SettingsError, match="HTTPS_PROXY"):
        make_client(base_url="https://service.test")
