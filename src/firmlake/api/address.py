"""The service's address, checked before anything is sent to it."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit

from firmlake.core.errors import SettingsError

__all__ = ["Address", "read_address", "without_query"]


class Address(NamedTuple):
    """Where the service is.

    Attributes:
        url: Scheme, host, port and path prefix, without a slash at the end; a request's path is appended.
        host: For messages.
        is_loopback: It is on this machine.
    """

    url: str
    host: str
    is_loopback: bool


def read_address(base_url: str) -> Address:
    """Check `api.base_url`.

    Raises:
        SettingsError: It is no absolute http(s) address, holds more than an address, or would send the token
            unencrypted over a network. Nothing has been sent.

    Example:
        >>> read_address("https://api.example.com/companies/").url
        'https://api.example.com/companies'
    """
    try:
        parts = urlsplit(base_url.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise SettingsError("api.base_url is not an address", "Give one such as https://api.example.com") from None
    if parts.scheme not in ("http", "https") or not host:
        raise SettingsError("api.base_url is not an address", "Give one such as https://api.example.com")
    if parts.username is not None or parts.query or parts.fragment:
        # The address itself is not repeated: what is too much in it may be a secret.
        raise SettingsError(
            "api.base_url holds a user name, a query or a fragment", "Give scheme, host, port and path only"
        )
    is_loopback = _is_loopback(host)
    if parts.scheme == "http" and not is_loopback:
        raise SettingsError(
            f"api.base_url is http to {host}: the token would be readable on the way", "Give an https address"
        )
    shown = f"[{host}]" if ":" in host else host
    authority = shown if port is None else f"{shown}:{port}"
    return Address(f"{parts.scheme}://{authority}{parts.path.rstrip('/')}", shown, is_loopback)


def without_query(location: str) -> str:
    """Give the part of a redirect's target that holds no parameters, which may be secrets."""
    try:
        parts = urlsplit(location)
        host = f"{parts.scheme}://{parts.hostname}" if parts.hostname else ""
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
