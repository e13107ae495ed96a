"""What landed answers add up to: the same however they came, and never a record lost, doubled or invented."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.api.answers import read_answer
from firmlake.core.company import Company
from firmlake.core.settings import NameSettings
from firmlake.landing.progress import MISSES_MAX, Progress, check_elements
from support import ACME, BOLT, CIRC, MINUTE, NOON, body, examples, found, header, lookalike, not_found, party, period

EVERYBODY = (ACME, BOLT, CIRC)
STRANGER = Company("BE", "0770493071")
NAMES = NameSettings()
RECORDS = {"financials": period(), "lookalikes": lookalike(), "relationships": party()}


def absorb(*landed, companies=EVERYBODY, datasets=("financials",), names=NAMES):
    progress = Progress(
        [(dataset, companies, [None] * len(companies)) for dataset in datasets],
        names,
        keep_records=True,
        trusts_totals=False,
    )
    for one, content in landed:
        progress.absorb(one, content)
    return progress


def ask(companies: Sequence[Company], *elements, **values):
    """An answer to a question about companies that need not be those it speaks of."""
    return header("financials", companies, **{"offset": 0, **values}), body(*elements)


def page(company, offset, total, limit=5):
    """The page from an offset of a company that has so many periods."""
    records = [period(2000 + number) for number in range(offset, min(offset + limit, total))]
    return ask([company], found(company, "financials", *records, total=total, offset=offset), offset=offset)


def track(progress, company=ACME, dataset="financials"):
    return progress.datasets[dataset][company]


def held(progress, company=ACME, dataset="financials"):
    """The records held of a company, one after the other."""
    return [bytes(raw) for part in track(progress, company, dataset).parts for raw in next(iter(part.records.values()))]


def view(progress):
    """All that anybody asks of a progress."""
    return {
        (company, dataset): (
            t.status, t.next_offset, t.total, t.misses, t.restarts, t.attempts, t.reason.text, t.name, t.place,
            t.first_at, t.answered_at, t.ended_at, [(p.request_id, p.fetched_at, _plain(p.records)) for p in t.parts],
        )
        for company, dataset, t in progress.tracks()
    }  # fmt: skip


def _plain(records):
    return {group: [bytes(raw) for raw in raws] for group, raws in records.items()}


# --- one answer ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", RECORDS)
def test_answered_empty_not_found_and_silent_are_four_things(dataset):
    four = (*EVERYBODY, STRANGER)
    elements = [found(ACME, dataset, RECORDS[dataset]), found(BOLT, dataset), not_found(CIRC, dataset)]
    progress = absorb((header(dataset, four, offset=0), body(*elements)), companies=four, datasets=[dataset])
    assert [(t.status, t.next_offset) for _, _, t in progress.tracks()] == [
        ("answered", 1), ("answered", 0), ("not_found", 0), ("pending", 0),
    ]  # fmt: skip
    assert list(progress.pending(dataset)) == [STRANGER]


def test_a_company_nobody_asked_for_is_told_and_not_taken():
    progress = absorb(ask([ACME], found(ACME, "financials", period()), found(BOLT, "financials", period())))
    assert track(progress, BOLT).status == "pending"
    assert [text for _, text in progress.foreign] == [str(BOLT)]


@pytest.mark.parametrize(
    ("element", "reason"),
    [
        (None, "says nothing about it"),
        (not_found(ACME, message="Internal error"), "Internal error"),
        (found(ACME, "financials", total=3), "an empty page, but a total of 3"),
        ({**found(ACME, "financials", period()), "pagination": None}, "so the number of records is unknown"),
        ({**found(ACME, "financials"), "message": "Backend down"}, "the service says: Backend down"),
        (found(ACME, "financials", period(), total=9, offset=4), "from 4 on"),
    ],
)
def test_what_cannot_be_used_is_asked_for_again_and_then_given_up(element, reason):
    bad = ask([ACME, BOLT], *filter(None, [element, found(BOLT, "financials")]))
    for tries in range(1, MISSES_MAX + 1):
        progress = absorb(*tries * [bad])
        assert track(progress).status == "pending"
        assert reason in track(progress).reason.text
        assert track(progress).is_given_up == (tries == MISSES_MAX)
        assert held(progress) == []


def test_after_some_misses_a_good_answer_is_taken_and_they_are_forgotten():
    missing = ask([ACME, BOLT], found(BOLT, "financials"))
    progress = absorb(missing, missing, page(ACME, 0, 7), missing, missing)
    assert (track(progress).status, track(progress).is_given_up) == ("pending", False)
    assert absorb(missing, missing, page(ACME, 0, 7), missing, page(ACME, 5, 7)).datasets["financials"][ACME].total == 7


@pytest.mark.parametrize("content", [b"", b"null", b"<html>", b"[]", b"[null,null]", b"[", b'{"message":"x"}'])
def test_a_body_about_nobody_is_no_miss_of_everybody(content):
    """One company can make a whole answer unusable: the others must still be there when it is found out."""
    progress = absorb(*2 * MISSES_MAX * [(header("financials", EVERYBODY, offset=0), content)])
    for _, _, one in progress.tracks():
        assert (one.status, one.misses, one.is_given_up) == ("pending", 0, False)
        assert one.reason


def test_an_answer_with_one_usable_element_is_an_answer():
    assert len(check_elements(read_answer("financials", body({}, not_found(ACME))))) == 2


def test_attempts_count_what_named_the_company():
    error = (header(companies=[ACME, BOLT], status=503), b"")
    progress = absorb(error, error, page(ACME, 0, 1))
    assert (track(progress).attempts, track(progress, BOLT).attempts, track(progress, CIRC).attempts) == (3, 2, 0)


PERIOD = found(ACME, "financials", period())
GIVEN_UP = (header(companies=[ACME], kind="given_up", status=None, error="refused: 422", at=NOON + MINUTE), b"")
AS_PAGE = page(ACME, 0, 1)[1]
CALLED = NameSettings(not_found_message="No company {country}/{number} could be found")


def message(said):
    return [ask([ACME], {**found(ACME, "financials"), "message": said})]


LANDED = {
    # what landed; status, records and a part of the reason; the names of the service
    "an element twice": ([ask([ACME], PERIOD, PERIOD)], "answered", 1, ""),
    **{
        f"contradicting elements {number}": ([ask([ACME], PERIOD, other)], "pending", 0, "contradicts")
        for number, other in enumerate(
            [found(ACME, "financials", period(2001)), found(ACME, "financials"), not_found(ACME)]
        )
    },
    "an error with such a body": ([(header(companies=[ACME], offset=0, status=500), AS_PAGE)], "pending", 0, "500"),
    "a 429 with such a body": ([(header(companies=[ACME], offset=0, status=429), AS_PAGE)], "pending", 0, "429"),
    "no answer with such a body": (
        [(header(companies=[ACME], offset=0, kind="no_answer", status=None), AS_PAGE)], "pending", 0, "status",
    ),
    "another success status": ([(header(companies=[ACME], offset=0, status=207), AS_PAGE)], "answered", 1, ""),
    "given up": ([GIVEN_UP], "failed", 0, "refused: 422"),
    "no error beside an empty array": (message("OK"), "answered", 0, ""),
    "no error in small letters": (message("ok"), "answered", 0, ""),
    "no message beside an empty array": (message(""), "answered", 0, ""),
    "the message for unknown companies beside an empty array": (message("company not found"), "not_found", 0, ""),
    "answered stays answered": (
        [page(ACME, 0, 1), GIVEN_UP, ask([ACME], not_found(ACME)), ask([ACME]), page(ACME, 0, 2)], "answered", 1, "",
    ),
    "pages smaller than asked": ([page(ACME, offset, 3, limit=1) for offset in range(3)], "answered", 3, ""),
    "each page twice": ([page(ACME, offset, 7) for offset in (0, 0, 5, 5)], "answered", 7, ""),
    **{
        said: ([ask([ACME], not_found(ACME, message=said))], status, 0, "", CALLED)
        for said, status in {
            "No company BE/403227515 could be found": "not_found",
            "no company BE/0403227515 could be found": "not_found",
            "No company BE/0770493071 could be found": "pending",
            "No company NL/0403227515 could be found": "pending",
            "Internal error about company BE/0403227515": "pending",
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("landed", "status", "count", "reason", "names"), [(*row, NAMES)[:5] for row in LANDED.values()], ids=LANDED
)
def test_what_landed_adds_up(landed, status, count, reason, names):
    one = track(absorb(*landed, names=names))
    assert (one.status, one.misses if "status" in reason else 0) == (status, 0)
    assert sum(len(part.records["period"]) for part in one.parts) == one.next_offset == count
    assert reason in one.reason.text
    assert one.ended_at == (NOON + MINUTE if status == "failed" else None)


# --- pages -----------------------------------------------------------------------------------------------------------


def test_a_company_is_paid_for_with_its_first_page():
    later = page(ACME, 5, 12)
    progress = absorb(page(ACME, 0, 12), (header(offset=5, at=NOON + MINUTE), later[1]))
    assert (track(progress).first_at, track(progress).answered_at) == (NOON, NOON + MINUTE)


@pytest.mark.parametrize("cause", ["unreadable", "cut", "error"])
@pytest.mark.parametrize(
    ("charged", "free", "are_paid"), [(2, (), True), (1, (), False), (3, (), False), (2, (BOLT,), False)]
)
def test_companies_of_an_unreadable_answer_are_paid_for_if_each_was_charged(cause, charged, free, are_paid):
    """Fewer or more credits, or a company paid for before, leave open whose they are."""
    values = {
        "unreadable": {}, "cut": {"kind": "no_answer", "error": "broken: cut"}, "error": {"status": 500},
    }[cause]  # fmt: skip
    credits = {NAMES.credits_charged_header.lower(): str(charged)}
    garbage = header("financials", (ACME, BOLT), headers=credits, **values)
    progress = Progress(
        [("financials", (ACME, BOLT), [None, None]), ("lookalikes", (ACME,), [None])],
        NAMES,
        dict.fromkeys(free, NOON + MINUTE),
    )
    progress.absorb(garbage, b"<html>")
    assert {company for company in (ACME, BOLT) if progress.is_paid(company, NOON)} - set(free) == (
        {ACME, BOLT} if are_paid else set()
    )


def test_when_a_company_was_paid_for_does_not_depend_on_the_order_in_which_answers_are_absorbed():
    credits = {NAMES.credits_charged_header.lower(): "1"}
    garbage = header("financials", (ACME,), headers=credits), b"<html>"
    other = header("lookalikes", (ACME,), at=NOON + MINUTE), body(found(ACME, "lookalikes", lookalike()))
    for landed in [(garbage, other), (other, garbage)]:
        progress = absorb(*landed, companies=[ACME], datasets=["financials", "lookalikes"])
        assert track(progress).first_at == NOON


def test_a_service_that_ignores_the_offset_does_not_double_its_first_page():
    first = found(ACME, "financials", *[period(2000 + n) for n in range(5)], total=12, offset=0)
    progress = absorb(page(ACME, 0, 12), ask([ACME], first, offset=5))
    assert track(progress).status == "pending"
    assert "from 0 on, where those from 5 on" in track(progress).reason.text
    assert (held(progress), track(progress).remaining) == ([], 12), "one page may hold all"
    whole = found(ACME, "financials", *[period(2000 + n) for n in range(12)], offset=0)
    whole["pagination"]["limit"] = 12
    again = page(ACME, 0, 12), ask([ACME], first, offset=5)
    assert len(held(absorb(*again, ask([ACME], whole, limit=12)))) == 12
    progress = absorb(*again, *again, again[1], again[1])
    assert (track(progress).is_given_up, len(held(progress))) == (True, 5)


def test_when_the_total_changes_between_pages_the_company_is_read_anew():
    progress = absorb(page(ACME, 0, 12), page(ACME, 5, 13))
    assert (track(progress).next_offset, held(progress)) == (0, [])
    progress = absorb(page(ACME, 0, 12), page(ACME, 5, 13), *(page(ACME, offset, 13) for offset in (0, 5, 10)))
    assert track(progress).status == "answered"
    assert len(held(progress)) == 13
    assert track(absorb(*[page(ACME, 0, 12), page(ACME, 5, 13)] * 10)).is_given_up, "it always changes"


def test_a_company_that_disappears_between_pages_is_read_anew():
    gone = ask([ACME], not_found(ACME), offset=5)
    progress = absorb(page(ACME, 0, 12), gone)
    assert (track(progress).status, held(progress)) == ("pending", [])
    progress = absorb(page(ACME, 0, 12), gone, ask([ACME], not_found(ACME)))
    assert (track(progress).status, held(progress)) == ("not_found", [])
    assert absorb(*10 * [page(ACME, 0, 12), gone]).datasets["financials"][ACME].is_given_up


def test_fetching_keeps_no_records():
    progress = Progress([("financials", [ACME], [None])], NameSettings())
    progress.absorb(*page(ACME, 0, 3))
    assert track(progress).status == "answered"
    assert track(progress).parts == ()


# --- any history -----------------------------------------------------------------------------------------------------


@st.composite
def histories(draw):
    """What may land of some companies: for each a list of records in order, good and bad, and a mix of these."""
    own = []
    for company in EVERYBODY:
        total = draw(st.integers(0, 12))
        landed = []
        for offset in range(0, max(total, 1), 5):
            troubles = st.sampled_from(["error", "lost", "silent", "unusable", "restless"])
            landed += [_trouble(kind, company, offset, total) for kind in draw(st.lists(troubles, max_size=2))]
            landed.append(page(company, offset, total))
        if draw(st.booleans()):
            landed = landed[: draw(st.integers(0, len(landed)))]
            landed.append((header(companies=[company], kind="given_up", status=None, error="no more"), b""))
        own.append(landed)
    return own


def _trouble(kind, company, offset, total):
    return {
        "error": (header(companies=[company], status=500, offset=offset), b"{}"),
        "lost": (header(companies=[company], kind="no_answer", status=None, error="timeout: x", offset=offset), b""),
        "silent": ask([company], not_found(STRANGER), offset=offset),
        "unusable": (header(companies=[company], offset=offset), b"<html>"),
        "restless": page(company, 5, total + 1),
    }[kind]


def _mix(own, seed):
    """One after the other as chance has it, each company's in their own order."""
    chance, left = random.Random(seed), [list(landed) for landed in own if landed]
    while left:
        one = chance.choice(left)
        yield one.pop(0)
        left = [landed for landed in left if landed]


@examples(40)
@given(own=histories(), seed=st.integers())
def test_answers_about_different_companies_may_come_in_any_order(own, seed):
    in_turn = absorb(*(record for landed in own for record in landed))
    assert view(absorb(*_mix(own, seed))) == view(in_turn)


@examples(40)
@given(own=histories(), seed=st.integers())
def test_what_is_answered_is_complete(own, seed):
    progress = absorb(*_mix(own, seed))
    for company, _, one in progress.tracks():
        years = [int(raw[14:18]) for raw in held(progress, company)]
        assert years == list(range(2000, 2000 + len(years)))
        assert len(years) == one.next_offset
        if one.status == "answered":
            assert len(years) == one.total
