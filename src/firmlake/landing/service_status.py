"""What a run has learnt about the service and its token.

Each dataset is answered, unknown, or given up. Each `Scope` of a dataset (the companies of one country) is open,
unknown, or closed because the service refuses it.

- A scope opens when one of its companies is answered.
- A scope closes when two of its companies are refused, each in a request of its own. One is enough if the companies
  were given up in an earlier run, or if one of every country was refused and none answered; it takes ten in a row if
  the scope was open.
- A company that is refused in a request of its own is given up in any case.
- A scope also closes when 50 of its companies were refused one by one for another reason, such as the spelling of their
  numbers, and none was answered: otherwise each of its companies would cost two requests.
- A dataset is given up when all its scopes are closed, or when three of its companies failed alone before any was
  answered (`Shard.note_failed`). The run ends when all its datasets are forbidden.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec
import polars as pl

from firmlake.api.service import is_stamped
from firmlake.core.company import Company
from firmlake.core.errors import (
    RUN_AGAIN,
    AuthorizationError,
    CountryRefusedError,
    EndpointPausedError,
    FirmlakeError,
    ForbiddenError,
    PausedByServiceError,
    ServiceError,
    UnavailableError,
    make_reason,
)
from firmlake.core.settings import ApiSettings
from firmlake.landing.pages import Page
from firmlake.landing.run import REDRIVE, Run

LOOK_AGAIN = "Run `firmlake check LIST --write FILE` to find settings that fit, then run with --config FILE"
"""The next step where answers differ from the settings."""

_REFUSED_MAX = 2
"""Close a scope after this many of its companies were refused alone, as long as none was answered."""
_REFUSED_IN_A_ROW_MAX = 10
"""Close an open scope after this many refusals in a row: so many are no longer single companies."""
_SPOILT_MAX = 50
"""Close a scope after this many refusals for a reason other than the token, as long as none was answered."""


class Scope(NamedTuple):
    """The companies of a country in a dataset: a token may usually ask about all of them or none.

    Attributes:
        dataset: The dataset.
        country: The country.
        was_barred: Whether the companies were given up when last requested. They form a scope of their own, apart from
            the other companies of their country, because one refusal shows that nothing has changed for them.
    """

    dataset: str
    country: str
    was_barred: bool


class ScopeStatus(msgspec.Struct):
    """What is known about a scope.

    Attributes:
        asked: Companies of the scope that the run asks for.
        is_open: Whether one of them was answered.
        is_doubtful: Whether a page with one of them was forbidden.
        forbidden: Companies that were forbidden in a row, each in a request of its own.
        refused: Companies that were refused in such requests for another reason.
        closed: Why no other is requested; None if they may be.
    """

    asked: int = 0
    is_open: bool = False
    is_doubtful: bool = False
    forbidden: int = 0
    refused: int = 0
    closed: ForbiddenError | CountryRefusedError | None = None

    @property
    def is_known(self) -> bool:
        """Whether it is known if the token may ask about the scope."""
        return self.is_open or self.closed is not None


class ServiceStatus:
    """What a run knows about its datasets and their scopes.

    Only the thread that absorbs answers changes it.

    Args:
        run: The run.
        api: The settings of `api`.
        on_works: Called once, when the first dataset is answered.
        looks_closer: Whether to end at the first request that is refused, so that a first contact asks everything.

    Attributes:
        ended: The reason for each dataset that was given up.
        has_worked: Whether any dataset was ever answered.
        has_refused: Whether a page or a company was ever forbidden, a company refused, or a dataset given up.
        is_new: Whether no earlier run was answered.
        misfit: The error that ends the run if no dataset is ever answered; None while the settings seem to fit.
    """

    def __init__(self, run: Run, api: ApiSettings, on_works: Callable[[], object], *, looks_closer: bool) -> None:
        self._plan = run.plan
        self._scopes = defaultdict[Scope, ScopeStatus](ScopeStatus, _count_asked(run))
        self._on_works = on_works
        self._works: set[str] = set()
        self._doubted: set[str] = set()
        self._refused: dict[tuple[str, Company], ForbiddenError] = {}
        self._halves: Counter[Page] = Counter()
        self._too_large: Page | None = None
        self.api = api
        self.looks_closer = looks_closer
        self.ended: dict[str, FirmlakeError] = {}
        self.has_worked = self.has_refused = False
        self.is_new = not is_stamped(run.folders)
        self.misfit: FirmlakeError | None = None

    def works(self, dataset: str) -> bool:
        """Return whether a dataset is answered; until then its requests go one by one."""
        return dataset in self._works

    def must_wait(self, scope: Scope) -> bool:
        """Return whether requests about a scope go one by one, because each answer decides how to continue."""
        return scope.dataset not in self._works or (scope.was_barred and not self._scopes[scope].is_known)

    def probe_tries(self, scope: Scope) -> int:
        """Return how often to try one company of a scope before all others; 0 if nothing speaks against the others."""
        if scope.was_barred and not self._scopes[scope].is_known:
            return 1
        return (self.api.tries if self.has_worked else 1) if scope.dataset in self._doubted else 0

    def answered(self, dataset: str, scopes: Iterable[Scope] = ()) -> None:
        """Record that a dataset is answered for companies of these scopes."""
        is_first, self.has_worked = not self.has_worked, True
        self.open(scopes)
        if dataset not in self.ended:
            self._works.add(dataset)
        if is_first:
            self._on_works()

    def compare(self, page: Page, whole: tuple[Page, FirmlakeError] | None) -> None:
        """Compare an answered page with the limits of the settings.

        Args:
            page: The page.
            whole: If it is a half of a page that was refused: that page, and its error.

        Raises:
            ServiceError: For the second time in a row, the service answered both halves of a page that it had refused,
                so none of its companies was the reason. Look again with `firmlake check`.
        """
        before = self._too_large
        if before and page.dataset == before.dataset and page.size >= before.size:
            self._too_large = None
        if whole is None:
            return
        refused, error = whole
        self._halves[refused] += 1
        if self._halves[refused] == 2 and self._too_large:
            raise ServiceError(
                f"{error.message}: for the second time in a row, both halves of {refused} were answered",
                f"{LOOK_AGAIN}. Or lower api.companies_per_request, records_per_request or page_limit_max by hand",
            )
        if self._halves[refused] == 2:
            self._too_large = refused

    def open(self, scopes: Iterable[Scope]) -> None:
        """Record that the token may ask about scopes."""
        for scope in scopes:
            self._doubted.discard(scope.dataset)
            of_scope = self._scopes[scope]
            of_scope.is_open, of_scope.forbidden = True, 0

    def doubt(self, scopes: Iterable[Scope]) -> bool:
        """Record that a page of these scopes was forbidden; return whether the token may not ask about some of them."""
        self.has_refused = True
        unknown = [of_scope for scope in scopes if not (of_scope := self._scopes[scope]).is_known]
        for of_scope in unknown:
            of_scope.is_doubtful = True
        return bool(unknown)

    def doubtful(self, scopes: Iterable[Scope]) -> Scope | None:
        """Return the scope of which one company should be requested alone: that with the fewest refusals so far."""
        unknown = [scope for scope in scopes if self._scopes[scope].is_doubtful and not self._scopes[scope].is_known]
        return min(unknown, key=lambda scope: self._scopes[scope].forbidden, default=None)

    def refuse(self, scope: Scope, company: Company, error: FirmlakeError) -> None:
        """Record that a company, requested alone, was refused: because of the token, or for another reason."""
        self.has_refused = True
        of_scope = self._scopes[scope]
        if isinstance(error, ForbiddenError):
            of_scope.forbidden += 1
            self._doubted.discard(scope.dataset)
            self._refused[scope.dataset, company] = _about("company_forbidden", error)
            most = _REFUSED_IN_A_ROW_MAX if of_scope.is_open else 1 if scope.was_barred else _REFUSED_MAX
            others = self._of_dataset(scope.dataset)
            if of_scope.forbidden >= min(most, of_scope.asked):
                self._close(scope, error)
            elif len(others) > 1 and not any(other.is_open or not other.forbidden for other in others.values()):
                for other in others:
                    self._close(other, error)
        else:
            of_scope.refused += 1
            if of_scope.refused >= _SPOILT_MAX and not of_scope.is_known:
                facts = {"count": _SPOILT_MAX, "country": scope.country, "message": error.message}
                of_scope.closed = CountryRefusedError(make_reason("country_refused", **facts).text)

    def _of_dataset(self, dataset: str) -> dict[Scope, ScopeStatus]:
        """Return the scopes of a dataset that the run asks about."""
        return {scope: status for scope, status in self._scopes.items() if scope.dataset == dataset and status.asked}

    def _close(self, scope: Scope, error: ForbiddenError) -> None:
        """Record that the token may not ask about a scope; give up the dataset if it may not ask about any.

        Closing a country also closes its scope of companies that were given up before, but not the other way round.
        """
        code = "still_forbidden" if scope.was_barred else "country_forbidden"
        for each in (scope, scope._replace(was_barred=True)):
            self._scopes[each].closed = _about(code, error, scope.country)
        scopes = self._of_dataset(scope.dataset).values()
        # The token may still be allowed to ask about companies that were answered earlier, or are left for later. A
        # redrive always leaves some out.
        count = 0 if self._plan.list_name == REDRIVE else self._plan.company_count
        if sum(each.asked for each in scopes) == count and all(each.closed for each in scopes):
            self.end(scope.dataset, error)

    def refusal(self, scope: Scope, company: Company) -> FirmlakeError | None:
        """Return why a company of a scope gets no request; None if it may be requested."""
        refused = self._refused.get((scope.dataset, company))
        return self.ended.get(scope.dataset) or self._scopes[scope].closed or refused

    def end(self, dataset: str, error: FirmlakeError) -> None:
        """Give up a dataset. If it is unavailable, probe the others too, because the whole service may be down."""
        if not isinstance(error, ForbiddenError | EndpointPausedError | UnavailableError):
            error = UnavailableError(error.message, error.next_step)
        if dataset in self.ended:
            return
        self.has_refused = True
        self.ended[dataset] = error
        if isinstance(error, UnavailableError):
            self._works.clear()
            self._doubted.update(self._plan.datasets)
        self._works.discard(dataset)

    def check(self) -> None:
        """Check that at least one dataset is not given up.

        Raises:
            AuthorizationError: Every dataset is forbidden. Get a token that may use them.
            PausedByServiceError: No dataset is available, and the service asked for a long pause. Run again later.
            RequestRefusedError: No dataset was ever answered, and the first was refused. Correct the settings.
            ServiceError: No dataset is available. Run again later.
        """
        errors = [self.ended[dataset] for dataset in self._plan.datasets if dataset in self.ended]
        if len(errors) < len(self._plan.datasets):
            return
        if self.misfit and not self.has_worked:
            raise self.misfit
        paused = next((error for error in errors if isinstance(error, PausedByServiceError)), None)
        is_forbidden = all(isinstance(error, ForbiddenError) for error in errors)
        kind = PausedByServiceError if paused else AuthorizationError if is_forbidden else ServiceError
        messages = list(dict.fromkeys(error.message for error in errors))
        raise kind("; ".join(messages), (paused or errors[0]).next_step or RUN_AGAIN)


def _count_asked(run: Run) -> dict[Scope, ScopeStatus]:
    """Count the targets of a run by scope, without those that a budget left out."""
    asked = run.scan_targets().filter(pl.col("shard") > 0)
    rows = asked.group_by("dataset", "country", "is_barred").len().sort(pl.all()).collect().iter_rows()
    return {Scope(dataset, country, is_barred): ScopeStatus(count) for dataset, country, is_barred, count in rows}


def _about(code: str, error: ForbiddenError, country: str = "") -> ForbiddenError:
    """Name the companies that a 403 is about, and keep the service's own words."""
    reason = make_reason(code, country=country, said=error.said)
    forbidden = ForbiddenError(reason.text, "Get a token that may ask about them, or leave them out of the list")
    forbidden.code, forbidden.said = reason.code, error.said
    return forbidden
