"""Which addresses a token may be sent to."""

import pytest

from firmlake.api.authorization import read_address
from firmlake.api.exchange import without_query
from firmlake.core.errors import SettingsError


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://api.example.com", "https://api.example.com"),
        ("https://api.example.com/", "https://api.example.com"),
        (" https://API.example.com:8443/gateway/companies/ ", "https://api.example.com:8443/gateway/companies"),
        ("https://[2001:db8::1]/x", "https://[2001:db8::1]/x"),
    ],
)
def test_a_prefix_is_kept_and_a_last_slash_is_not(base_url, url):
    assert read_address(base_url).url == url


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "[::1]", "localhost", "sandbox.localhost"])
def test_plain_http_is_for_this_machine(host):
    address = read_address(f"http://{host}:8000")
    assert (address.url, address.is_loopback) == (f"http://{host}:8000", True)


@pytest.mark.parametrize(
    "base_url", ["http://api.example.com", "http://10.0.0.1", "http://0.0.0.0", "http://127.0.0.1.example.com"]
)
def test_elsewhere_a_token_needs_encryption(base_url):
    with pytest.raises(SettingsError, match="sent unencrypted"):
        read_address(base_url)


@pytest.mark.parametrize(
    "base_url",
    ["", "sandbox", "api.example.com", "ftp://api.example.com", "https://", "https:///v1", "https://a:b:c", "//a.test"],
)
def test_what_is_no_address_is_refused_with_an_example(base_url):
    with pytest.raises(SettingsError, match=r"https://api\.example\.com"):
        read_address(base_url)


@pytest.mark.parametrize(
    "base_url", ["https://me:pa55word@a.test", "https://a.test?key=pa55word", "https://a.test#pa55word"]
)
def test_secrets_in_an_address_are_refused_and_not_repeated(base_url):
    with pytest.raises(SettingsError) as caught:
        read_address(base_url)
    assert "pa55word" not in str(caught.value)


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("http://user:secret@a.test:8080/v2/?token=x", "http://a.test:8080/v2/"),
        ("https://a.test:1/login?token=x#y", "https://a.test:1/login"),
        ("/login?x", "/login"),
        ("//b.test/c", "://b.test/c"),
        ("https://[", "an address that cannot be read"),
    ],
)
def test_of_a_redirect_only_host_port_and_path_are_shown(location, shown):
    assert without_query(location) == shown
