"""A request and its answer as plain values, and the connection between client and service below what ASGI offers.

The server hands each request its asyncio transport in `scope["state"]`. A reset is `SO_LINGER` with no time and an
abort, so that the kernel sends RST; an early end is a close after part of the announced body.
"""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI application."""

read_json = msgspec.json.Decoder(float_hook=Decimal).decode
"""Read JSON with every decimal exact; `write_json` writes it as it was."""
write_json = msgspec.json.Encoder(decimal_format="number").encode

_NO_LINGER = struct.pack("ii", 1, 0)


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
        """Refuse a request."""
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


async def open_line(scope: Scope, receive: Receive, send: Send) -> tuple[Call, "Line"]:
    """Return a request and the way back to its client; of a header that is repeated, the first counts."""
    headers = {name.decode("latin-1"): text.decode("latin-1") for name, text in reversed(scope["headers"])}
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    call = Call(scope["method"], scope["path"], scope["query_string"], headers, b"".join(parts))
    return call, Line(scope["state"]["transport"], receive, send)


class Line:
    """One request's way back to the client."""

    def __init__(self, transport: asyncio.Transport, receive: Receive, send: Send) -> None:
        """Take over a connection whose request was read."""
        self.status: int | None = None
        """What was sent; None as long as nothing was."""
        self._transport, self._receive, self._send = transport, receive, send

    async def begin(self, answer: Answer, *, is_chunked: bool = False) -> None:
        """Send status and headers, announcing the whole body unless it comes in chunks."""
        self.status = answer.status
        headers = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in answer.headers.items()]
        if not is_chunked:
            headers.append((b"content-length", b"%d" % len(answer.body)))
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})

    async def send_part(self, part: bytes) -> None:
        """Send some of the body, with more to come."""
        await self._send({"type": "http.response.body", "body": part, "more_body": True})

    async def end(self, part: bytes = b"") -> None:
        """Send the last of the body."""
        await self._send({"type": "http.response.body", "body": part})

    async def send(self, answer: Answer) -> None:
        """Send an answer as it should be."""
        await self.begin(answer)
        await self.end(answer.body)

    async def reset(self) -> None:
        """Reset the connection."""
        connection: socket.socket = self._transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()
        await self.wait_for_end()

    async def close(self) -> None:
        """Close the connection once what was sent is out."""
        self._transport.close()
        await self.wait_for_end()

    async def wait_for_end(self) -> None:
        """Wait until the connection is gone.

        Raises:
            GoneError: It is.
        """
        while (await self._receive())["type"] != "http.disconnect":
            pass
        raise GoneError
