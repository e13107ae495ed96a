"""Who made a list is personal data: it is replaced before an answer lands, so that no file of ours holds it.

The value alone is replaced; the rest of the answer lands byte for byte. What comes of the landed answers later needs
no key.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

import msgspec

from firmlake.api.contract import CREATED_BY
from firmlake.errors import SettingsError
from firmlake.files import write_file
from firmlake.run import Folders
from firmlake.settings import ListSettings

__all__ = ["concealer"]

_VALUE = re.compile(rb'("%b"\s*:\s*)"((?:[^"\\]|\\.)*+)(?:"|\\?\Z)' % CREATED_BY.encode(), re.DOTALL)
"""The field with its value, also where the answer was cut within it."""
_KEY_BYTES = 32
_HASH_DIGITS = 32


def concealer(settings: ListSettings, folders: Folders) -> Callable[[bytes], bytes]:
    """Give what replaces the makers' addresses in an answer, as the settings want it.

    A keyed hash (HMAC-SHA256, cut to 128 bits) is the same for one person in every answer, whatever the case of the
    address, and nobody can find it out from a list of addresses without the key. The key is made when it is first
    needed, readable by its owner alone.

    Raises:
        SettingsError: The key cannot be read or made.
    """
    if settings.created_by == "as_is":
        return lambda body: body
    if settings.created_by == "omit":
        return lambda body: _VALUE.sub(rb"\1null", body)
    key = _read_key(Path(settings.created_by_key_file or folders.state / "created_by.key"))
    return lambda body: _VALUE.sub(lambda found: found[1] + b'"' + _hash(key, found[2]) + b'"', body)


def _hash(key: bytes, text: bytes) -> bytes:
    try:
        address = msgspec.json.decode(b'"' + text + b'"', type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        address = text.decode("utf-8", "replace")
    return hmac.new(key, address.strip().casefold().encode(), "sha256").hexdigest()[:_HASH_DIGITS].encode()


def _read_key(path: Path) -> bytes:
    try:
        if not path.exists():
            write_file(path, _make_key)
        key = path.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"The key file {path}: {error.strerror}", "Correct lists.created_by_key_file") from None
    if len(key) < _KEY_BYTES:
        raise SettingsError(f"The key file {path} holds less than {_KEY_BYTES} characters", "Restore it from a copy")
    return key


def _make_key(path: Path) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{secrets.token_hex(_KEY_BYTES)}\n")
