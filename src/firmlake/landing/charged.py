"""What the service charges: counted while a run sends, and the charges that end it.

After a charge for a free refresh, no run refreshes for free: the paid window is shorter than we assumed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

from firmlake.api.exchange import is_about_credits
from firmlake.core.errors import FirmlakeError, ForbiddenError, OutOfCreditsError, Stopped
from firmlake.core.settings import RunSettings, Settings
from firmlake.core.text import count_of
from firmlake.landing.progress import read_landed
from firmlake.landing.run import CHARGED, Run
from firmlake.landing.segments import Header, credits_in


class Credits:
    """The credits of a run, as the service's headers report them; may be used from many threads.

    Attributes:
        left: Credits left according to the last answer; None if the service does not say.
        out: The error raised when the credits ran out; None as long as they last.
        end: The error raised when the service charged for a free refresh, or more credits than `run.max_credits`.
            Nothing more is sent then.
        is_tight: Whether a run with a budget was charged more for a page than was due. It then sends one page at a
            time, so that at most one page can exceed the budget.
    """

    def __init__(self, run: Run, settings: Settings) -> None:
        self._run = run
        self._names = settings.api.names
        self._budget = settings.run.max_credits
        # Credits charged, the first balance, how far it fell since, and what the pages sent so far should cost.
        self._spent: int | None = None
        self._first_left: int | None = None
        self._fallen = self._due = 0
        self._most = 2**63  # credits left at most, once the service has refused a page
        self._lock = threading.Lock()
        self.left: int | None = None
        self.out: OutOfCreditsError | None = None
        self.end: Stopped | None = None
        self.is_tight = False

    def expect(self, due: int) -> None:
        """Note what a page that is about to be sent should cost."""
        with self._lock:
            self._due += due

    def refusal(self, due: int, lapsed: int, *, is_fitted: bool) -> Stopped | None:
        """Return why a page is not sent; None if it may be affordable.

        `lapsed` of the `due` credits were not foreseen by the plan, because paid windows have closed since. The page
        `is_fitted` if it is no larger than `affordable`.
        """
        if lapsed and self._budget >= 0:
            self.end = self.end or Stopped(
                f"The paid windows of {lapsed:,} companies of a request closed while the run went on, and its budget "
                "does not foresee their credits",
                "Run it again, which plans the rest anew",
            )
            return self.end
        with self._lock:
            is_too_large = not is_fitted or self.left == 0 or due > self._most  # fitted to what was left before others
            return self.out if due and is_too_large else None

    def refused(self, error: OutOfCreditsError, due: int) -> None:
        """Note that the service has fewer credits left than a page should cost."""
        with self._lock:
            self.out = error
            self._most = min(self._most, due - 1) if due else self._most

    def explain(self, error: FirmlakeError, due: int) -> FirmlakeError:
        """Return why a page was refused: want of credits if it is a 403 and fewer are left than the page costs."""
        if not isinstance(error, ForbiddenError) or self.left is None or self.left >= due:
            return error
        spent = OutOfCreditsError(
            f"The service refuses a request that costs {count_of(due, 'credit')} ({error.said}), "
            f"and has {self.left:,} left",
            "Add credits and run again to continue",
        )
        self.refused(spent, due)
        return spent

    def spend(self, due: int) -> None:
        """Note that a page was answered that was sized by `affordable`."""
        with self._lock:
            self._most -= due

    @property
    def affordable(self) -> int:
        """How many companies to ask for after a 402: as many as credits are left.

        If the service does not say how many, half of those that there may be. Each answer or refusal halves what is
        unknown, so a few requests spend all that is left.
        """
        most = max(self._most, 0)
        return self.left if self.left is not None and self.left <= most else (most + 1) // 2

    def note(self, header: Header, due: int, *, is_free: bool) -> None:
        """Count the credits charged for a page: so many are due, and none if it refreshes companies for free.

        The balance is used only without a header for charges: others may spend too.
        """
        charged = credits_in(header, self._names.credits_charged_header)
        left = credits_in(header, self._names.credits_remaining_header)
        with self._lock:
            if left is not None:
                self.left = left
                self._first_left = left if self._first_left is None else self._first_left
                self._fallen = max(self._fallen, self._first_left - left)  # without what the first answer cost
            if charged is not None:
                self._spent = (self._spent or 0) + charged
            spent = self._fallen if self._spent is None else self._spent
            # The balance also tells what requests in flight cost, so it is compared with what is due for all so far.
            is_too_much = self._fallen > self._due if self._spent is None else (charged or 0) > due
            self.is_tight |= is_too_much and self._budget >= 0
        if charged and is_free and header.companies:
            with self._lock:
                self.end = self.end or _mark_charged(self._run, header, charged)
        elif 0 <= self._budget < spent:
            self.end = self.end or Stopped(
                f"The service charged {spent:,} credits, more than the {self._budget:,} that this run could still "
                "spend",
                "If nobody else uses these credits, ask the service what it charges for and how long a company stays "
                "free (run.credit_window_days); the table requests lists every charge. To continue, raise "
                "run.max_credits",
            )


def with_refresh_off(run: RunSettings, why: str) -> RunSettings:
    """Return the settings, without free refreshes if a charge has turned them off, as `refresh_off` says."""
    return msgspec.structs.replace(run, free_refresh_days=0) if why else run


def refresh_off(run: RunSettings, runs: Sequence[Run]) -> str:
    """Explain why no company is refreshed for free, as the runs of the data folder say; empty if they may be."""
    days = run.credit_window_days
    for each in reversed(runs) if run.free_refresh_days else ():
        if noted := each.log().get(CHARGED):
            mark = msgspec.json.decode(noted.body, type=_Mark)
            if mark.credit_window_days == days:
                return (
                    f"No company is refreshed for free, because the service charged run {each.run_id} "
                    f"{mark.credits:,} credits for {mark.companies:,} such companies. {_next_step(days)}"
                )
    return ""


def untold_credits(run: Run) -> str:
    """Name the headers that may report credits, if none does by the names of the settings; empty if there are none.

    One that changes in a later dataset, whose companies were paid for, as a quota of requests does, is none of credits.
    """
    names, datasets = run.plan.names, run.plan.datasets[1:] or run.plan.datasets
    usual = {names.credits_charged_header.lower(), names.credits_remaining_header.lower()}
    landed = (each.header for shard in [*run.shards()][:1] for each in read_landed(run, shard))
    landed = (header for header in landed if header.is_success and header.kind == "answer")
    told = [header.headers for header in landed if header.dataset in datasets]
    told = told if len(run.plan.datasets) > 1 else told[:1]
    others = sorted({name for headers in told for name in headers if is_about_credits(name)} - usual)
    others = [name for name in others if len({headers.get(name) for headers in told}) == 1]
    if not others or any(not usual.isdisjoint(headers) for headers in told):
        return ""
    return (
        f"The service may report credits in {', '.join(others)}: set api.names.credits_charged_header, or "
        "api.names.credits_remaining_header, to the one that holds those of a request, or those that are left"
    )


class _Mark(msgspec.Struct, frozen=True):
    credit_window_days: int
    credits: int
    companies: int


def _mark_charged(run: Run, header: Header, credit_count: int) -> Stopped:
    """Record that the service charged for free refreshes, and return the error that stops the run."""
    days = run.plan.credit_window_days
    mark = _Mark(days, credit_count, len(header.companies))
    run.note(CHARGED, mark, header.fetched_at)
    return Stopped(
        f"The service charged {credit_count:,} credits for a request of {mark.companies:,} companies that should be "
        f"free: they were paid for less than {days} days ago",
        _next_step(days),
    )


def _next_step(days: int) -> str:
    return (
        f"Ask the service how long a company stays free, and correct run.credit_window_days (now {days}); free "
        "refreshes are tried again with any other number"
    )
