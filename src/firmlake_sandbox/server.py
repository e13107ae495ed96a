"""uvicorn around the application: loopback only, ends at once, and lets faults reach the connection itself."""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol


class _Protocol(H11Protocol):
    """HTTP/1.1 that hands each request its transport, as `scope["state"]["transport"]`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Remember the transport."""
        self.app_state = {**self.app_state, "transport": transport}
        super().connection_made(transport)


class _Server(uvicorn.Server):
    """A server without uvicorn's own signal handling, which would wait for open connections."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `exit_on_signals`."""
        yield


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket on this machine's loopback.

    Args:
        host: `localhost` or a loopback address.
        port: 0 for any free one.

    Raises:
        ValueError: The host is not loopback.
        OSError: The port is taken.
    """
    address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    if not address.is_loopback:
        raise ValueError(f"{host} is not loopback: the sandbox serves this machine alone")
    # The protocol is named because asyncio turns Nagle's delay off only where it is: 40 ms an answer otherwise.
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((str(address), port))
    listener.listen(2048)
    return listener


def serve(app: ASGIApp, listener: socket.socket, *, access_log: bool = False) -> None:
    """Serve until a signal ends the process."""
    config = uvicorn.Config(
        app,
        http=_Protocol,
        interface="asgi3",
        ws="none",
        lifespan="off",
        access_log=access_log,
        log_level="info" if access_log else "error",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        h11_max_incomplete_event_size=1 << 16,
    )
    _Server(config).run(sockets=[listener])
