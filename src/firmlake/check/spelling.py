"""The finding about the spelling of company numbers: the form that the service knows, for each country."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firmlake.api import requests
from firmlake.check.examples import knows
from firmlake.check.finding import Finding
from firmlake.check.talk import FORBIDDEN, Talk
from firmlake.core.company import Company

__all__ = ["SPELLING", "find_spelling", "has_two_spellings", "spellings"]

SPELLING = "spelling of company numbers"
"""The row in docs/service_gaps.md."""


def has_two_spellings(company: Company) -> bool:
    """Return whether a service may know a company with or without a leading zero."""
    return company.country == "BE" and company.company_number.startswith("0")


def spellings(talk: Talk, company: Company) -> tuple[bool, ...]:
    """Return the values of `keep_leading_zero` that spell a company differently, the usual one first."""
    usual = talk.api.keep_leading_zero
    return (usual, not usual) if has_two_spellings(company) else (usual,)


def find_spelling(talk: Talk, dataset: str, known: Company, companies: Sequence[Company], usual: bool) -> Finding:
    """Find the spelling of Belgian numbers, and whether the service knows a company of every country.

    Args:
        talk: The conversation. It takes over the spelling by which the service knows Belgian companies.
        dataset: A dataset that the service answers for.
        known: A company that it knows, at least by GET.
        companies: All that may be asked for.
        usual: Whether the settings keep the leading zero.
    """
    known_by: dict[str, Company] = {}
    unknown: list[Company] = []
    for country in dict.fromkeys(company.country for company in (known, *companies)):
        of_country = [company for company in dict.fromkeys((known, *companies)) if company.country == country]
        found, is_forbidden = _find_known(talk, dataset, of_country)
        known_by |= {country: found} if found else {}
        unknown += [] if found or is_forbidden else of_country  # the finding about endpoints covers what is forbidden
    keep = talk.api.keep_leading_zero
    settings = {"api.keep_leading_zero": keep} if keep != usual else {}
    if unknown:
        tried = " with or without the leading zero" if any(len(spellings(talk, each)) > 1 for each in unknown) else ""
        return Finding(
            SPELLING,
            f"{_how_known(known, known_by)}, but not {', '.join(map(str, unknown))}{tried}",
            "needs_you",
            settings,
            next_step="If the service has these companies, it expects a form other than "
            f"{requests.spell_number(talk.api, unknown[0])}: see its documentation. api.keep_leading_zero adds the "
            "zero of Belgian numbers; no setting covers other forms. If it has none of them, name others with "
            "--company",
        )  # fmt: skip
    return _describe(talk, dataset, known_by.get("BE"), settings)


# ---------------------------------------------------------------------------------------------------------------------


def _find_known(talk: Talk, dataset: str, companies: Sequence[Company]) -> tuple[Company | None, bool]:
    """Find a company that the service knows, and keep its spelling; the flag says that the token may not ask."""
    for company in companies:
        for keep in spellings(talk, company):
            answer = talk.bulk(dataset, [company], keep_leading_zero=keep)
            if answer.status == FORBIDDEN:
                return None, True
            if knows(answer, company):
                talk.api = msgspec.structs.replace(talk.api, keep_leading_zero=keep)
                return company, False
    return None, False


def _how_known(known: Company, known_by: dict[str, Company]) -> str:
    """Say what is known by POST, as runs ask, or that only GET knows a company."""
    others = ", ".join(map(str, known_by.values()))
    return f"{others} is known" if others else f"GET knows {known}, POST does not"


def _describe(talk: Talk, dataset: str, belgian: Company | None, settings: dict[str, bool]) -> Finding:
    if belgian is None:
        return Finding(SPELLING, "no Belgian company was requested; other numbers have one spelling", "not_observed")
    if len(spellings(talk, belgian)) == 1:
        return Finding(SPELLING, f"{belgian} has only one spelling", "not_observed")
    keep = talk.api.keep_leading_zero
    if settings:
        return Finding(SPELLING, f"known only with{'' if keep else 'out'} the leading zero", "covered", settings)
    other = talk.bulk(dataset, [belgian], keep_leading_zero=not keep)
    spelled = requests.spell_number(talk.api, belgian)
    is_both = knows(other, belgian)
    return Finding(
        SPELLING, "known with and without the leading zero" if is_both else f"only {spelled} is known", "as_assumed"
    )
