"""The connection of one request, below what ASGI offers: resets and early ends.

The server hands each request its asyncio transport in `scope["state"]`. A reset is `SO_LINGER` with no time and an
abort, so that the kernel sends RST; an early end is a close after part of the announced body.
"""

import asyncio
import socket
import struct
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NO_LINGER = struct.pack("ii", 1, 0)


class Answer(NamedTuple):
    """An answer before it is sent."""

    status: int
    headers: dict[str, str]
    body: bytes


class GoneError(Exception):
    """The connection has ended; there is nothing more to do."""


class Line:
    """One request's way back to the client."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take over a request whose body was read."""
        self._receive, self._send = receive, send
        self._transport: asyncio.Transport = scope["state"]["transport"]

    async def begin(self, answer: Answer) -> None:
        """Send status and headers, announcing the whole body."""
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()]
        headers.append((b"content-length", b"%d" % len(answer.body)))
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})

    async def send_part(self, part: bytes) -> None:
        """Send some of the body, with more to come."""
        await self._send({"type": "http.response.body", "body": part, "more_body": True})

    async def end(self, part: bytes = b"") -> None:
        """Send the last of the body."""
        await self._send({"type": "http.response.body", "body": part})

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
        """Wait until the connection is gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        raise GoneError


async def read_body(receive: Receive) -> bytes:
    """Return the whole body of a request."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def capture_answer(app: ASGIApp, scope: Scope, body: bytes) -> Answer:
    """Return what the service answers properly."""
    messages: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    async def keep(message: Message) -> None:
        messages.append(message)

    await app(scope, receive, keep)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in messages[0]["headers"]}
    headers.pop("content-length", None)
    return Answer(messages[0]["status"], headers, b"".join(message.get("body", b"") for message in messages[1:]))
