"""The connection to the service: send a request once and return the outcome as an Answer.

The token goes to the service only: redirects are not followed, every URL is base URL + path, and a remote service must
use TLS with a verified certificate. Proxies of the environment are used for a remote service only, as TLS tunnels.
"""

from __future__ import annotations

import codecs
import contextlib
import random as random_module
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from firmlake import __version__
from firmlake.api.authorization import Token, read_address
from firmlake.api.exchange import Answer, Failure, choose_headers
from firmlake.api.requests import Request
from firmlake.core.errors import SettingsError
from firmlake.core.settings import ApiSettings
from firmlake.core.text import redact_whole
from firmlake.core.work import utc_now as utc

GRACE_SECONDS = 8.0
"""Time left for a request in flight after an interrupt; the run must end within 10 s."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some services send it before the JSON. It is part of the encoding, not of the content (RFC 8259, 8.1)."""

_CAUSES: tuple[tuple[type[BaseException], Failure, str], ...] = (
    (ssl.SSLCertVerificationError, "untrusted", "the certificate cannot be verified"),
    (socket.gaierror, "unreachable", "the host name cannot be resolved"),
    (ConnectionRefusedError, "unreachable", "connection refused"),
    (httpx.ConnectTimeout, "unreachable", "no connection in time"),
    (httpx.ConnectError, "unreachable", "no connection"),
    (httpx.ProxyError, "unreachable", "the proxy refuses"),
    (httpx.TimeoutException, "timeout", ""),
    (ConnectionResetError, "broken", "connection reset"),
    (httpx.ProtocolError, "broken", "the answer is truncated or not HTTP"),
    (httpx.TransportError, "broken", "connection lost"),
)
"""Codes and descriptions of errors: the first type found in the exception chain applies. The exceptions' own texts are
not used, because they may contain addresses and headers."""


class Timing(NamedTuple):
    """The sources of time and randomness of a client."""

    clock: Callable[[], float] = time.monotonic  # monotonic seconds
    sleep: Callable[[float], object] | None = None  # waits for seconds; None waits on the client's `stop` event
    random: Callable[[], float] = random_module.random  # from 0 to 1
    utc_now: Callable[[], datetime] = utc


REAL = Timing()


class Connection:
    """Sends requests, each once; may be used from many threads. Once `stop` is set, a request in flight has 8 s left.

    Raises:
        SettingsError: The address, or a proxy or certificate of the environment, is unusable. Nothing has been sent.
    """

    def __init__(
        self,
        api: ApiSettings,
        token: Token,
        stop: threading.Event,
        timing: Timing,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._api = api
        self._ending = "/" * api.trailing_slash
        self._address = read_address(api.base_url)
        self._token = token
        self._timing = timing
        self._deadline = Deadline(stop)
        self._transport = transport or self._open()
        self._headers = {
            "Accept": "application/json",
            # On the same machine, compression costs more time than it saves.
            "Accept-Encoding": "identity" if self._address.is_loopback else "gzip",
            "User-Agent": f"firmlake/{__version__}",
        }
        self._timeout = httpx.Timeout(api.read_timeout_seconds, connect=api.connect_timeout_seconds).as_dict()

    @property
    def host(self) -> str:
        """The service's host, for messages."""
        return self._address.host

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def exchange(self, request: Request, attempt: int) -> Answer:
        """Send a request once. If the connection failed, the answer says so in `error`; nothing is raised."""
        began = self._timing.clock()
        self._deadline.start(self._api.total_timeout_seconds)
        status, headers, charset = None, {}, None
        failure: Failure = ""
        problem = ""
        parts: list[bytes] = []
        wire_bytes = 0
        try:
            with closing(self._send(request)) as response:
                status, headers = response.status_code, choose_headers(response.headers, self._api.names)
                charset = response.charset_encoding
                try:
                    receive(response, parts, self._api.wire_bytes_max, self._api.body_bytes_max)
                finally:
                    wire_bytes = response.num_bytes_downloaded
        except BodyError as error:
            failure, problem = "body", str(error)
        except httpx.TransportError as error:
            failure, problem = _describe(error)
            if failure == "timeout":
                what = "no answer" if status is None else "not the whole answer"
                problem = f"{what} within {self._timing.clock() - began:.2g} s"
        answer = Answer(
            request,
            attempt,
            status,
            f"{failure}: {problem}" if failure else "",
            headers,
            redact_whole(in_utf8(b"".join(parts), charset).removeprefix(_BYTE_ORDER_MARK)),
            self._timing.utc_now(),
            self._timing.clock() - began,
            wire_bytes,
            failure,
        )
        if answer.wants_slash:
            self._ending = "/"
        return answer

    def _send(self, request: Request) -> httpx.Response:
        """Send through the transport directly: the cookies, redirects and hooks of an httpx.Client double the cost."""
        url = _url(self._address.url + request.path + self._ending, request.query)
        headers = {**self._headers, **dict(request.headers), "Authorization": self._token.header()}
        if request.body:
            headers["Content-Type"] = "application/json"
        sent = httpx.Request(
            request.method, url, headers=headers, content=request.body or None, extensions={"timeout": self._timeout}
        )
        return self._transport.handle_request(sent)

    def _open(self) -> httpx.BaseTransport:
        url = self._address.url
        proxy = None if self._address.is_loopback else environment_proxy(url)
        try:
            context = url.startswith("https:") and httpx.create_ssl_context()  # reading certificates takes 20 ms
            return PoolTransport(self._deadline, self._api.threads, context, proxy)
        except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
            raise SettingsError(
                f"The connection cannot be set up: {type(error).__name__}",
                "Check HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE",
            ) from None


@lru_cache(maxsize=64)
def _url(address: str, query: tuple[tuple[str, str], ...]) -> httpx.URL:
    """Parse a URL. Cached, because a run uses few different URLs."""
    return httpx.URL(address, params=query) if query else httpx.URL(address)


def _describe(error: BaseException) -> tuple[Failure, str]:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    return next((failure, text) for kind, failure, text in _CAUSES if any(isinstance(link, kind) for link in chain))


INFLATE_RATIO_MAX = 100
"""Highest compression ratio, enforced above 1 MiB. The service's JSON compresses 8 to 25 times, a bomb 1,000 times."""
_RATIO_FROM_BYTES = 1_048_576
_INFLATED = ("gzip", "deflate")
_SLICE_BYTES = 4096
"""Most bytes inflated at once: gzip and deflate make at most 1,032 times as many of them."""
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHARSETS = ("iso8859-1", "iso8859-15", "cp1252", "utf-16", "utf-16-le", "utf-16-be")
"""Charsets in which some services write JSON, although RFC 8259 (8.1) allows only UTF-8."""


class BodyError(Exception):
    """The body cannot be used; the message is the reason, as the end of a sentence."""


def receive(response: httpx.Response, parts: list[bytes], wire_bytes_max: int, body_bytes_max: int) -> None:
    """Receive the body of an answer, which httpx inflates as it arrives if it is in gzip or deflate.

    Args:
        response: The answer, of which only the head has been read.
        parts: Gets the body piece by piece, so that a caller has what arrived before an exception.
        wire_bytes_max: Most bytes as sent; a body that declares more is not read.
        body_bytes_max: Most bytes after inflating.

    Raises:
        BodyError: The body is too long, a bomb, or damaged. What is too long is not kept in memory.
        httpx.TransportError: The connection failed.
    """
    declared = response.headers.get("content-length", "")
    if _LENGTH.fullmatch(declared) and int(declared) > wire_bytes_max:
        raise BodyError(f"declares {declared} bytes, more than {wire_bytes_max}")
    assert isinstance(response.stream, httpx.SyncByteStream)
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in _INFLATED:
        response.stream = _Slices(response.stream)
    elif encoding:  # was not asked for; of zstd, or of gzip in gzip, a few bytes would fill the memory
        del response.headers["content-encoding"]
    size = 0
    try:
        for part in response.iter_bytes():
            size += len(part)
            received = response.num_bytes_downloaded
            if received > wire_bytes_max:
                raise BodyError(f"has more than {wire_bytes_max} bytes")
            if size > body_bytes_max:
                raise BodyError(f"inflates to more than {body_bytes_max} bytes")
            if size > max(_RATIO_FROM_BYTES, INFLATE_RATIO_MAX * received):
                raise BodyError(f"inflates to more than {INFLATE_RATIO_MAX} times its size")
            parts.append(part)
    except httpx.DecodingError:
        raise BodyError("compressed body is damaged") from None
    except BodyError:
        parts.clear()
        raise


class _Slices(httpx.SyncByteStream):
    """A body in pieces so small that none of them inflates to more than four megabytes."""

    def __init__(self, stream: httpx.SyncByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            for start in range(0, len(chunk), _SLICE_BYTES):
                yield chunk[start : start + _SLICE_BYTES]

    def close(self) -> None:
        self._stream.close()


def in_utf8(content: bytes, charset: str | None) -> bytes:
    r"""Convert a text to UTF-8 if its header declares another charset and the text is not UTF-8 already.

    A text that should be UTF-8, and has no character of it beyond ASCII, is in Windows-1252. With one, it is damaged
    and stays as it is.

    Example:
        >>> in_utf8(b"Li\xe8ge", "ISO-8859-1").decode()
        'Liège'
    """
    if _is_utf8(content):
        return content
    with contextlib.suppress(LookupError, UnicodeDecodeError):
        name = codecs.lookup(charset or "utf-8").name
        if name == "utf-8" and content.decode(errors="ignore").isascii():
            name = "cp1252"
        if name in _CHARSETS:
            return content.decode(name).encode()
    return content


def _is_utf8(content: bytes) -> bool:
    try:
        return content.isascii() or bool(content.decode())
    except UnicodeDecodeError:
        return False


_KEEP_ALIVE_SECONDS = 4.0
"""Shorter than the 5 s after which uvicorn and others close idle connections, so that none is used while it closes."""


class PoolTransport(httpx.HTTPTransport):
    """Sends requests over pooled connections that keep to a deadline; may be used from many threads.

    httpx has no setting for the network backend of its pool, so the attribute is replaced; tests/api/test_connection.py
    fails if that stops working. Raises ImportError if the proxy needs a library that is not installed, ValueError if
    its URL is unusable.
    """

    def __init__(
        self, deadline: Deadline, connections: int, context: ssl.SSLContext | bool, proxy: str | None = None
    ) -> None:
        if proxy and not httpx.URL(proxy).host:
            raise ValueError("the proxy's URL names no host")
        limits = httpx.Limits(
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=_KEEP_ALIVE_SECONDS,
        )
        super().__init__(verify=context, trust_env=False, limits=limits, proxy=proxy)
        self._pool._network_backend = DeadlineBackend(httpcore.SyncBackend(), deadline)


def environment_proxy(url: str) -> str | None:
    """Return the proxy for a URL from HTTPS_PROXY or ALL_PROXY; None if there is none or NO_PROXY exempts the host."""
    parts = httpx.URL(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


_SLICE_SECONDS = 0.5
"""How often a waiting read checks for an interrupt."""
_READ_BYTES = 1_048_576
"""Bytes read at once, usually a whole answer; httpcore asks for 64 KiB."""


class Deadline(threading.local):
    """The deadline of each thread's current try; once `stop` is set, `GRACE_SECONDS` are left.

    These are long enough to receive an answer that is paid for, and short enough for the process to end in time.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._at = float("inf")
        self._is_ending = False

    def start(self, seconds: float) -> None:
        """Begin a try that may take this many seconds."""
        self._at = time.monotonic() + seconds
        self._is_ending = False

    def left(self) -> float:
        """Return the seconds left; 0 after the deadline."""
        now = time.monotonic()
        if self._stop.is_set() and not self._is_ending:
            self._is_ending = True
            self._at = min(self._at, now + GRACE_SECONDS)
        return max(0.0, self._at - now)


class DeadlineBackend(httpcore.NetworkBackend):
    """Opens connections whose every operation respects the thread's deadline."""

    def __init__(self, inner: httpcore.NetworkBackend, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect within the time left."""
        seconds = _shorter(timeout, self._deadline.left())
        if not seconds:
            raise httpcore.ConnectTimeout("deadline")
        return _Stream(self._inner.connect_tcp(host, port, seconds, local_address, socket_options), self._deadline)


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        patience = time.monotonic() + (float("inf") if timeout is None else timeout)
        while (seconds := min(self._deadline.left(), patience - time.monotonic())) > 0:
            with contextlib.suppress(httpcore.ReadTimeout):
                return self._inner.read(max(max_bytes, _READ_BYTES), min(seconds, _SLICE_SECONDS))
        raise httpcore.ReadTimeout("silence" if self._deadline.left() else "deadline")

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not (seconds := _shorter(timeout, self._deadline.left())):
            raise httpcore.WriteTimeout("deadline")
        self._inner.write(buffer, seconds)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        if not (seconds := _shorter(timeout, self._deadline.left())):
            raise httpcore.ConnectTimeout("deadline")
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, seconds), self._deadline)

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _shorter(timeout: float | None, left: float) -> float:
    return left if timeout is None else min(timeout, left)
