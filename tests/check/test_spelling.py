"""A country none of whose companies is known: the service may expect their numbers in another spelling."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from firmlake.check.questions import find_spelling
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings, Settings
from firmlake.enrich.contact import choose_companies

KBC, SOLVAY, UCB = Company("BE", "0403227515"), Company("BE", "0403091220"), Company("BE", "0403053608")
HEINEKEN = Company("NL", "33011433")


class Talk:
    """Stands for a service that knows companies only as they are spelled here."""

    def __init__(self, *known: str) -> None:
        self.api, self._known = ApiSettings(), known

    def bulk(self, dataset, companies, *, keep_leading_zero):
        (company,) = companies
        number = company.company_number
        number = number if keep_leading_zero else number.removeprefix("0")
        data = [] if number in self._known else None
        element = {"identifier": {"country": company.country, "companyNumber": number}, "data": data}
        request = SimpleNamespace(endpoint=dataset)
        return SimpleNamespace(is_success=True, status=200, body=json.dumps([element]).encode(), request=request)


def found(talk, *companies, known=HEINEKEN):
    return find_spelling(talk, "lookalikes", known, companies, usual=False)


def test_where_no_company_of_a_country_is_known_in_any_spelling_a_person_must_look():
    finding = found(Talk("33011433", "0403.227.515"), HEINEKEN, KBC, SOLVAY, UCB)
    assert finding.verdict == "needs_you"
    assert "but not BE 0403227515, BE 0403091220, BE 0403053608 with or without the leading zero" in finding.seen
    assert "api.keep_leading_zero" in finding.next_step


def test_one_company_of_a_country_that_is_unknown_needs_nobody():
    finding = found(Talk("33011433"), HEINEKEN, KBC)
    assert (finding.verdict, finding.settings) == ("not_observed", {})
    assert finding.seen.endswith("BE 0403227515 unknown, too few to tell")


def test_a_known_dutch_company_does_not_hide_that_belgian_ones_need_the_zero():
    talk = Talk("33011433", "0403227515")
    finding = found(talk, HEINEKEN, KBC)
    assert (finding.verdict, finding.settings) == ("covered", {"api.keep_leading_zero": True})
    assert talk.api.keep_leading_zero


def test_of_belgium_a_company_with_two_spellings_is_asked_for_if_the_list_has_one(tmp_path):
    """Otherwise the check would not see how most numbers of the list must be spelled."""
    path = tmp_path / "list.csv"
    path.write_text("country,number\nNL,33011433\nBE,1012555878\nBE,0403227515\n", encoding="utf-8")
    assert choose_companies(Settings(), (), path, 3).companies == (KBC, HEINEKEN)


@pytest.mark.parametrize("companies", [(HEINEKEN,), (HEINEKEN, KBC)])
def test_companies_that_are_known_as_usual_need_nobody(companies):
    finding = found(Talk("33011433", "403227515"), *companies)
    assert finding.verdict == ("as_assumed" if KBC in companies else "not_observed")
