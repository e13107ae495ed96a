"""What a run has learnt about the service and its token: which datasets are answered, and for whom.

- A dataset is given up when three of its companies failed alone before any was answered (`Shard.note_failed`), or when
  the token may ask about none of its countries. The run ends when all its datasets are given up.
- A company that is refused in a request of its own is given up. The others of its country are, too, when two were
  forbidden in a row, or ten if some were answered before; and those whose numbers are spelled like its number when
  twenty were refused for another reason, such as that spelling, and none was answered.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec
import polars as pl

from firmlake.api.requests import has_two_spellings
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

_FORBIDDEN_MAX = 2
"""Close a scope after so many companies in a row were forbidden, while none was answered; after one if it is barred."""
_FORBIDDEN_OPEN_MAX = 10
"""The same, once a company of the scope was answered."""
_FORBIDDEN_EVER_MAX = 3
"""Close all scopes of a dataset after so many, one of each at least, as long as nothing was ever answered."""
_REFUSED_MAX = 20
"""Ask for no other company of the scope with numbers spelled alike after so many were otherwise refused."""


class Scope(NamedTuple):
    """The companies of a country in a dataset: a token may usually ask about all of them or none."""

    dataset: str
    country: str


class ScopeStatus(msgspec.Struct):
    """What is known about a scope.

    `refused` counts the companies that were refused in such requests for another reason, by whether their numbers have
    two spellings. `spellings` has this of those that were answered.
    """

    asked: int = 0  # companies of the scope that the run asks for
    is_barred: bool = False  # whether an earlier run, or another dataset, could not ask about most of its companies
    is_open: bool = False  # whether one of them was answered
    forbidden: int = 0  # companies that were forbidden in a row, each in a request of its own
    tested: int = 0  # companies that were asked for alone to see whether the token may ask about the scope
    refused: Counter[bool] = msgspec.field(default_factory=Counter)
    spellings: set[bool] = set()
    closed: ForbiddenError | None = None  # why no other is requested; None if they may be


class ServiceStatus:
    """What a run knows about its datasets and their scopes. Only the thread that absorbs answers changes it.

    `on_works` is called once, when the first dataset is answered. With `looks_closer`, the first request that is
    refused ends the run, so that a first contact asks everything.

    Attributes:
        ended: The reason for each dataset that was given up.
        witnesses: A company of an earlier shard that each dataset was answered for, if any.
        has_worked: Whether any dataset was ever answered.
        has_refused: Whether a company was ever forbidden or refused, or a dataset given up.
        misfit: The error that ends the run if no dataset is ever answered; None while the settings seem to fit.
    """

    def __init__(self, run: Run, api: ApiSettings, on_works: Callable[[], object], *, looks_closer: bool) -> None:
        self._plan = run.plan
        self._scopes = defaultdict[Scope, ScopeStatus](ScopeStatus, _count_asked(run))
        self._on_works = on_works
        self._works: set[str] = set()
        self._refused: dict[tuple[str, Company], ForbiddenError] = {}
        self._spellings: dict[tuple[Scope, bool], CountryRefusedError] = {}
        self._halves: Counter[Page] = Counter()
        self._too_large: Page | None = None
        self.api = api
        self.looks_closer = looks_closer
        self.ended: dict[str, FirmlakeError] = {}
        self.witnesses: dict[str, Company | None] = {}
        self.has_worked = self.has_refused = False
        self.misfit: FirmlakeError | None = None

    def works(self, dataset: str) -> bool:
        """Return whether a dataset is answered; until then its requests go one by one."""
        return dataset in self._works

    @property
    def is_down(self) -> bool:
        """Whether a dataset was given up as unavailable, so that no other one is waited for."""
        return any(isinstance(error, UnavailableError) for error in self.ended.values())

    def answered(self, dataset: str, companies: Iterable[Company] = ()) -> None:
        """Record that a dataset is answered for these companies."""
        is_first, self.has_worked = not self.has_worked, True
        for country, has_two in {(company.country, has_two_spellings(company)) for company in companies}:
            scope = self._scopes[Scope(dataset, country)]
            scope.is_open, scope.forbidden = True, 0
            scope.spellings.add(has_two)
        if dataset not in self.ended:
            self._works.add(dataset)
        if is_first:
            self._on_works()

    def knows_like(self, page: Page) -> bool:
        """Return whether companies of each country of a page were answered whose numbers are spelled alike."""
        return all(
            has_two_spellings(company) in self._scopes[Scope(page.dataset, company.country)].spellings
            for company in page.companies
        )

    def compare(self, page: Page, whole: tuple[Page, FirmlakeError] | None) -> None:
        """Compare an answered page with the limits of the settings; `whole` is the refused page of which it is a half.

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

    def to_test(self, dataset: str, companies: Iterable[Company]) -> dict[str, Company]:
        """Return a company of each country that could not be asked about before: one says whether it may be now."""
        barred = {of.country for of, scope in self._scopes.items() if of.dataset == dataset and scope.is_barred}
        chosen = {company.country: company for company in companies if company.country in barred} if barred else {}
        return {country: company for country, company in chosen.items() if self.may_test(dataset, company)}

    def may_test(self, dataset: str, company: Company) -> bool:
        """Return, for two companies of a country, whether to ask for one alone: the token may not ask about it."""
        of_scope = self._scopes[Scope(dataset, company.country)]
        may = not (of_scope.is_open or of_scope.closed or of_scope.tested >= _FORBIDDEN_MAX)
        of_scope.tested += may
        return may

    def refuse(self, dataset: str, company: Company, error: FirmlakeError, *, counts: bool = True) -> None:
        """Record that a company, requested alone, was refused: because of the token, or for another reason.

        A company that was refused in an earlier run too says nothing about its country, and does not count (`counts`).
        """
        self.has_refused = True
        scope = Scope(dataset, company.country)
        of_scope, has_two = self._scopes[scope], has_two_spellings(company)
        if isinstance(error, ForbiddenError):
            of_scope.forbidden += counts
            self._refused[dataset, company] = _about("company_forbidden", error)
            self._close_forbidden(scope, error)
            return
        of_scope.refused[has_two] += 1
        if of_scope.refused[has_two] >= _REFUSED_MAX and has_two not in of_scope.spellings:
            facts = {"count": _REFUSED_MAX, "country": scope.country, "message": error.message}
            self._spellings[scope, has_two] = CountryRefusedError(make_reason("country_refused", **facts).text)

    def _close_forbidden(self, scope: Scope, error: ForbiddenError) -> None:
        """Close a scope that the token may not ask about; give up the dataset if it may not ask about any."""
        scopes, of_scope = self._asked(scope.dataset), self._scopes[scope]
        counts = [each.forbidden for each in scopes.values()]
        enough = 1 if of_scope.is_barred else min(_FORBIDDEN_MAX, of_scope.asked)
        is_closed = of_scope.forbidden >= (_FORBIDDEN_OPEN_MAX if of_scope.is_open else enough)
        is_every = not self.has_worked and all(counts) and sum(counts) >= _FORBIDDEN_EVER_MAX
        for of in scopes if is_every else [scope] * is_closed:
            self._scopes[of].closed = _about("country_forbidden", error, of.country)
            for dataset in self._plan.datasets:
                self._scopes[Scope(dataset, of.country)].is_barred = True
        # The token may still be allowed to ask about companies that were answered earlier, or are left for later. A
        # redrive always leaves some out.
        count = 0 if self._plan.list_name == REDRIVE else self._plan.company_count
        if sum(each.asked for each in scopes.values()) == count and self.closed(scope.dataset):
            self.end(scope.dataset, error)

    def _asked(self, dataset: str) -> dict[Scope, ScopeStatus]:
        return {of: each for of, each in self._scopes.items() if of.dataset == dataset and each.asked}

    def closed(self, dataset: str) -> ForbiddenError | None:
        """Return why no company that the run asks for may be asked about in a dataset; None if some may be."""
        reasons = [each.closed for each in self._asked(dataset).values()]
        return reasons[0] if reasons and all(reasons) else None

    def refusal(self, dataset: str, company: Company) -> FirmlakeError | None:
        """Return why a company gets no request for a dataset; None if it may be requested."""
        if not self.has_refused:  # as in nearly all runs, which ask this for each company of each request
            return None
        scope = Scope(dataset, company.country)
        refused = self._refused.get((dataset, company)) or self._spellings.get((scope, has_two_spellings(company)))
        return self.ended.get(dataset) or self._scopes[scope].closed or refused

    def end(self, dataset: str, error: FirmlakeError) -> None:
        """Give up a dataset. If it is unavailable, the whole service may be down: the others go one by one again."""
        if not isinstance(error, ForbiddenError | EndpointPausedError | UnavailableError):
            error = UnavailableError(error.message, error.next_step)
        if dataset in self.ended:
            return
        self.has_refused = True
        self.ended[dataset] = error
        self._works.discard(dataset)
        if isinstance(error, UnavailableError):
            self._works.clear()

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
    found = asked.group_by("dataset", "country").agg(pl.len(), pl.col("is_barred").mean() > 0.5)
    rows = found.sort("dataset", "country").collect().iter_rows()
    return {Scope(dataset, country): ScopeStatus(*of_scope) for dataset, country, *of_scope in rows}


def _about(code: str, error: ForbiddenError, country: str = "") -> ForbiddenError:
    """Name the companies that a 403 is about, and keep the service's own words."""
    reason = make_reason(code, country=country, said=error.said)
    forbidden = ForbiddenError(reason.text, "Get a token that may ask about them, or leave them out of the list")
    forbidden.code, forbidden.said = reason.code, error.said
    return forbidden
