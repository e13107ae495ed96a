"""All that the running service remembers."""

import os
import struct
import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from firmlake_sandbox.numbers import BASE_BITS, COUNTRIES, spell_number
from firmlake_sandbox.options import Options, apply_dialects
from firmlake_sandbox.twists import FaultBook
from firmlake_sandbox.world import World, draw

_DAY, _MINUTE = 86_400.0, 60.0
_PAYMENT = struct.Struct("<qd")  # a node, and when it was paid for


class Clock:
    """Real time plus what was added: the calendar for credits and dates, the ticks for the rate limit."""

    def __init__(self) -> None:
        self._ahead = self._ticks_ahead = 0.0

    def now(self) -> float:
        """Return the calendar time, in seconds since 1970."""
        return time.time() + self._ahead

    def ticks(self) -> float:
        """Return the seconds that the rate limit counts by."""
        return time.monotonic() + self._ticks_ahead

    def advance(self, calendar: float, ticks: float) -> None:
        """Move both clocks on by so many seconds each."""
        self._ahead += calendar
        self._ticks_ahead += ticks


class Account:
    """A balance, and when each company was last paid for."""

    def __init__(self, credits: int, window_days: int, book: Path | None = None) -> None:
        """Open an account with so many credits, less what the book says was paid; a book is a file that keeps that."""
        self.balance = credits
        self.window_days = window_days
        self.charges: dict[int, int] = {}  # by node: how often it was charged
        self._book = book
        self._paid: dict[int, float] = {}
        if book and book.exists():
            os.truncate(book, book.stat().st_size // _PAYMENT.size * _PAYMENT.size)  # a full disk may have cut the last
            payments = [*_PAYMENT.iter_unpack(book.read_bytes())]
            self._paid.update(payments)
            self.balance -= len(payments)

    def find_unpaid(self, nodes: Iterable[int], now: float) -> list[int]:
        """Return the companies that would cost a credit now, each once."""
        since, paid = now - self.window_days * _DAY, self._paid
        return [node for node in dict.fromkeys(nodes) if paid.get(node, -1.0) <= since]

    def charge(self, unpaid: list[int], now: float) -> int:
        """Charge a credit for each of these companies and return how many that were."""
        for node in unpaid:
            self._paid[node] = now
            self.charges[node] = self.charges.get(node, 0) + 1
        if self._book and unpaid:
            with open(self._book, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(b"".join(_PAYMENT.pack(node, now) for node in unpaid))
        self.balance -= len(unpaid)
        return len(unpaid)


class Verdict(NamedTuple):
    """Whether a request may pass, how many more might at once, and in how many seconds there is room again."""

    is_allowed: bool
    remaining: int
    reset: float


class RateLimit:
    """Counts the requests of one token; refused ones are not counted.

    Kinds are so many requests in each minute of the clock (`fixed-window`) or in any sixty seconds (`sliding-window`),
    and a bucket that refills evenly within a minute: a burst, then a steady flow (`token-bucket`).
    """

    def __init__(self, kind: str, limit: int) -> None:
        self._kind, self._limit = kind, limit
        self._times: deque[float] = deque()
        self._level, self._filled_at = float(limit), 0.0

    def admit(self, now: float) -> Verdict:
        """Count a request at this time, or refuse it."""
        if self._kind == "token-bucket":
            return self._draw(now)
        times, minute, is_sliding = self._times, now // _MINUTE, self._kind == "sliding-window"
        while times and (times[0] <= now - _MINUTE if is_sliding else times[0] // _MINUTE != minute):
            times.popleft()
        is_allowed = len(times) < self._limit
        if is_allowed:
            times.append(now)
        end = times[0] + _MINUTE if is_sliding else (minute + 1) * _MINUTE
        return Verdict(is_allowed, self._limit - len(times), end - now)

    def _draw(self, now: float) -> Verdict:
        rate = self._limit / _MINUTE
        self._level = min(self._limit, self._level + (now - self._filled_at) * rate)
        self._filled_at = now
        is_allowed = self._level >= 1
        self._level -= is_allowed
        return Verdict(is_allowed, int(self._level), max(0.0, (1 - self._level) / rate))


class Ledger:
    """What was asked, and how it ended."""

    def __init__(self) -> None:
        self.times: list[float] = []  # when each request came, on the clock of the rate limit
        self.answers: Counter[tuple[str, str]] = Counter()  # endpoint or `unknown`, status as sent or `no answer`

    def summarise(self, charges: dict[int, int], balance: int) -> dict[str, object]:
        """Return the totals."""
        starts = (bisect_right(self.times, arrival - _MINUTE) for arrival in self.times)
        by_outcome: Counter[str] = Counter()
        requests: dict[str, dict[str, int]] = {}
        for (endpoint, outcome), count in sorted(self.answers.items()):
            by_outcome[outcome] += count
            requests.setdefault(endpoint, {})[outcome] = count
        return {
            "requests": len(self.times),
            "by_outcome": by_outcome,
            "by_endpoint": requests,
            "busiest_minute": max((place - start + 1 for place, start in enumerate(starts)), default=0),
            "credits_charged": sum(charges.values()),
            "credits_remaining": balance,
            "companies_charged": len(charges),
            "companies_charged_again": sum(count > 1 for count in charges.values()),
        }


def spell_charges(charges: dict[int, int]) -> dict[str, int]:
    """Return how often each company was charged, by country and number in full, such as BE0403227515."""
    return {COUNTRIES[node >> BASE_BITS] + spell_number(node): count for node, count in charges.items()}


_FIRST_LIST_ID = 1001

_TOPICS = ("Prospects", "Klanten", "Fournisseurs", "Customers Ghent", "Région Wallonne", "Leads Q3", "Bouw & Vastgoed")
_COLUMNS: tuple[tuple[str, ...], ...] = (
    ("vatNumber", "country"),
    ("activities", "vatNumber", "country", "url"),
    ("activities", "vatNumber", "country", "url", "socials", "description"),
    ("url", "socials"),
    (),
    ("description", "activities"),
    ("country", "vatNumber", "description"),
    ("vatNumber", "keyPersons", "healthBarometer"),  # values that no documentation names
)
_PEOPLE = ("an.peeters", "luc.dubois", "zoe.bakker", "sales", "j.o'brien")
_YEAR_2023, _YEARS = 1_672_531_200_000, 94_000_000_000  # milliseconds


class ListBook:
    """All lists, with the companies and contacts added to them since the start."""

    def __init__(self, key: int, count: int) -> None:
        self._key = key
        self._ids = list(range(_FIRST_LIST_ID, _FIRST_LIST_ID + count))
        self._next_id = _FIRST_LIST_ID + count
        self._added: dict[int, dict[int, set[str]]] = {}
        self._updated: dict[int, float] = {}

    def page(self, kind: str, limit: int, offset: int) -> tuple[list[dict[str, Any]], int]:
        """Return a page of the lists of one kind (OVERVIEW: both), in their order, and how many there are in all."""
        ids = [number for number in self._ids if kind in ("OVERVIEW", self._kind(number))]
        return [self._describe(number) for number in ids[offset : offset + limit]], len(ids)

    def change(self, change: str, number: int) -> None:
        """Let a list `appear`, `vanish` or move to the `front`; where there is no such list, nothing happens."""
        if change == "appear":
            self._ids.append(self._next_id)
            self._next_id += 1
        elif number in self._ids:
            self._ids.remove(number)
            if change == "front":
                self._ids.insert(0, number)

    def type_of(self, number: int) -> str | None:
        """Return STATIC or SMART, None for a list that does not exist: three of ten are smart."""
        return self._kind(number) if number in self._ids else None

    def _kind(self, number: int) -> str:
        return "SMART" if draw(self._key, "list", number) % 10 < 3 else "STATIC"

    def add_contacts(self, number: int, node: int, contacts: list[str], now: float) -> int:
        """Add existing contacts of a company to a static list and return how many were not in it yet."""
        if not contacts:
            return 0
        present = self._added.setdefault(number, {}).setdefault(node, set())
        before = len(present)
        present.update(contacts)
        if len(present) > before:
            self._updated[number] = now
        return len(present) - before

    def _describe(self, number: int) -> dict[str, Any]:
        bits = draw(self._key, "list", number)
        is_static = self._kind(number) == "STATIC"
        created = _YEAR_2023 + (bits >> 8) % _YEARS
        updated = created + (bits >> 16) % (_YEAR_2023 + _YEARS - created)
        return {
            "id": number,
            "name": f"{_TOPICS[(bits >> 24) % 7]} {number}",
            "type": "STATIC" if is_static else "SMART",
            "columns": _COLUMNS[(bits >> 32) & 7],
            "shared": bool(bits >> 36 & 1),
            "notifications": {"enabled": is_static and bool(bits >> 37 & 1)},
            "amountOfCompanies": (bits >> 38) % 2500 + len(self._added.get(number, ())),
            "newResults": None if is_static else (bits >> 50) % 40,
            "updatedAt": _timestamp(self._updated.get(number, updated / 1000)),
            "createdAt": _timestamp(created / 1000),
            "createdBy": f"{_PEOPLE[(bits >> 56) % 5]}@example.com",
        }


def is_contact(contact: str) -> bool:
    """Tell whether a contact exists: if its id is a decimal number that does not end in 0, about nine in ten.

    Example:
        >>> is_contact("123"), is_contact("120"), is_contact("abc")
        (True, False, False)
    """
    return contact.isascii() and contact.isdigit() and contact[-1] != "0"


def _timestamp(seconds: float) -> str:
    """Write a time as the service does: UTC with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class State:
    """The service between two requests; the first of its tokens also opens the control endpoints."""

    def __init__(self, chosen: Options, tokens: tuple[str, ...], book: Path | None = None) -> None:
        self.tokens, self.clock, self._book = tokens, Clock(), book
        self._choose(chosen)
        self.reset()

    def _choose(self, chosen: Options) -> None:
        self.chosen = chosen
        self.options, self.twists = apply_dialects(chosen)  # dialects set some options in place of those chosen
        options = self.options
        self.world = World(options.seed, options.week, not options.leading_zero, options.oldest_first)

    def apply(self, chosen: Options) -> None:
        """Take new options over, keeping whatever they do not concern."""
        before = self.options
        self._choose(chosen)
        options = self.options
        if (options.seed, options.lists) != (before.seed, before.lists):
            self.lists = ListBook(self.world.key, options.lists)
        if options.credits != before.credits:
            self.account.balance = options.credits
        self.account.window_days = options.credit_window_days
        limit = (options.requests_per_minute, options.rate_limit_kind)
        if limit != (before.requests_per_minute, before.rate_limit_kind):
            self._rate_limits.clear()

    def reset(self) -> None:
        """Forget what was asked, paid, added and scripted; options and clocks stay."""
        options = self.options
        self.ledger, self.faults = Ledger(), FaultBook()
        self.expired: set[str] = set()  # tokens that a fault has ended
        self.lists = ListBook(self.world.key, options.lists)
        self.account = Account(options.credits, options.credit_window_days, self._book)
        self._rate_limits: dict[str, RateLimit] = {}

    def rate_limit_of(self, token: str) -> RateLimit | None:
        """Return the rate limit of a token, None if there is none."""
        options = self.options
        if not options.requests_per_minute:
            return None
        return self._rate_limits.setdefault(token, RateLimit(options.rate_limit_kind, options.requests_per_minute))
