"""The token: read from the environment or a file, never displayed, and sent to a safe address only."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from firmlake.core.errors import SettingsError
from firmlake.core.text import keep_secret

TOKEN = "FIRMLAKE_API_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE = "FIRMLAKE_API_TOKEN_FILE"  # noqa: S105

_SENDABLE = re.compile(r"[\x21-\x7e]{1,8192}")
"""Visible ASCII without spaces: the characters that RFC 6750 allows in a bearer token, and a few more."""


class Token:
    """A bearer token that `repr`, `str`, tracebacks with locals and pickles do not reveal.

    Creating one registers it with `core.text`, which removes it from bodies, headers, messages and logs. It may change
    during the run if it was read from a file. `version` counts the tokens seen, so that a caller knows whether a
    request was refused with an older token.
    """

    __slots__ = ("_file", "_secret", "version")

    def __init__(self, secret: str, file: Path | None = None) -> None:
        self._secret = _checked(secret, str(file) if file else TOKEN)
        keep_secret(self._secret)
        self._file = file
        self.version = 1

    def __repr__(self) -> str:
        return f"<Token from {self._file or TOKEN}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process reads the token itself: a pickle may end up in a file or in Prefect's database.
        return read_token, ()

    def header(self) -> str:
        """Return the value of the Authorization header; the secret leaves this object in no other way."""
        return f"Bearer {self._secret}"

    def reread(self) -> int:
        """Read the file again, in case the token was replaced during the run.

        Return the version, one higher if the token changed.

        A file that cannot be used changes nothing.
        """
        if self._file is not None:
            with contextlib.suppress(SettingsError):
                secret = _read(self._file)
                if secret != self._secret:
                    keep_secret(secret)
                    self._secret = secret
                    self.version += 1
        return self.version

    def key_hash(self, service: str) -> str:
        """Return an identifier of this token at this service that does not reveal the token: 32 hex digits."""
        return hashlib.sha256(f"{service}\0{self._secret}".encode()).hexdigest()[:32]


def read_token(environment: Mapping[str, str] | None = None) -> Token:
    """Read the token from FIRMLAKE_API_TOKEN or from the file named in FIRMLAKE_API_TOKEN_FILE; empty counts as unset.

    Raises:
        SettingsError: Neither or both variables are set, or the token cannot be read or sent. The message names the
            variable or file, never its content.
    """
    environment = os.environ if environment is None else environment
    secret, file = environment.get(TOKEN, ""), environment.get(TOKEN_FILE, "")
    if secret and file:
        raise SettingsError(f"Both {TOKEN} and {TOKEN_FILE} are set", "Unset one of them")
    if file and not file.startswith(("/", ".")) and not os.path.exists(file):  # noqa: PTH110 - a token may be too long for a path
        raise SettingsError(
            f"{TOKEN_FILE} names no file; its value is not shown, because it may be the token itself",
            f"Name the file that holds the token, or put the token into {TOKEN}",
        )
    if file:
        return Token(_read(Path(file)), Path(file))
    if secret:
        return Token(secret.strip())
    raise SettingsError("There is no token", f"Put it into {TOKEN}, or set {TOKEN_FILE} to a file that holds it")


def is_token_file(path: Path) -> bool:
    """Tell whether an existing file is the one named in FIRMLAKE_API_TOKEN_FILE."""
    with contextlib.suppress(OSError, ValueError):
        return path.samefile(os.environ[TOKEN_FILE]) if os.environ.get(TOKEN_FILE) else False
    return False


class Address(NamedTuple):
    """The address of the service."""

    url: str  # scheme, host, port and path prefix without a trailing slash; the path of a request is appended
    host: str  # for messages
    is_loopback: bool  # whether the service runs on this machine


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


def _read(file: Path) -> str:
    try:
        lines = file.read_bytes().decode("ascii").strip().splitlines()
    except OSError as error:
        raise SettingsError(f"The token file {file}: {error.strerror}", f"Correct {TOKEN_FILE}") from None
    except UnicodeDecodeError:
        lines = ["\0"]
    if len(lines) != 1:
        found = "more than one line" if lines else "nothing"
        raise SettingsError(f"The token file {file} holds {found}", "Put the token there, on one line")
    return _checked(lines[0], str(file))


def _checked(secret: str, source: str) -> str:
    if not _SENDABLE.fullmatch(secret):
        raise SettingsError(
            f"The token in {source} holds characters that no token has (spaces, typographic quotes, controls)",
            'Give the bare token, without "Bearer"',
        )
    return secret


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
