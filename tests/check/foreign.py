"""Another implementation of the service's specification, by http.server alone: written from the specification, which it
follows to the letter, with choices of its own wherever that says "not shown".

Its companies are made up from their numbers; `truth` says what they are, in plain Python values.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

Truth = dict[str, Any]
PARTS = {
    "profitability": ("revenue", "grossMargin", "ebitda", "ebit", "netProfit"),
    "liquidity": (
        "cash", "cashFlow", "netWorkingCapital", "netWorkingCapitalRequirement", "currentRatio", "quickRatio",
    ),
    "solvency": (
        "totalAssets", "equity", "capital", "retainedEarnings", "debt", "longTermDebt", "longTermDebtFinancial",
        "longTermDebtAccountsPayable", "shortTermDebt", "shortTermDebtFinancial", "shortTermDebtAccountsPayable",
    ),
}  # fmt: skip
LENGTHS = {"BE": 10, "NL": 8, "FR": 9}


@dataclass
class Choices:
    """What the specification leaves open, as this service has it."""

    # What it asks for. `form`: flat, company-id (an object around country and number), texts (BE0403227515), array
    # (with the paging parameters in the query), wrapped (in `request`), integers, nested-page, or none (refuses all).
    form: str = "flat"
    body: tuple[str, str, str] = ("companies", "countryCode", "companyNumber")
    paging: tuple[str, str] = ("limit", "offset")
    language: str = "Accept-Language"  # the header that chooses it
    has_one_language: bool = False  # names are the same in all
    needs_language: str = ""  # what is said of a request without that header, with its name for {}
    countries: str = "BE, NL, FR"  # how countries are written, which a refusal says
    has_zero: bool = False  # Belgian numbers have ten digits, in requests and answers
    bulk_has_zero: str = ""  # bulk requests need the zero, which a path may have or not; else "unknown" or "refused"
    has_country: bool = False  # Belgian numbers need the country before them, and others may have it
    gets: bool = True
    posts: bool = True  # otherwise a bulk request is answered by a bare 405, and an unknown company by a bare 404
    # Its limits.
    page_max: int = 500  # larger pages are refused, or cut
    cuts_pages: bool = False
    counts_pages: bool = False  # an offset has to be a multiple of its limit
    bulk_max: int = 100
    records_max: int = 0  # a gateway gives up on requests for more records, companies x page size, with a 504
    names_once: bool = False  # a company that a request names twice is answered once
    dissolved: frozenset[str] = frozenset()  # numbers without zero, for which a whole request is refused
    forbidden: str = ""  # an endpoint that answers 403
    forbidden_country: str = ""
    wrong_token_is_forbidden: bool = False
    get_pages: bool = True  # otherwise a GET ignores what it is sent, and gives the first four periods
    # What it answers. `refusal`: validator (sentences), pydantic (paths of keys), plain (a word of text). `unknown`:
    # message (in the element), omitted, null, 404 (for the whole bulk request, with the number), 422 (the same, in the
    # words of an element), named (422 with country and number), or 204 as the status of a GET. `children`: entity,
    # flat, or as parents are.
    refusal: str = "validator"
    unknown: str = "message"
    places: tuple[int, str] = (0, "")  # a whole request is refused, in these words, by places counted from this number
    children: str = ""
    number: str = "companyNumber"  # what answers call the number of a company
    charge: str = "X-Credits-Charged"
    left: str = "X-Credits-Remaining"
    quota: str = ""  # of requests, instead of credits
    omits_null: bool = False
    case: str = ""  # of keys: snake (gross_margin) or pascal (GrossMargin)
    percent: bool = False
    fails_every: int = 0  # the last of each so many requests is answered 503
    rate: tuple[int, float] = (0, 0)  # more requests in so many seconds are answered 503
    says_200: bool = False  # refusals have this status too, and words
    dates: str = "%Y-%m-%d"
    identifier: str = "identifier"  # what elements call it
    envelope: str = ""  # successful answers are inside an object, under this key
    closes: bool = False  # each connection ends with its answer, whose length is not announced


@dataclass
class Foreign:
    """The service, and what it remembers: how often each company was paid for, and its requests."""

    choices: Choices
    url: str = ""
    paid: dict[tuple[str, str], int] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    granted: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def foreign(**choices: Any) -> Iterator[Foreign]:
    """Serve on a free port of this machine."""
    service = Foreign(Choices(**choices))

    class Handler(_Handler):
        state = service
        protocol_version = "HTTP/1.0" if service.choices.closes else "HTTP/1.1"

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_port}/gateway"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def truth(country: str, number: str) -> Truth | None:
    """What there is to know about a company, in the words of the specification; None where there is none."""
    number = number.zfill(LENGTHS.get(country, 0))
    if country not in LENGTHS or number.startswith("0999"):
        return None
    draw = random.Random(f"{country}{number}")
    name = f"Maison {draw.choice(['Bleue', 'Rouge', 'Verte'])} {int(number) % 997}"
    periods = [_period(draw, 2024 - back) for back in range(draw.randint(1, 9))]
    lookalikes = [
        {"companyId": {"country": "FR", "companyNumber": str(draw.randint(10**8, 10**9 - 1))}, "score": place}
        for place in sorted((draw.randint(1, 999) / Decimal(1000) for _ in range(20)), reverse=True)
    ]
    parents: list[Any] = [{"identifier": None}]
    parents.append(
        {"identifier": _other(draw), "function": "SHAREHOLDER", "percentage": Decimal("0.51"), "name": "Mère"}
    )
    children = [
        {"identifier": _other(draw), "function": "SHAREHOLDER", "percentage": Decimal("0.255"), "name": f"Fille {n}"}
        for n in range(draw.randint(1, 3))
    ]
    return {
        "name": name, "financials": periods, "lookalikes": lookalikes,
        "relationships": {"parents": parents, "children": children},
    }  # fmt: skip


def _period(draw: random.Random, year: int) -> Truth:
    record: Truth = {
        "startDate": f"{year}-01-01", "endDate": f"{year}-12-31", "dateReceived": f"{year + 1}-05-07",
        "healthIndicator": draw.randint(0, 10), "jointCommitteeCodes": draw.choice([[], ["200"], ["0100", "124"]]),
    }  # fmt: skip
    for part, names in PARTS.items():
        record[part] = {
            name: Decimal(draw.randint(0, 40_000)).scaleb(-4)
            if name.endswith("Ratio")
            else Decimal(draw.randint(-(10**9), 10**11)).scaleb(-2)
            for name in names
        }
    record["profitability"]["revenue"] = draw.choice([None, record["profitability"]["revenue"]])
    men = Decimal(draw.randint(0, 100)).scaleb(-2)
    record["people"] = {
        "employees": draw.randint(0, 900), "newHires": draw.randint(0, 9), "employeeMaleRatio": men,
        "employeeFemaleRatio": 1 - men,
    }  # fmt: skip
    return record


def _other(draw: random.Random) -> dict[str, str]:
    number = str(draw.randint(10**7, 10**8 - 1))
    return {"country": "NL", "companyNumber": number, "name": f"Zus {number}", "place": "Sluis"}


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    state: Foreign

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self._handle(parts.path, {name: values[-1] for name, values in parse_qs(parts.query).items()})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            self._handle(urlsplit(self.path).path, json.loads(raw))
        except json.JSONDecodeError:
            self._refuse(400, [("", "is no JSON")])

    def _is_too_fast(self) -> bool:
        count, seconds = self.state.choices.rate
        with self.state.lock:
            self.state.granted = [at for at in self.state.granted if time.monotonic() - at < seconds]
            self.state.granted.append(time.monotonic())
            if is_too_fast := len(self.state.granted) > count > 0:
                self.state.granted.pop()
        return is_too_fast

    def _handle(self, path: str, sent: Any) -> None:
        self.state.requests.append(f"{self.command} {path}")
        steps = path.removeprefix("/gateway/v1/").split("/")
        if self._is_too_fast():
            self._answer(503, {"message": "request frequency exceeds limit"} if self.state.choices.says_200 else b"")
        elif self.state.choices.fails_every and not len(self.state.requests) % self.state.choices.fails_every:
            self._answer(503, {"statusCode": 503, "message": ["Service Unavailable"]})
        elif self.headers.get("authorization") != "Bearer geheim" and self.state.choices.wrong_token_is_forbidden:
            self._answer(403, {"fault": {"faultstring": "Invalid access token", "detail": {"errorcode": "oauth"}}})
        elif self.headers.get("authorization") != "Bearer geheim":
            self._answer(401, {"statusCode": 401, "message": ["Unauthorized"]})
        elif self.state.choices.forbidden and self.state.choices.forbidden in steps:
            self._forbid()
        elif self.command == "POST" and not self.state.choices.posts:
            self._answer(405, b"")
        elif self.state.choices.needs_language and not self.headers.get(self.state.choices.language):
            said = self.state.choices.needs_language.format(self.state.choices.language)
            self._answer(400, {"timestamp": "2026-11-24T10:00:00.000+00:00", "status": 400, "message": said})
        elif steps == ["lists"]:
            self._answer(200, {"data": [], "pagination": {"limit": 10, "offset": 0, "total": 0}})
        elif steps[0] == "companies" and len(steps) == 4 and self.command == "GET" and self.state.choices.gets:
            self._answer_one(steps[3], (steps[1], steps[2]), sent)
        elif steps[0] == "companies" and len(steps) == 2 and self.command == "POST":
            self._answer_many(steps[1], sent)
        else:
            self._answer(404, {"statusCode": 404, "message": [f"Cannot {self.command} {path}"]})

    def _forbid(self) -> None:
        self._answer(403, {"statusCode": 403, "message": ["Forbidden resource"]})

    def _answer_one(self, dataset: str, company: tuple[str, str], query: dict[str, str]) -> None:
        if company[0] == self.state.choices.forbidden_country:
            self._forbid()
            return
        if company[0] not in self.state.choices.countries:
            self._refuse(400, [("country", f"must be one of {self.state.choices.countries}")])
            return
        company = company[0].upper(), company[1]
        if company[1].lstrip("0") in self.state.choices.dissolved:
            self._answer(422, {"statusCode": 422, "message": [f"{company[1]} is dissolved"]})
            return
        page = self._page(dataset, query, set()) if self.state.choices.get_pages else (4, 0)
        if page is None:
            return
        is_short = self.state.choices.has_country and company[0] == "BE" and company[1][:2] != "BE"
        known = None if is_short else self._find(*company)
        if known is None:
            if self.state.choices.unknown == "204":
                self._answer(204, b"")
            elif self.state.choices.posts:
                self._answer(404, {"statusCode": 404, "message": ["No company of this number"]})
            else:
                self._answer(404, b"")
            return
        element = self._element(dataset, company, known, page)
        element.pop("message", None)
        self._answer(200, element, self._charge([company]))

    def _answer_many(self, dataset: str, sent: Any) -> None:
        choices = self.state.choices
        key, country, number = choices.body
        try:
            sent = self._flatten(sent)
        except (KeyError, TypeError, AttributeError, ValueError):
            self._refuse(400, [("body", "is not valid")])
            return
        if any(entry.get(country, "-") == choices.forbidden_country for entry in sent.get(key) or []):
            self._forbid()
            return
        page = self._page(dataset, sent, {key})
        if page is None:
            return
        wrong = [("", f"{key} should not be empty")] if not sent.get(key) else []
        for place, entry in enumerate(sent.get(key) or []):
            wrong += [(f"{key}.{place}.{name}", "should not exist") for name in entry if name not in (country, number)]
            wrong += [(f"{key}.{place}.{name}", "must be a string") for name in (country, number) if name not in entry]
        if len(sent.get(key) or []) > choices.bulk_max:
            wrong.append((key, f"must contain no more than {choices.bulk_max} elements"))
        lengths = [(len(entry.get(number, "")), LENGTHS.get(entry.get(country))) for entry in sent.get(key) or []]
        if any(entry.get(country, "") not in choices.countries for entry in sent.get(key) or []):
            wrong.append((f"{key}.0.{country}", f"must be one of {choices.countries}"))
        if choices.bulk_has_zero == "refused" and any(length != proper for length, proper in lengths):
            wrong.append((key, "holds a number of the wrong length"))
        if wrong:
            self._refuse(400, wrong[:4])
            return
        is_refused = self._lacks_country(dataset, sent[key])
        if dissolved := [entry[number] for entry in sent[key] if entry[number].lstrip("0") in choices.dissolved]:
            self._answer(422, {"statusCode": 422, "message": [f"{dissolved[0]} is dissolved"]})
            return
        if dataset == "financials" and 0 < choices.records_max < len(sent[key]) * page[0]:
            self._answer(504, {"message": "Endpoint request timed out"})
            return
        asked = [(entry[country].upper(), entry[number]) for entry in sent[key]]
        if not (is_refused or self._names_places(key, asked)):
            self._answer_asked(dataset, list(dict.fromkeys(asked)) if choices.names_once else asked, page)

    def _names_places(self, key: str, asked: list[tuple[str, str]]) -> bool:
        """Refuse a request that names unknown companies, by their places."""
        first, said = self.state.choices.places
        places = [place for place, one in enumerate(asked, first) if said and self._find(*one) is None]
        if places:
            issues = [{"code": "custom", "message": said, "path": [key, place]} for place in places]
            self._answer(422, {"success": False, "error": {"issues": issues, "name": "ZodError"}})
        return bool(places)

    def _lacks_country(self, dataset: str, entries: list[dict[str, str]]) -> bool:
        """Refuse Belgian numbers without the country before them, and take it from all others."""
        _, country, number = self.state.choices.body
        if not self.state.choices.has_country:
            return False
        if any(one[country] == "BE" and one[number][:2] != "BE" for one in entries):
            said = {"status": 400, "error": "Bad Request", "message": f'[0].{number} must match "BE\\d{{10}}"'}
            self._answer(400, said | {"path": f"/v1/companies/{dataset}"})
            return True
        for entry in entries:
            entry[number] = entry[number].removeprefix(entry[country])
        return False

    def _answer_asked(self, dataset: str, asked: list[tuple[str, str]], page: tuple[int, int]) -> None:
        choices = self.state.choices
        elements, charged = list[Any](), []
        for company in asked:
            is_short = choices.bulk_has_zero and len(company[1]) != LENGTHS.get(company[0])
            known = None if is_short else self._find(*company)
            if known is not None:
                charged.append(company)
                elements.append(self._element(dataset, company, known, page))
            elif choices.unknown == "null":
                elements.append(None)
            elif choices.unknown == "404":
                self._answer(404, {"statusCode": 404, "message": [f"Company {company[1]} does not exist"]})
                return
            elif choices.unknown == "named":
                self._answer(422, {"statusCode": 422, "message": f"Unknown company {' '.join(company)}"})
                return
            elif choices.unknown == "422":
                self._answer(422, {"statusCode": 422, "message": "Company not found"})
                return
            elif choices.unknown == "message":
                identifier = {"country": company[0], "companyNumber": company[1]}
                missing = {
                    choices.identifier: identifier,
                    "data": None,
                    "pagination": None,
                    "message": "Company not found",
                }
                if dataset != "financials":
                    del missing["pagination"]
                elements.append(missing)
        self._answer(200, elements, self._charge(charged))

    def _flatten(self, sent: Any) -> Any:
        """Bring a body of the form of this service into the flat one."""
        form, (key, country, number) = self.state.choices.form, self.state.choices.body
        if form == "none":
            raise ValueError
        if form == "wrapped":
            (sent,) = (sent["request"],)
        if form == "array":
            query = {name: values[-1] for name, values in parse_qs(urlsplit(self.path).query).items()}
            sent = {key: [*sent], **query}
        if form == "nested-page":
            sent = {key: sent[key], **sent.get("pagination", {})}
        entries = sent[key]
        if form == "company-id":
            entries = [entry["companyId"] for entry in entries]
        if form == "texts":
            entries = [{country: entry[:2], number: entry[2:]} for entry in entries]
        if form == "integers":
            entries = [{**entry, number: f"{entry[number]:d}".zfill(LENGTHS[entry[country]])} for entry in entries]
        return {**sent, key: entries}

    def _find(self, country: str, number: str) -> Truth | None:
        if self.state.choices.has_zero and len(number) != LENGTHS.get(country):
            return None
        return truth(country, number)

    def _page(self, dataset: str, sent: Any, others: set[str]) -> tuple[int, int] | None:
        """Read page size and skip count; None after a refusal."""
        choices = self.state.choices
        size, skip = choices.paging
        allowed = {size, skip} if dataset == "financials" else set()
        wrong = [(name, "should not exist") for name in sent if name not in allowed | others]
        try:
            limit, offset = int(sent.get(size, 4)), int(sent.get(skip, 0))
        except ValueError:
            limit, offset = 0, 0
        if limit < 1 or offset < 0:
            wrong.append((size, "must not be less than 1"))
        if choices.counts_pages and limit > 0 and offset % limit:
            wrong.append((skip, f"must be a multiple of {size}"))
        if limit > choices.page_max and not choices.cuts_pages:
            wrong.append((size, f"must not be greater than {choices.page_max}"))
        if wrong:
            self._refuse(400, wrong)
            return None
        return min(limit, choices.page_max), offset

    def _element(self, dataset: str, company: tuple[str, str], known: Truth, page: tuple[int, int]) -> Truth:
        choices, (country, number) = self.state.choices, company
        number = number.zfill(LENGTHS[country]) if choices.has_zero else number.lstrip("0")
        dutch = "NL" in self.headers.get(choices.language, "") and not choices.has_one_language
        name = known["name"].replace("Maison", "Huis") if dutch else known["name"]
        identifier = {"country": country, "companyNumber": number, "name": name, "place": "Gent" if dutch else "Gand"}
        data: Any = known[dataset]
        element: Truth = {choices.identifier: identifier, "data": data, "message": None}
        if dataset == "financials":
            limit, offset = page
            element["data"] = [_dated(period, choices.dates) for period in data[offset : offset + limit]]
            element["pagination"] = {"limit": limit, "offset": offset, "total": len(data)}
        if dataset == "relationships":
            element["data"] = {**data, "children": [self._child(child) for child in data["children"]]}
        element = _percent(element) if choices.percent else element
        element = _renamed(element, lambda key: choices.number if key == "companyNumber" else key)
        return _without_null(element) if choices.omits_null else element

    def _child(self, child: Truth) -> Truth:
        rest = {key: value for key, value in child.items() if key != "identifier"}
        if self.state.choices.children == "flat":
            return {**child["identifier"], **rest}
        return {"entity": child["identifier"], **rest} if self.state.choices.children == "entity" else child

    def _charge(self, companies: list[tuple[str, str]]) -> dict[str, str]:
        with self.state.lock:
            count = 0
            for country, number in companies:
                key = country, number.zfill(LENGTHS[country])
                count += key not in self.state.paid
                self.state.paid.setdefault(key, 1)
        if self.state.choices.quota:
            return {self.state.choices.quota: str(200 - len(self.state.requests))}
        return {self.state.choices.charge: str(count), self.state.choices.left: str(5000 - len(self.state.paid))}

    def _refuse(self, status: int, wrong: list[tuple[str, str]]) -> None:
        kind = self.state.choices.refusal
        if kind == "pydantic":
            detail = [
                {"type": "value", "loc": ["body", *name.split(".")], "msg": f"Value {text}"} for name, text in wrong
            ]
            self._answer(422, {"detail": detail})
        elif kind == "plain":
            self._answer(status, b"Bad Request")
        else:
            sentences = [f"{name} {text}".strip() for name, text in wrong]
            self._answer(status, {"statusCode": status, "message": sentences, "error": "Bad Request"})

    def _answer(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        status = 200 if self.state.choices.says_200 else status
        if self.state.choices.case and status == 200:
            content = _renamed(content, _CASES[self.state.choices.case])
        if self.state.choices.envelope and status == 200:
            content = {"rateLimit": {"remaining": 150}, self.state.choices.envelope: content}
        body = content if isinstance(content, bytes) else _encode(content)
        self.send_response(status)
        kind = "text/plain" if isinstance(content, bytes) else "application/json; charset=utf-8"
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        if not self.state.choices.closes:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


_encode = msgspec.json.Encoder(decimal_format="number").encode


def _dated(period: Truth, form: str) -> Truth:
    days = {key: date.fromisoformat(period[key]) for key in ("startDate", "endDate", "dateReceived")}
    return {**period, **{key: f"{day:{form}}" for key, day in days.items()}}


def _percent(value: Any) -> Any:
    if isinstance(value, dict):
        shares = ("percentage", "employeeMaleRatio", "employeeFemaleRatio")
        return {
            key: inner * 100 if key in shares and inner is not None else _percent(inner) for key, inner in value.items()
        }
    return [_percent(inner) for inner in value] if isinstance(value, list) else value


def _renamed(value: Any, name: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {name(key): _renamed(inner, name) for key, inner in value.items()}
    return [_renamed(inner, name) for inner in value] if isinstance(value, list) else value


_CASES: dict[str, Callable[[str], str]] = {
    "snake": lambda key: re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key),
    "pascal": lambda key: key[0].upper() + key[1:],
}


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null(inner) for key, inner in value.items() if inner is not None}
    return [_without_null(inner) for inner in value] if isinstance(value, list) else value
