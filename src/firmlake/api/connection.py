"""The connection to the service: send a request once and return the outcome as an Answer.

The token goes to the service only: redirects are not followed, every URL is base URL + path, and a remote service must
use TLS with a verified certificate. Proxies of the environment are used for a remote service only, as TLS tunnels.
"""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import closing
from functools import lru_cache

import httpx

from firmlake import __version__
from firmlake.api.address import read_address
from firmlake.api.authorization import Token
from firmlake.api.body import Body, BodyError, in_utf8
from firmlake.api.exchange import Answer, Failure, choose_headers
from firmlake.api.requests import Request
from firmlake.api.timing import Timing
from firmlake.api.transport import PoolTransport, environment_proxy
from firmlake.api.wire import Deadline
from firmlake.core.errors import SettingsError
from firmlake.core.redaction import redact_whole
from firmlake.core.settings import ApiSettings

__all__ = ["Connection"]

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


class Connection:
    """Sends requests, each once; may be used from many threads.

    Args:
        api: Address and limits of the service.
        token: Sent to the service and nowhere else.
        stop: Once this event is set, a request in flight has 8 s left.
        timing: Where time comes from.
        transport: A transport for tests; None connects to the service.

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
        self._address = read_address(api.base_url)
        self._token = token
        self._timing = timing
        self._deadline = Deadline(stop, GRACE_SECONDS)
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
        """Send a request once.

        Args:
            request: The request.
            attempt: Number of this attempt, for the Answer.

        Returns:
            The answer. If the connection failed, the answer says so in `error`; nothing is raised.
        """
        began = self._timing.clock()
        self._deadline.start(self._api.total_timeout_seconds)
        status, headers, charset = None, {}, None
        failure: Failure = ""
        problem = ""
        body = Body("", 0, 0)
        try:
            with closing(self._send(request)) as response:
                status, headers = response.status_code, choose_headers(response.headers, self._api.names)
                encoding, charset = response.headers.get("content-encoding", ""), response.charset_encoding
                body = Body(encoding, self._api.wire_bytes_max, self._api.body_bytes_max)
                body.receive(response.iter_raw(), response.headers.get("content-length"))
        except BodyError as error:
            failure, problem = "body", str(error)
        except httpx.TransportError as error:
            failure, problem = _describe(error)
            if failure == "timeout":
                what = "no answer" if status is None else "not the whole answer"
                problem = f"{what} within {self._timing.clock() - began:.2g} s"
        return Answer(
            request,
            attempt,
            status,
            f"{failure}: {problem}" if failure else "",
            headers,
            redact_whole(in_utf8(body.content(), charset).removeprefix(_BYTE_ORDER_MARK)),
            self._timing.utc_now(),
            self._timing.clock() - began,
            body.wire_bytes,
            failure,
        )

    def _send(self, request: Request) -> httpx.Response:
        """Send through the transport directly: the cookies, redirects and hooks of an httpx.Client double the cost."""
        url = _url(self._address.url + request.path + "/" * self._api.trailing_slash, request.query)
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
            context = httpx.create_ssl_context() if url.startswith("https:") else None  # reading certificates: 20 ms
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
