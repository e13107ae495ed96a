"""What is kept of an answer besides its body."""

import pytest

from firmlake.api.exchange import choose_headers, read_credits
from firmlake.core.settings import NameSettings


def test_only_headers_that_say_something_are_kept():
    headers = {
        "Content-Type": "application/json",
        "Set-Cookie": "session=1",
        "Authorization": "Bearer x",
        "X-Credits-Charged": "96",
        "RateLimit-Remaining": "3",
        "RateLimit": '"default";r=3;t=12',
        "X-RateLimit-Limit": "200",
        "Retry-After": "30",
        "Date": "now",
        "Server": "uvicorn",
        "X-Request-Id": "abc",
        "Location": "https://a.test/login?key=secret",
    }
    chosen = choose_headers(headers, NameSettings())
    assert chosen.keys() == {name.lower() for name in headers} - {"set-cookie", "authorization", "server"}
    assert chosen["location"] == "https://a.test/login"


def test_the_names_of_the_credits_headers_are_settings():
    """Headers that seem to tell credits are kept under any name, so that `check` finds what the settings should say."""
    names = NameSettings(credits_charged_header="X-Cost", credits_remaining_header="X-Left")
    headers = {"x-cost": "1", "x-left": "2", "x-credits-charged": "3", "x-quota-left": "4"}
    assert choose_headers({**headers, "x-price": "5"}, names) == headers


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("9,958.00", 9958),
        ("1,234,567", 1234567),
        ("10_000", 10000),
        ("12 345 credits", 12345),
        ("1000,00", 1000),
        ("1,5", 2),
        ("2, 2", 2),
        ("1,2,3", None),
        ("1.2.3", None),
        ("-5", None),
    ],
)
def test_credits_are_read_with_separators_or_not_at_all(text, count):
    """A balance of 9,958 read as 9 would make a run ask for nine companies at once. Repeated headers are joined."""
    assert read_credits(text) == count
