"""All that the running service remembers."""

from dataclasses import dataclass, field
from pathlib import Path

from firmlake_sandbox.billing import Account
from firmlake_sandbox.clock import Clock
from firmlake_sandbox.dialect import Dialect
from firmlake_sandbox.faults import FaultBook
from firmlake_sandbox.ledger import Ledger
from firmlake_sandbox.lists import ListBook
from firmlake_sandbox.options import Options, apply_dialects
from firmlake_sandbox.ratelimit import RATE_LIMITS, RateLimit
from firmlake_sandbox.world import World


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
