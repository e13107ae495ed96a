"""The web server of the application: on loopback, behind a token, and with pages that may ask no other host."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir, suppress
from pathlib import Path

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from firmlake.core.errors import EXIT_DONE, UsageError
from firmlake.core.folders import Folders
from firmlake.explore.holding import newest_holding

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


def serve(folders: Folders, port: int, show: Callable[[str], object], open_page: Callable[[str], object]) -> None:
    """Serve the application until the process is interrupted, and end the process.

    Args:
        folders: The data folder.
        port: 0 takes a free one.
        show: Called with lines for a person. One holds the token of the application and must not be logged.
        open_page: Called with the address of a file that only this account can read. The file leads the browser to the
            application, whose token must not be in the process list.
    """
    with _listen(port) as listening:
        os.environ["FIRMLAKE_PATHS__DATA"] = str(folders.data)
        token = secrets.token_urlsafe(16)
        port = listening.getsockname()[1]
        config = uvicorn.Config(make_application(token, port), log_level="warning", timeout_graceful_shutdown=1)
        show(f"Generation {newest_holding().number} is open")
        address = f"http://{HOST}:{port}/?access_token={token}"
        show(f"Explore at {address}; Ctrl-C ends it")
        with tempfile.TemporaryDirectory(prefix="firmlake-") as folder, suppress(KeyboardInterrupt):
            open_page(_write_redirect(Path(folder), address).as_uri())  # a connection waits until the server runs
            uvicorn.Server(config).run(sockets=[listening])
        sys.stderr.flush()
        os._exit(EXIT_DONE)  # threads of sessions would keep the process; they only read


def make_application(token: str, port: int) -> ASGIApp:
    """Make the application: marimo's, which asks for the token, with headers that keep pages to this server."""
    os.environ.setdefault("_MARIMO_DISABLE_ANALYTICS", "1")
    try:
        import marimo
    except ModuleNotFoundError:
        raise UsageError("The extra explore is not installed", "pip install 'firmlake[explore]'") from None
    # marimo reads the pyproject.toml of the current folder, whose `pythonpath` would run a stranger's modules.
    with chdir(_APP.anchor):
        made = marimo.create_asgi_app(quiet=True, token=token, include_code=False).with_app(path="", root=str(_APP))
        return guarded(made.build(), port)


def guarded(application: ASGIApp, port: int) -> ASGIApp:
    """Let an application answer only requests for its own name and port, and from its own pages.

    Its headers allow pages no other host. A page of another port is as foreign as one of another host: any account of
    this machine may serve it, and a browser sends it the same cookies.
    """

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        if scope["type"] in ("http", "websocket") and not _is_ours(scope, port):
            # A page elsewhere may have its name lead here; only the browser knows that name.
            is_page = scope["type"] == "http"
            refuse = PlainTextResponse("Not a name of this server", 421) if is_page else WebSocketClose(1008)
            await refuse(scope, receive, send)
            return
        await application(scope, receive, send_with_headers)

    return guarded


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError:
        raise UsageError(f"Port {port} of {HOST} is taken", "Name another with --port, or leave it out") from None


def _write_redirect(folder: Path, address: str) -> Path:
    """Write a page that leads to an address, readable by this account alone, as its folder is."""
    page = folder / "open.html"
    page.touch(mode=0o600)
    page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">')
    return page


def _is_ours(scope: Scope, port: int) -> bool:
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    host = headers.get(b"host", "")
    return (
        host in (f"{HOST}:{port}", f"localhost:{port}") and headers.get(b"origin", f"http://{host}") == f"http://{host}"
    )
