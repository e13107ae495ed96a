"""A server on loopback, of which fake services are made."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Endpoint:
    """A server on loopback. `answer` gets method, path, headers and body, and gives status, headers and a value."""

    def __init__(self, answer: Callable[..., tuple[int, dict[str, str], Any]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                status, headers, value = answer(self.command, self.path, self.headers, body)
                sent = json.dumps(value).encode()
                self.send_response(status)
                for name, text in {
                    **headers,
                    "content-type": "application/json",
                    "content-length": str(len(sent)),
                }.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_PUT = do_POST  # noqa: N815 - the names that the library calls

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
