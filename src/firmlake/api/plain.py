"""A plain transport for httpx: one request at a time on a connection that is kept, and nothing else.

What httpx brings of its own (h11, a pool that shares connections out) takes five times as long for an answer and does
nothing for us: at most as many requests are under way as there are threads, each in one.
"""

from __future__ import annotations

import io
import time
from collections import deque
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any, cast

import httpcore
import httpx

if TYPE_CHECKING:
    import socket
    import ssl

__all__ = ["PlainTransport"]

_PIECE_BYTES = 65_536
"""A bomb may be as long as its bytes so far allow, which is the more the larger a piece is."""
_FAILURES = (httpcore.TimeoutException, httpcore.NetworkError)


class PlainTransport(httpx.BaseTransport):
    """Sends requests to one service, without a proxy; threads may share it.

    Args:
        backend: Makes connections, with all their timeouts.
        context: For https.
        keep_alive_seconds: For so long an idle connection is used again.
    """

    def __init__(self, backend: httpcore.NetworkBackend, context: ssl.SSLContext, keep_alive_seconds: float) -> None:
        self._backend = backend
        self._context = context
        self._context.set_alpn_protocols(["http/1.1"])
        self._keep_alive_seconds = keep_alive_seconds
        self._idle: deque[tuple[float, httpcore.NetworkStream]] = deque()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and receive the head of its answer.

        Raises:
            httpx.TransportError: There is no answer; its cause is the exception of the connection.
        """
        timeouts = request.extensions["timeout"]
        try:
            content = _head(request) + request.content
            stream = self._take() or self._connect(request.url, timeouts["connect"])
            try:
                stream.write(content, timeouts["write"])
                response = HTTPResponse(cast("socket.socket", _Socket(stream, timeouts["read"])), method=request.method)
                response.begin()
            except BaseException:
                stream.close()
                raise
        except (*_FAILURES, HTTPException) as error:
            failure = _failure(error)
        else:
            body = _Body(response, stream, self._idle)
            headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.getheaders()]
            return httpx.Response(response.status, headers=headers, stream=body)
        raise failure

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            self._idle.pop()[1].close()

    def _take(self) -> httpcore.NetworkStream | None:
        """Take the connection that was used last; one on which something came unasked, or its end, is of no use."""
        while self._idle:
            try:
                since, stream = self._idle.pop()
            except IndexError:
                return None
            if time.monotonic() - since < self._keep_alive_seconds and not stream.get_extra_info("is_readable"):
                return stream
            stream.close()
        return None

    def _connect(self, url: httpx.URL, timeout: float) -> httpcore.NetworkStream:
        host, is_secure = url.raw_host.decode("ascii"), url.scheme == "https"
        stream = self._backend.connect_tcp(host, url.port or (443 if is_secure else 80), timeout)
        if not is_secure:
            return stream
        try:
            return stream.start_tls(self._context, host, timeout)
        except BaseException:
            stream.close()
            raise


class _Body(httpx.SyncByteStream):
    """The body of an answer, piece by piece; its connection is kept if nothing is left of it."""

    def __init__(
        self, response: HTTPResponse, stream: httpcore.NetworkStream, idle: deque[tuple[float, httpcore.NetworkStream]]
    ) -> None:
        self._response = response
        self._stream = stream
        self._idle = idle

    def __iter__(self) -> Iterator[bytes]:
        response = self._response
        try:
            while piece := response.read1(_PIECE_BYTES):
                yield piece
        except (*_FAILURES, HTTPException) as error:
            failure = _failure(error)
        else:
            if not response.length:  # else it ended too early
                return
            failure = httpx.RemoteProtocolError("the body is cut")
        raise failure

    def close(self) -> None:
        """Let go of the connection."""
        is_whole = self._response.isclosed() or self._response.length == 0
        if is_whole and not self._response.will_close:
            self._idle.append((time.monotonic(), self._stream))
        else:
            self._stream.close()
        self._response.close()


class _Socket:
    """As much of a socket as `HTTPResponse` needs."""

    def __init__(self, stream: httpcore.NetworkStream, timeout: float) -> None:
        self._reader = _Reader(stream, timeout)

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - as a socket has it
        return io.BufferedReader(self._reader)


class _Reader(io.RawIOBase):
    """Reads from a connection."""

    def __init__(self, stream: httpcore.NetworkStream, timeout: float) -> None:
        self._stream = stream
        self._timeout = timeout

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read(len(buffer), self._timeout)
        buffer[: len(piece)] = piece
        return len(piece)


def _head(request: httpx.Request) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%b: %b" % header for header in request.headers.raw]
    if any(b"\r" in line or b"\n" in line for line in lines):
        raise httpx.LocalProtocolError("a header of several lines")
    return b"\r\n".join([*lines, b"", b""])


def _failure(error: Exception) -> httpx.TransportError:
    """Give httpx's own exception for one of the connection, which becomes its cause; they have the same names."""
    if isinstance(error, HTTPException):
        return httpx.RemoteProtocolError(type(error).__name__)
    failure: httpx.TransportError = getattr(httpx, type(error).__name__)(str(error))
    failure.__cause__ = error
    return failure
