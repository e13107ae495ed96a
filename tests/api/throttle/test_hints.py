"""How long to wait and how much is allowed, from headers that may hold anything."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.api.throttle.window import Allowance, read_allowance, read_wait

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
DATE = "Thu, 01 Jan 2026 13:00:00 GMT"  # the service's clock is an hour ahead of ours


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "30"}, 30),
        ({"retry-after": " 30 "}, 30),
        ({"retry-after": "Thu, 01 Jan 2026 12:02:00 GMT"}, 120),
        ({"retry-after": "Thu, 01 Jan 2026 13:02:00 GMT", "date": DATE}, 120),
        ({"retry-after": "7200"}, 7200),
        ({"retry-after": "2", "ratelimit-reset": "60"}, 2),
        ({"ratelimit-reset": "12"}, 12),
        ({"ratelimit": '"default";r=0;t=12'}, 12),
        ({"x-ratelimit-reset": "1767272460", "date": DATE}, 60),
        ({"x-ratelimit-reset": "1767268860"}, 60),
    ],
)
def test_a_wait_is_read_in_all_its_forms(headers, seconds):
    assert read_wait(headers, NOW) == seconds


NONSENSE = ("", "soon", "-5", "0", "1e3", "nan", "inf", "Thu, 01 Jan 2026 11:00:00 GMT", "99 Foo 2026", "9" * 11, "٣")


@pytest.mark.parametrize("value", NONSENSE)
def test_nonsense_is_as_if_it_were_not_there(value):
    assert read_wait({"retry-after": value}, NOW) is None
    assert read_wait({"retry-after": value, "date": value, "ratelimit-reset": value}, NOW) is None


def policy(text, state=""):
    return {"ratelimit-policy": text, "ratelimit": state}


@pytest.mark.parametrize(
    ("headers", "allowance"),
    [
        ({}, Allowance(None, None, None)),
        ({"ratelimit-limit": "100", "ratelimit-remaining": "3", "ratelimit-reset": "58"}, Allowance(100, 3, 58)),
        ({"x-ratelimit-limit": "60", "x-ratelimit-remaining": "3", "x-ratelimit-reset": "9"}, Allowance(360, 3, 9)),
        ({"x-ratelimit-limit": "100", "x-ratelimit-remaining": "3"}, Allowance(100, 3, None)),
        ({"ratelimit-limit": "100, 100;w=60, 50;w=300, 600;w=3600"}, Allowance(10, None, None)),
        ({"ratelimit-limit": "10, 10;w=1, 1000;w=3600"}, Allowance(600, None, None)),
        ({"ratelimit": "limit=100, remaining=3, reset=42"}, Allowance(100, 3, 42)),
        (policy('"burst";q=10;w=1,"steady";q=100;w=60', '"steady";r=3;t=12'), Allowance(100, 3, 12)),
        (
            policy('"minute";q=60;w=60, "day";q=9000;w=86400', '"minute";r=0;t=20, "day";r=8000;t=36000'),
            Allowance(60, 0, 20),
        ),
        (policy('"bytes";q=9;w=1;qu="content-bytes", "default";q=100;w=60;qu="requests"'), Allowance(100, None, None)),
        (policy('"day";q=5000;w=86400'), Allowance(None, None, None)),
        ({"x-ratelimit-limit": "5000", "x-ratelimit-reset": "1800"}, Allowance(None, None, 1800)),
        ({"ratelimit-limit": "0", "ratelimit-remaining": "many"}, Allowance(None, None, None)),
    ],
)
def test_a_rate_limit_is_read_in_three_spellings_and_converted_to_a_minute(headers, allowance):
    assert read_allowance(headers, NOW) == allowance


HEADERS = ("retry-after", "date", "ratelimit", "ratelimit-limit", "ratelimit-policy", "x-ratelimit-reset")


@given(st.dictionaries(st.sampled_from(HEADERS), st.text(max_size=60)))
def test_no_header_is_too_strange(headers):
    seconds, allowance = read_wait(headers, NOW), read_allowance(headers, NOW)
    assert seconds is None or 0 < seconds <= 31 * 86_400
    assert allowance.requests_per_minute is None or allowance.requests_per_minute > 0
