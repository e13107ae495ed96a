"""A service that never heard of firmlake: the bulk endpoints in a few lines, each of which may break."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from firmlake.core.company import Company
from support import found, lookalike, party, period


class OtherService:
    """Answers for any company, whose credits it counts.

    Attributes:
        broken: By dataset: a status to answer, or "hang", "html", "cut".
        requests: Received, by dataset.
        charged: Companies that cost a credit, in order.
        allowed_credits: Companies that may be bought; None for all.
        lost: Fields that records no longer have.
        on_request: Called for each request before it is answered.
        reject: Companies whose financial record has no period, which nobody can use.
        forbidden: Countries, or companies such as BE403227515, that the token may not ask about: a request that names
            one is answered 403.
        forbidden_in: The datasets in which that is so.
        unsaid: Companies about which elements say nothing: `data` and `message` are null.
    """

    def __init__(self) -> None:
        self.broken: dict[str, int | str] = {}
        self.requests: Counter[str] = Counter()
        self.charged: list[str] = []
        self.allowed_credits: int | None = None
        self.reject: set[str] = set()
        self.poison: set[str] = set()
        self.forbidden: set[str] = set()
        self.forbidden_in: set[str] = {"financials", "lookalikes", "relationships"}
        self.unsaid: set[str] = set()
        self.lost: set[str] = set()
        self.on_request: Callable[[], object] = lambda: None
        self.headers: dict[str, str] = {}
        self.ended = threading.Event()
        self.base_url, self.token = "", "canary"

    def answer(self, dataset: str, asked: list[dict[str, str]]) -> tuple[int, Any]:
        names = [one["countryCode"] + one["companyNumber"] for one in asked]
        if dataset in self.forbidden_in and self.forbidden & {*names, *(name[:2] for name in names)}:
            return 403, {"status": 403, "message": "Not in your plan"}
        if self.poison & set(names):
            return 500, {"status": 500, "message": "Internal error"}
        new = [name for name in names if name not in self.charged]
        if self.allowed_credits is not None and len(self.charged) + len(new) > self.allowed_credits:
            return 402, {"status": 402, "message": "Out of credits"}
        self.charged += new
        return 200, [self._element(dataset, one) for one in asked]

    def _element(self, dataset: str, one: dict[str, str]) -> dict[str, Any]:
        company = Company(one["countryCode"], one["companyNumber"])
        if "".join(company) in self.unsaid:
            return {"identifier": {"country": company[0], "companyNumber": company[1]}, "data": None, "message": None}
        records = {"financials": period, "lookalikes": lookalike, "relationships": party}
        record = records[dataset]()
        if dataset == "financials" and "".join(company) in self.reject:
            record["startDate"] = None
        for name in self.lost & record.keys():
            del record[name]
        return found(company, dataset, record)


@contextmanager
def start_other_service() -> Iterator[OtherService]:
    service = OtherService()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # otherwise the body of an answer waits 40 ms for its headers to be acknowledged

        def do_POST(self) -> None:
            dataset = self.path.rpartition("/")[2]
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            service.requests[dataset] += 1
            service.on_request()
            broken = service.broken.get(dataset)
            if broken == "hang":
                service.ended.wait(20)
                self.close_connection = True
                return
            if isinstance(broken, int):
                self._send(broken, {"status": broken, "message": "Not for you"})
            elif broken == "html":
                self._send(200, "<html>")
            else:
                self._send(*service.answer(dataset, content["companies"]))

        def _send(self, status: int, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            for name, value in service.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *arguments: object) -> None:
            """Clients of a test may go away."""

    server = Server(("127.0.0.1", 0), Handler)
    service.base_url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield service
    finally:
        service.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
