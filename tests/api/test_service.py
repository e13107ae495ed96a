"""Which service a data folder belongs to."""

import pytest

from firmlake.api.service import check_access, check_service, service_name, stamp_service
from firmlake.core.errors import SettingsError
from firmlake.core.settings import ApiSettings, Settings


def settings(base_url, service_name=""):
    return Settings(api=ApiSettings(base_url=base_url, service_name=service_name))


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("sandbox", "embedded"),
        ("https://gw.example.com/prod", "https://gw.example.com/prod"),
        ("https://GW.Example.com:443/prod/", "https://gw.example.com/prod"),
        ("https://gw.example.com:8443", "https://gw.example.com:8443"),
        ("http://127.0.0.1:4711/a", "http://127.0.0.1:4711/a"),
        ("http://[::1]:80", "http://[::1]"),
    ],
)
def test_a_service_is_named_by_scheme_host_port_and_path(base_url, name):
    assert service_name(settings(base_url)) == name


def test_an_address_with_the_version_that_paths_begin_with_is_refused(monkeypatch):
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", "token")
    for right in ("https://gw.example.com/v2", "https://gw.example.com/v1/prod", "https://gw.example.com/company-v1"):
        check_access(settings(right))
    with pytest.raises(SettingsError, match="ends in /v1, which firmlake adds itself") as caught:
        check_access(settings("https://gw.example.com/prod/v1/"))
    assert "/prod/v1/v1/companies/financials" in caught.value.message


PAIRS = [
    ("https://gw.example.com/prod", "https://gw.example.com/staging"),
    ("sandbox", "http://127.0.0.1:4711"),
    ("http://127.0.0.1:4711", "http://127.0.0.1:4712"),
    ("http://localhost:4711", "https://localhost:4711"),
]


@pytest.mark.parametrize(("held", "asked"), PAIRS + [(b, a) for a, b in PAIRS])
def test_a_folder_of_another_service_is_refused_with_the_way_out(folders, held, asked):
    stamp_service(settings(held), folders)
    with pytest.raises(SettingsError, match=r"holds the answers of") as caught:
        check_service(settings(asked), folders)
    way_out = f'api.service_name = "{service_name(settings(held))}"'
    assert (way_out in caught.value.next_step) == (
        "sandbox" not in (held, asked)
    )  # made-up figures never mix with real ones
    check_service(settings(asked, service_name(settings(held))), folders)


def test_a_tunnel_whose_port_changes_has_a_name(folders):
    stamp_service(settings("http://127.0.0.1:4711", "production"), folders)
    check_service(settings("http://127.0.0.1:4712", "production"), folders)
    with pytest.raises(SettingsError, match="production"):
        check_service(settings("http://127.0.0.1:4712"), folders)
