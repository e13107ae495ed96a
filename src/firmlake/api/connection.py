"""The connection to the service: one try, and whatever comes of it as an Answer.

The token stays with the service: redirects are not followed, an address is always base URL + path, off this machine
TLS is required and verified. Proxies of the environment are used off this machine only, where they see a TLS tunnel.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from functools import lru_cache

import httpx

from firmlake import __version__
from firmlake.api.address import read_address
from firmlake.api.authorization import Token
from firmlake.api.body import Body, BodyError
from firmlake.api.exchange import Answer, choose_headers
from firmlake.api.requests import Request
from firmlake.api.transport import PoolTransport, environment_proxy
from firmlake.api.wire import Deadline
from firmlake.core.errors import SettingsError
from firmlake.core.redaction import redact_whole
from firmlake.core.settings import ApiSettings

__all__ = ["Connection"]

GRACE_SECONDS = 8.0
"""What an answer under way may still take once the run is interrupted, which must end within 10 s."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some services put it before the JSON. It belongs to the encoding, not to the content (RFC 8259, 8.1)."""

_TIMEOUT = "timeout"
_CAUSES: tuple[tuple[type[BaseException], str], ...] = (
    (ssl.SSLCertVerificationError, "untrusted: the certificate cannot be verified"),
    (socket.gaierror, "unreachable: the host name cannot be resolved"),
    (ConnectionRefusedError, "unreachable: connection refused"),
    (httpx.ConnectTimeout, "unreachable: no connection in time"),
    (httpx.ConnectError, "unreachable: no connection"),
    (httpx.ProxyError, "unreachable: the proxy refuses"),
    (httpx.TimeoutException, _TIMEOUT),
    (ConnectionResetError, "broken: connection reset"),
    (httpx.ProtocolError, "broken: the answer is cut or not HTTP"),
    (httpx.TransportError, "broken: connection lost"),
)
"""What went wrong by the exceptions in the chain, the first that fits. Their texts may hold addresses and headers."""


class Connection:
    """Sends a request once; may be used from many threads.

    Args:
        api: The service.
        token: Sent to it and nowhere else.
        stop: Once it is set, an answer under way has 8 s left.
        clock: Monotonic seconds.
        utc_now: Time of day.
        transport: For tests; None connects.

    Raises:
        SettingsError: The address, a proxy or certificates of the environment cannot be used; nothing has been sent.
    """

    def __init__(
        self,
        api: ApiSettings,
        token: Token,
        stop: threading.Event,
        clock: Callable[[], float],
        utc_now: Callable[[], datetime],
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._api = api
        self._address = read_address(api.base_url)
        self._token = token
        self._clock = clock
        self._utc_now = utc_now
        self._deadline = Deadline(stop, GRACE_SECONDS)
        self._transport = transport or self._open()
        self._headers = {
            "Accept": "application/json",
            # On one machine deflating and inflating costs more time than it saves.
            "Accept-Encoding": "identity" if self._address.is_loopback else "gzip",
            "User-Agent": f"firmlake/{__version__}",
            api.names.language_header: api.language,
        }
        self._timeout = httpx.Timeout(api.read_timeout_seconds, connect=api.connect_timeout_seconds).as_dict()

    @property
    def host(self) -> str:
        """The service's host, for messages."""
        return self._address.host

    def close(self) -> None:
        """Close what is open."""
        self._transport.close()

    def exchange(self, request: Request, attempt: int) -> Answer:
        """Send a request once.

        Args:
            request: What to ask.
            attempt: Which attempt at it this is, for the Answer.

        Returns:
            Whatever came, also nothing: trouble on the way is in `error` and raises nothing.
        """
        began = self._clock()
        self._deadline.start(self._api.total_timeout_seconds)
        status, headers, problem = None, {}, ""
        body = Body("", 0, 0)
        try:
            with closing(self._send(request)) as response:
                status, headers = response.status_code, choose_headers(response.headers, self._api.names)
                encoding = response.headers.get("content-encoding", "")
                body = Body(encoding, self._api.wire_bytes_max, self._api.body_bytes_max)
                body.receive(response.iter_raw(), response.headers.get("content-length"))
        except BodyError as error:
            problem = f"body: {error}"
        except httpx.TransportError as error:
            problem = _describe(error)
            if problem == _TIMEOUT:
                what = "no answer" if status is None else "not the whole answer"
                problem = f"{_TIMEOUT}: {what} within {self._clock() - began:.2g} s"
        return Answer(
            request,
            attempt,
            status,
            problem,
            headers,
            redact_whole(body.content().removeprefix(_BYTE_ORDER_MARK)),
            self._utc_now(),
            self._clock() - began,
            body.wire_bytes,
        )

    def _send(self, request: Request) -> httpx.Response:
        """Send by the transport itself: cookies, redirects and hooks of an httpx.Client are half of the cost."""
        url = _url(self._address.url + request.path, request.query)
        headers = {**self._headers, "Authorization": self._token.header()}
        if request.body:
            headers["Content-Type"] = "application/json"
        sent = httpx.Request(
            request.method, url, headers=headers, content=request.body or None, extensions={"timeout": self._timeout}
        )
        return self._transport.handle_request(sent)

    def _open(self) -> httpx.BaseTransport:
        proxy = None if self._address.is_loopback else environment_proxy(self._address.url)
        try:
            return PoolTransport(self._deadline, self._api.threads, proxy)
        except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
            raise SettingsError(
                f"No client can be made: {type(error).__name__}", "Check HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE"
            ) from None


@lru_cache(maxsize=64)
def _url(address: str, query: tuple[tuple[str, str], ...]) -> httpx.URL:
    """Read an address; a run has few, over and over."""
    return httpx.URL(address, params=query) if query else httpx.URL(address)


def _describe(error: BaseException) -> str:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    return next(text for kind, text in _CAUSES if any(isinstance(link, kind) for link in chain))
