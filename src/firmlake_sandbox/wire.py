"""A request and its answer as plain values, and the connection between client and service: HTTP/1.1, or less.

A reset is `SO_LINGER` with no time and an abort, so that the kernel sends RST; an early end is a close after part of
the announced body.
"""

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

import h11
import msgspec

read_json = msgspec.json.Decoder(float_hook=Decimal).decode
"""Read JSON with every decimal exact; `write_json` writes it as it was."""
write_json = msgspec.json.Encoder(decimal_format="number").encode

_NO_LINGER = struct.pack("ii", 1, 0)
_MAX_HEAD_BYTES = 1 << 16


class Call(NamedTuple):
    """A request; names of headers are in lower case."""

    method: str
    path: str
    query: bytes
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """An answer before it is sent; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class RefusedError(Exception):
    """The whole request is refused with this status, message and headers."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}


class GoneError(Exception):
    """The connection has ended; there is nothing more to do."""


def json_answer(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """Answer with content as JSON."""
    named = {name.lower(): text for name, text in (headers or {}).items()}
    return Answer(status, {"content-type": "application/json", **named}, write_json(content))


def error_answer(status: int, message: str, headers: dict[str, str] | None = None) -> Answer:
    """Answer that the whole request failed, in the service's form."""
    return json_answer({"status": status, "message": message}, status, headers)


App = Callable[[Call, "Line"], Awaitable[None]]
"""Answers a request on the way back to its client."""


async def serve(app: App, listener: socket.socket) -> None:
    """Answer all requests that come to a listening socket, for ever."""
    server = await asyncio.start_server(partial(_serve_connection, app), sock=listener)
    await server.serve_forever()


async def _serve_connection(app: App, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of a connection, one after the other, until either side ends it."""
    line = Line(reader, writer)
    try:
        while call := await line.read_call():
            await app(call, line)
    except h11.RemoteProtocolError as error:
        with suppress(h11.LocalProtocolError, ConnectionError):  # it may have broken off within an answer
            await line.send(error_answer(400, f"Not an HTTP request: {error}"))
    except (GoneError, ConnectionError):
        pass
    finally:
        writer.close()


class Line:
    """A connection, and one request's way back to the client after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.status: int | None = None  # what was sent to the last request; None as long as nothing was
        self._reader, self._writer = reader, writer
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._is_head = False

    async def read_call(self) -> Call | None:
        """Read the next request, None if there is none any more; of a header that is repeated, the first counts."""
        if self._protocol.our_state is self._protocol.their_state is h11.DONE:
            self._protocol.start_next_cycle()
        if self._protocol.our_state is not h11.IDLE:
            return None
        self.status, request, parts = None, await self._next_event(), []
        if not isinstance(request, h11.Request):
            return None
        if self._protocol.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        while isinstance(part := await self._next_event(), h11.Data):
            parts.append(bytes(part.data))
        path, _, query = request.target.partition(b"?")
        headers = {name.decode("latin-1"): text.decode("latin-1") for name, text in reversed(list(request.headers))}
        self._is_head = request.method == b"HEAD"
        return Call(request.method.decode(), unquote(path.decode("latin-1")), query, headers, b"".join(parts))

    async def begin(self, answer: Answer, *, is_chunked: bool = False) -> None:
        """Send status and headers, announcing the whole body unless it comes in chunks."""
        self.status = answer.status
        headers = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in answer.headers.items()]
        headers.append((b"date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()).encode()))
        if not is_chunked:
            headers.append((b"content-length", b"%d" % len(answer.body)))
        await self._send(h11.Response(status_code=answer.status, headers=headers))

    async def send_part(self, part: bytes) -> None:
        """Send some of the body, with more to come."""
        await self._send(h11.Data(data=b"" if self._is_head else part))

    async def end(self, part: bytes = b"") -> None:
        """Send the last of the body."""
        await self.send_part(part)
        await self._send(h11.EndOfMessage())

    async def send(self, answer: Answer) -> None:
        """Send an answer as it should be."""
        await self.begin(answer)
        await self.end(answer.body)

    async def reset(self) -> None:
        """Reset the connection and raise GoneError."""
        connection: socket.socket = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._writer.transport.abort()
        raise GoneError

    async def wait_for_end(self) -> None:
        """Wait until the client has closed the connection, and raise GoneError."""
        while data := await self._reader.read(_MAX_HEAD_BYTES):
            self._protocol.receive_data(data)
        raise GoneError

    async def _next_event(self) -> object:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(await self._reader.read(_MAX_HEAD_BYTES))
        return event

    async def _send(self, event: h11.Event) -> None:
        self._writer.write(self._protocol.send(event) or b"")
        await self._writer.drain()
