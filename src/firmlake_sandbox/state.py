"""All that the running service remembers."""

import os
import struct
import time
from array import array
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from firmlake_sandbox.dialects import Dialect
from firmlake_sandbox.faults import FaultBook
from firmlake_sandbox.lists import ListBook
from firmlake_sandbox.numbers import BASE_BITS, COUNTRIES, spell_number
from firmlake_sandbox.options import Options, apply_dialects
from firmlake_sandbox.world import World


class Clock:
    """Real time plus what was added: the calendar for credits and dates, the ticks for the rate limit."""

    def __init__(self) -> None:
        """Start at the real time."""
        self._ahead = 0.0
        self._ticks_ahead = 0.0

    def now(self) -> float:
        """Return the calendar time in seconds since 1970."""
        return time.time() + self._ahead

    def ticks(self) -> float:
        """Return the seconds that the rate limit counts by."""
        return time.monotonic() + self._ticks_ahead

    def advance(self, calendar: float, ticks: float) -> None:
        """Move both clocks on by so many seconds each."""
        self._ahead += calendar
        self._ticks_ahead += ticks


_DAY = 86_400.0
_PAYMENT = struct.Struct("<qd")  # a node, and when it was paid for


def _open_private(path: str, flags: int) -> int:
    """Open a file that only its owner may read."""
    return os.open(path, flags, 0o600)


class Account:
    """A balance, and when each company was last paid for.

    References:
        gaps.md, credits.
    """

    def __init__(self, credits: int, window_days: int, book: Path | None = None) -> None:
        """Open an account.

        Args:
            credits: The balance.
            window_days: How long a company stays free once paid.
            book: A file that keeps what was paid; None forgets it when the process ends.
        """
        self.balance = credits
        self.window_days = window_days
        self.charges: dict[int, int] = {}  # by node: how often it was charged
        self._book = book
        self._paid: dict[int, float] = {}
        if book and book.exists():
            os.truncate(book, book.stat().st_size // _PAYMENT.size * _PAYMENT.size)  # a full disk may have cut the last
            self._paid.update(_PAYMENT.iter_unpack(book.read_bytes()))

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
            with open(self._book, "ab", opener=_open_private) as file:
                file.write(b"".join(_PAYMENT.pack(node, now) for node in unpaid))
        self.balance -= len(unpaid)
        return len(unpaid)


_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request may pass, how many more might at once, and in how many seconds there is room again."""

    is_allowed: bool
    remaining: int
    reset: float


class RateLimit(Protocol):
    """Counts the requests of one token; refused ones are not counted."""

    def admit(self, now: float) -> Verdict:
        """Count a request at this time, or refuse it."""
        ...


class FixedWindow:
    """So many requests in each minute of the clock."""

    def __init__(self, limit: int) -> None:
        """Allow `limit` requests a minute."""
        self._limit, self._minute, self._used = limit, -1, 0

    def admit(self, now: float) -> Verdict:
        """Count a request at this time, or refuse it."""
        minute = int(now // _MINUTE)
        if minute != self._minute:
            self._minute, self._used = minute, 0
        is_allowed = self._used < self._limit
        self._used += is_allowed
        return Verdict(is_allowed, self._limit - self._used, (minute + 1) * _MINUTE - now)


class SlidingWindow:
    """So many requests in any sixty seconds."""

    def __init__(self, limit: int) -> None:
        """Allow `limit` requests a minute."""
        self._limit, self._times = limit, deque[float]()

    def admit(self, now: float) -> Verdict:
        """Count a request at this time, or refuse it."""
        times = self._times
        while times and times[0] <= now - _MINUTE:
            times.popleft()
        is_allowed = len(times) < self._limit
        if is_allowed:
            times.append(now)
        return Verdict(is_allowed, self._limit - len(times), times[0] + _MINUTE - now)


class TokenBucket:
    """A bucket of `limit` that refills evenly within a minute: a burst, then a steady flow."""

    def __init__(self, limit: int) -> None:
        """Allow `limit` requests a minute."""
        self._limit, self._level, self._filled_at = limit, float(limit), 0.0

    def admit(self, now: float) -> Verdict:
        """Count a request at this time, or refuse it."""
        rate = self._limit / _MINUTE
        self._level = min(self._limit, self._level + (now - self._filled_at) * rate)
        self._filled_at = now
        is_allowed = self._level >= 1
        self._level -= is_allowed
        return Verdict(is_allowed, int(self._level), max(0.0, (1 - self._level) / rate))


RATE_LIMITS: dict[str, type[FixedWindow | SlidingWindow | TokenBucket]] = {
    "fixed-window": FixedWindow,
    "sliding-window": SlidingWindow,
    "token-bucket": TokenBucket,
}


class Ledger:
    """Requests by endpoint and status, and when each came."""

    def __init__(self) -> None:
        """Begin empty."""
        self._answers: Counter[tuple[str, str]] = Counter()
        self._times = array("d")

    def count_arrival(self, ticks: float) -> None:
        """Note when a request came, on the clock of the rate limit."""
        self._times.append(ticks)

    def count_answer(self, endpoint: str, outcome: str) -> None:
        """Note how a request ended.

        Args:
            endpoint: Its name in `contract.ENDPOINTS`, or `unknown`.
            outcome: The status as sent, or the fault that took its place.
        """
        self._answers[endpoint, outcome] += 1

    def summarise(self, charges: dict[int, int], balance: int) -> dict[str, object]:
        """Return the totals."""
        by_outcome: Counter[str] = Counter()
        requests: dict[str, dict[str, int]] = {}
        for (endpoint, outcome), count in sorted(self._answers.items()):
            by_outcome[outcome] += count
            requests.setdefault(endpoint, {})[outcome] = count
        return {
            "requests": len(self._times),
            "by_outcome": by_outcome,
            "by_endpoint": requests,
            "busiest_minute": _count_busiest(self._times),
            "credits_charged": sum(charges.values()),
            "credits_remaining": balance,
            "companies_charged": len(charges),
            "companies_charged_again": sum(count > 1 for count in charges.values()),
        }

    def list_times(self) -> list[float]:
        """Return when each request came, in order."""
        return list(self._times)


def spell_charges(charges: dict[int, int]) -> dict[str, int]:
    """Return how often each company was charged, by country and number in full, such as BE0403227515."""
    return {COUNTRIES[node >> BASE_BITS] + spell_number(node): count for node, count in charges.items()}


def _count_busiest(times: "array[float]") -> int:
    """Return the most requests within any sixty seconds."""
    busiest = first = 0
    for last, arrival in enumerate(times):
        while times[first] <= arrival - _MINUTE:
            first += 1
        busiest = max(busiest, last - first + 1)
    return busiest


@dataclass(slots=True)
class State:
    """The service between two requests.

    Attributes:
        chosen: The options as given at the start and changed since.
        options: What holds: those chosen, and what the dialects set in their place.
        dialects: In which it answers.
        tokens: Those that are let in; the first also opens the control endpoints.
        book: The file that keeps what was paid; None keeps it as long as the process lasts.
        expired: Those of them that a fault has ended.
    """

    chosen: Options
    tokens: tuple[str, ...]
    book: Path | None = None
    clock: Clock = field(default_factory=Clock)
    ledger: Ledger = field(default_factory=Ledger)
    rate_limits: dict[str, RateLimit] = field(default_factory=dict)
    faults: FaultBook = field(default_factory=FaultBook)
    expired: set[str] = field(default_factory=set)
    options: Options = field(init=False)
    dialects: tuple[Dialect, ...] = field(init=False)
    world: World = field(init=False)
    lists: ListBook = field(init=False)
    account: Account = field(init=False)

    def __post_init__(self) -> None:
        """Open the books."""
        self.options, self.dialects = apply_dialects(self.chosen)
        self._open()

    def _open(self) -> None:
        """Make what follows from the options."""
        options = self.options
        self.world = _make_world(options)
        self.lists = ListBook(self.world.key, options.lists)
        self.account = Account(options.credits, options.credit_window_days, self.book)

    def apply(self, chosen: Options) -> None:
        """Take new options over, keeping whatever they do not concern."""
        before, self.chosen = self.options, chosen
        self.options, self.dialects = apply_dialects(chosen)
        options = self.options
        self.world = _make_world(options)
        if (options.seed, options.lists) != (before.seed, before.lists):
            self.lists = ListBook(self.world.key, options.lists)
        if options.credits != before.credits:
            self.account.balance = options.credits
        self.account.window_days = options.credit_window_days
        if (options.requests_per_minute, options.rate_limit_kind) != (
            before.requests_per_minute,
            before.rate_limit_kind,
        ):
            self.rate_limits.clear()

    def reset(self) -> None:
        """Forget what was asked, paid, added and scripted; options and clocks stay."""
        self.ledger = Ledger()
        self.faults = FaultBook()
        self.rate_limits.clear()
        self.expired.clear()
        self._open()

    def rate_limit_of(self, token: str) -> RateLimit | None:
        """Return the rate limit of a token, None where there is none."""
        if not self.options.requests_per_minute:
            return None
        if token not in self.rate_limits:
            self.rate_limits[token] = RATE_LIMITS[self.options.rate_limit_kind](self.options.requests_per_minute)
        return self.rate_limits[token]


def _make_world(options: Options) -> World:
    """Return the world that the options describe."""
    return World(options.seed, options.week, not options.leading_zero, options.oldest_first, options.history)
