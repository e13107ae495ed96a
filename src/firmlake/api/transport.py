"""An httpx transport over an httpcore connection pool, which allows a deadline for every network operation."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from firmlake.api.wire import Deadline, DeadlineBackend

__all__ = ["PoolTransport", "environment_proxy"]

_KEEP_ALIVE_SECONDS = 4.0
"""Shorter than the 5 s after which uvicorn and others close idle connections, so that none is used while it closes."""
_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")
_FAILURES = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
)


class PoolTransport(httpx.BaseTransport):
    """Sends requests over pooled connections; may be used from many threads.

    Args:
        deadline: The deadline of each thread's current try.
        connections: Most connections open at once.
        context: Which certificates are trusted; None for an address without TLS.
        proxy: URL of the proxy; None connects directly.

    Raises:
        ImportError: The proxy needs a library that is not installed.
        ValueError: The proxy's URL cannot be used.
    """

    def __init__(
        self, deadline: Deadline, connections: int, context: ssl.SSLContext | None, proxy: str | None = None
    ) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            proxy=_read_proxy(proxy) if proxy else None,
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=_KEEP_ALIVE_SECONDS,
            network_backend=DeadlineBackend(httpcore.SyncBackend(), deadline),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; iterating the response reads its body.

        Raises:
            httpx.TransportError: The request or the answer failed on the network.
        """
        url = request.url
        sent = httpcore.Request(
            request.method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.content,
            extensions=request.extensions,
        )
        with _failing_as_httpx():
            answer = self._pool.handle_request(sent)
        return httpx.Response(answer.status, headers=answer.headers, stream=_Stream(answer))

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


def environment_proxy(url: str) -> str | None:
    """Return the proxy for a URL from HTTPS_PROXY or ALL_PROXY; None if there is none or NO_PROXY exempts the host."""
    parts = httpx.URL(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


# ---------------------------------------------------------------------------------------------------------------------


class _Stream(httpx.SyncByteStream):
    """The body of an answer, read while it arrives."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        with _failing_as_httpx():
            yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


@contextmanager
def _failing_as_httpx() -> Iterator[None]:
    """Convert exceptions of httpcore to those of the same name in httpx."""
    try:
        yield
    except _FAILURES as error:
        raise getattr(httpx, type(error).__name__)(str(error)) from error


def _read_proxy(url: str) -> httpcore.Proxy:
    proxy = httpx.URL(url)
    if proxy.scheme not in _PROXY_SCHEMES or not proxy.host:
        raise ValueError("the proxy's URL is not http, https or socks5")
    if proxy.scheme.startswith("socks") and find_spec("socksio") is None:
        raise ImportError("a SOCKS proxy needs the library socksio")
    auth = (proxy.username, proxy.password) if proxy.username or proxy.password else None
    return httpcore.Proxy(
        httpcore.URL(scheme=proxy.raw_scheme, host=proxy.raw_host, port=proxy.port, target=proxy.raw_path), auth
    )
