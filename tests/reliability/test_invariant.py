"""Whatever goes wrong in whichever order: asked = landed + given up + waiting, each company exactly once."""

from __future__ import annotations

import itertools

import hypothesis
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from firmlake.landing.segments import GIVEN_UP
from support import lose_patience

from .support import assert_accounted, faults

COUNT = 40
_when = st.fixed_dictionaries(
    {},
    optional={
        "endpoint": st.sampled_from(["financials", "lookalikes", "relationships"]),
        "times": st.integers(1, 6),
        "nth": st.lists(st.integers(1, 12), min_size=1, max_size=4),
        "probability": st.sampled_from([0.05, 0.2, 0.5]),
        "seed": st.integers(0, 9),
    },
)
_what = st.one_of(
    st.builds(lambda status: {"kind": "status", "status": status}, st.sampled_from([429, 500, 502, 503])),
    st.sampled_from([{"kind": kind} for kind in ("reset", "lose", "reset_body", "truncate")]),
    st.builds(
        lambda body: {"kind": "wrong_body", "body": body}, st.sampled_from(["cut", "html", "empty", "null", "error"])
    ),
    st.builds(
        lambda anomaly, count: {"kind": "elements", "anomaly": anomaly, "count": count},
        st.sampled_from(["missing", "doubled", "contradictory", "foreign", "reordered", "message"]),
        st.integers(0, 5),
    ),
    st.builds(lambda by: {"kind": "totals", "by": by}, st.sampled_from([-1, 1])),
    st.builds(lambda limit, silent: {"kind": "small_pages", "limit": limit, "is_silent": silent},
              st.integers(1, 4), st.booleans()),
    st.builds(lambda balance: {"kind": "exhaust_credits", "balance": balance}, st.integers(0, 30)),
)  # fmt: skip
_script = st.lists(st.builds(lambda what, when: _bounded({**when, **what}), _what, _when), min_size=1, max_size=4)


def _bounded(rule):
    """A service that answers nothing but 429 is asked for 15 minutes, which is too long for here."""
    return rule | {"times": 6} if rule.get("status") == 429 else rule


@pytest.mark.parametrize(
    "examples",
    [
        pytest.param(2, id="slice", marks=pytest.mark.reliability),
        pytest.param(150, id="full", marks=[pytest.mark.reliability, pytest.mark.timeout(900)]),
    ],
)
def test_every_company_is_in_exactly_one_status_and_a_calm_run_afterwards_heals_all(
    examples, sandbox, make_lake, undisturbed, monkeypatch
):
    lose_patience(monkeypatch)
    expected = undisturbed(COUNT)
    number = itertools.count()

    @hypothesis.settings(
        max_examples=examples, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck), phases=[hypothesis.Phase.generate],
    )  # fmt: skip
    @given(_script)
    def holds(script):
        sandbox.reset()
        sandbox.set_options(credits=1001)
        lake = make_lake(COUNT, f"lake-{next(number)}")
        with faults(sandbox, *script):
            result = lake.run()
        assert result.code in (0, 1, 3, 4), result.err
        assert "Traceback" not in result.err
        if result.code != 1:
            assert_accounted(result.content)
            statuses = lake.query("SELECT status, count(*) FROM company_state GROUP BY ALL")
            assert sum(count for _, count in statuses) == 3 * COUNT
            letters = lake.query("SELECT count(*) FROM dead_letters")[0][0]
            assert letters == sum(count for status, count in statuses if status in GIVEN_UP.values())
        sandbox.set_options(credits=1000)
        assert lake.run().code == 0
        assert lake.content() == expected.content
        ledger = lake.ledger()
        assert (ledger["companies_charged_again"], ledger["credits_charged"]) == (0, expected.charged)

    holds()
