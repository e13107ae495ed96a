"""The service's address, validated before any request is sent."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit

from firmlake.core.errors import SettingsError


class Address(NamedTuple):
    """The address of the service.

    Attributes:
        url: Scheme, host, port and path prefix without a trailing slash; the path of a request is appended.
        host: The host, for messages.
        is_loopback: Whether the service runs on this machine.
    """

    url: str
    host: str
    is_loopback: bool


def read_address(base_url: str) -> Address:
    """Parse and check `api.base_url`.

    Raises:
        SettingsError: The text is not an absolute http(s) address, contains a user name, query or fragment, or would
            send the token unencrypted over a network. Correct the setting; nothing has been sent.

    Example:
        >>> read_address("https://api.example.com/companies/").url
        'https://api.example.com/companies'
    """
    try:
        parts = urlsplit(base_url.strip())
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:
        raise SettingsError("api.base_url is not an address", "Give one such as https://api.example.com") from None
    if parts.scheme not in ("http", "https") or not host:
        raise SettingsError("api.base_url is not an address", "Give one such as https://api.example.com")
    if parts.username is not None or parts.query or parts.fragment:
        # The message does not repeat the address, because the extra parts may be secrets.
        raise SettingsError(
            "api.base_url holds a user name, a query or a fragment", "Give scheme, host, port and path only"
        )
    is_loopback = _is_loopback(host)
    if parts.scheme == "http" and not is_loopback:
        raise SettingsError(
            f"api.base_url is http to {host}: the token would be sent unencrypted", "Give an https address"
        )
    shown = f"[{host}]" if ":" in host else host
    authority = shown if port is None else f"{shown}:{port}"
    return Address(f"{parts.scheme}://{authority}{parts.path.rstrip('/')}", shown, is_loopback)


def without_query(location: str) -> str:
    """Return a redirect's target without user and parameters, which may be secrets."""
    try:
        parts = urlsplit(location)
        host = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.hostname else ""
    except ValueError:
        return "an address that cannot be read"
    return host + parts.path


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
