"""The web server of the application: on loopback, behind a token, and with pages that may ask no other host."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firmlake.core.errors import EXIT_DONE, FirmlakeError, UsageError
from firmlake.core.folders import Folders
from firmlake.explore import current

__all__ = ["HOST", "guarded", "serve"]

HOST = "127.0.0.1"
_APP = Path(__file__).with_name("app.py")
# Marimo's pages hold their own scripts and compile charts; whatever they load comes from this server.
_POLICY = "; ".join((
    "default-src 'self'",
    "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "connect-src 'self' ws: data: blob:",
    "worker-src 'self' blob:",
    "frame-src 'self' blob: data:",
    "form-action 'self'",
    "base-uri 'self'",
    "object-src 'none'",
))  # fmt: skip
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
)


def serve(folders: Folders, port: int, tell: Callable[[str], object], open_page: Callable[[str], object]) -> None:
    """Serve the application until the process is interrupted, and end the process.

    Args:
        folders: The data folder.
        port: The port; 0 takes a free one.
        tell: Called with lines for a person.
        open_page: Called with the address once it answers.

    Raises:
        UsageError: The port is taken, or the extra `explore` is not installed.
    """
    with _listen(port) as listening:
        current.use(folders, tell)
        tell(f"Opening generation {current.holding().number}")
        token = secrets.token_urlsafe(16)
        config = uvicorn.Config(make_application(token), log_level="warning", timeout_graceful_shutdown=1)
        address = f"http://{HOST}:{listening.getsockname()[1]}/?access_token={token}"
        tell(f"Explore at {address}; Ctrl-C ends it")

        class Server(uvicorn.Server):
            async def startup(self, sockets: Any = None) -> None:
                await super().startup(sockets)
                open_page(address)

        with suppress(KeyboardInterrupt):
            Server(config).run(sockets=[listening])
        sys.stderr.flush()
        os._exit(EXIT_DONE)  # threads of sessions would keep the process; they only read


def make_application(token: str) -> ASGIApp:
    """Make the application: marimo's, which asks for the token, with headers that keep pages to this server.

    Raises:
        FirmlakeError: The extra `explore` is not installed.
    """
    os.environ.setdefault("_MARIMO_DISABLE_ANALYTICS", "1")
    try:
        import marimo
    except ModuleNotFoundError:
        raise FirmlakeError("`firmlake explore` needs marimo", "pip install 'firmlake[explore]'") from None
    made = marimo.create_asgi_app(quiet=True, token=token, include_code=False).with_app(path="", root=str(_APP))
    return guarded(made.build())


def guarded(application: ASGIApp) -> ASGIApp:
    """Let an application answer only requests for this machine's name, with headers that allow pages no other host."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        if scope["type"] in ("http", "websocket") and not _is_ours(scope):
            # A page elsewhere may have its name lead here; only the browser knows that name.
            if scope["type"] == "http":
                await send(
                    {"type": "http.response.start", "status": 421, "headers": [(b"content-type", b"text/plain")]}
                )
                await send({"type": "http.response.body", "body": b"Not a name of this server"})
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        await application(scope, receive, send_with_headers)

    return guarded


# ---------------------------------------------------------------------------------------------------------------------


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError:
        raise UsageError(f"Port {port} of {HOST} is taken", "Name another with --port, or leave it out") from None


def _is_ours(scope: Scope) -> bool:
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    names = [headers.get(b"host", ""), headers.get(b"origin", f"http://{HOST}").removeprefix("http://")]
    return all(name.rpartition(":")[0] in (HOST, "localhost") or name in (HOST, "localhost") for name in names)
