"""How a service may spell a token that it repeats, and decoders that never heard of firmlake, to look for it."""

from __future__ import annotations

import base64
import html
import json
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

SPELLINGS = {
    "plain": lambda t: t,
    "json": lambda t: json.dumps(t),
    "json, as PHP writes it": lambda t: json.dumps(t).replace("/", "\\/"),
    "json, all escaped": lambda t: "".join(f"\\u{ord(c):04x}" for c in t),
    "json, all escaped, capitals": lambda t: "".join(f"\\u{ord(c):04X}" for c in t),
    "json in json": lambda t: json.dumps(json.dumps(t).replace("/", "\\/")),
    "percent": lambda t: urllib.parse.quote(t, safe=""),
    "percent, all": lambda t: "".join(f"%{ord(c):02x}" for c in t),
    "percent twice": lambda t: urllib.parse.quote(urllib.parse.quote(t, safe=""), safe=""),
    "header": lambda t: '"' + "".join(f"\\{c}" if not c.isalnum() else c for c in t) + '"',
    "html": lambda t: html.escape(t),
    "html, all": lambda t: "".join(f"&#{ord(c)};" for c in t),
    "html, all, hex": lambda t: "".join(f"&#x{ord(c):X};" for c in t),
    "html, all, without semicolons": lambda t: "".join(f"&#{ord(c)}" for c in t),
    "html, all, hex, without semicolons": lambda t: "".join(f"&#x{ord(c):x}" for c in t),
    "literal": lambda t: "".join(f"\\x{ord(c):02x}" for c in t),
    "octal": lambda t: "".join(f"\\{ord(c):03o}" for c in t),
    "braces": lambda t: "".join(f"\\u{{{ord(c):x}}}" for c in t),
    "eight digits": lambda t: "".join(f"\\U{ord(c):08x}" for c in t),
    "escape()": lambda t: "".join(f"%u{ord(c):04X}" for c in t),
    "hex": lambda t: t.encode().hex(),
    "hex, capitals": lambda t: t.encode().hex().upper(),
    "hex with colons": lambda t: t.encode().hex(":"),
    "base64": lambda t: base64.b64encode(t.encode()).decode(),
    "base64 of the header": lambda t: base64.b64encode(f"Bearer {t}".encode()).decode(),
    "base64 without padding": lambda t: base64.b64encode(f"user:{t}".encode()).decode().rstrip("="),
    "base64 for addresses": lambda t: base64.urlsafe_b64encode(f"{t}, and so on".encode()).decode(),
    "base64 as PHP's JSON": lambda t: base64.b64encode(f"Bearer {t}".encode()).decode().replace("/", "\\/"),
    "base64 in an address": lambda t: urllib.parse.quote(base64.b64encode(f"a:{t}".encode()), safe=""),
}  # fmt: skip


def decodings(text: str) -> set[str]:
    """All that a reader may make of a text, by decoders that are not ours."""
    found, new = set(), {text}
    while new and len(found) < 500:
        found |= new
        made = set()
        for each in new:
            made |= {
                urllib.parse.unquote(each),
                html.unescape(each),
                each.replace("\\/", "/"),
                re.sub(r"\\(.)", r"\1", each),
                re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), each),
                re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), each),
                re.sub(r"(?:%u|\\U0000|\\u\{)(00)?([0-9a-fA-F]{2})\}?", lambda found: chr(int(found[2], 16)), each),
            }
            for run in re.findall(r"[0-9a-fA-F]{24,}", each.replace(":", "")):
                made |= {bytes.fromhex(run[at : at + len(run[at:]) // 2 * 2]).decode("latin-1") for at in (0, 1)}
            for quoted in (each, f'"{each}"'):
                try:
                    content = json.loads(quoted)
                except ValueError:
                    continue
                made |= {content} if isinstance(content, str) else set()
            for run in each.replace("-", "+").replace("_", "/").replace("[token]", " ").split():
                for start in range(3):
                    part = run[start:].rstrip("=")
                    try:
                        made.add(base64.b64decode(part[: len(part) // 4 * 4], validate=True).decode("latin-1"))
                    except ValueError:
                        continue
        new = made - found
    return found


def holds_piece(text: str, token: str) -> bool:
    """Whether somebody can read 12 characters of a token in a text, by whatever decoder."""
    pieces = {token[at : at + 12] for at in range(len(token) - 11)}
    return any(piece in decoded for decoded in decodings(text) for piece in pieces)


@contextmanager
def echo(status: int, spell: Callable[[], Callable[[str], str]]) -> Iterator[str]:
    """Serve what refuses each request and repeats the token in headers and body, spelled anew; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            spelled = spell()(self.headers["Authorization"].removeprefix("Bearer ")).replace('"', "")
            body = b'{"status": %d, "message": "bad token %s"}' % (status, spelled.encode())
            self.send_response(status)
            self.send_header("X-Request-Id", "x" * 245 + spelled)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


@contextmanager
def served(server: HTTPServer) -> Iterator[HTTPServer]:
    """Let a server answer in a thread."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
