"""Who made a list is personal data: it is replaced before an answer lands, so that no file of ours holds it.

The value alone is replaced, whatever its shape; the rest of the answer lands byte for byte. Where there are addresses
left anywhere but in the names of lists, or the answer cannot be read, all that looks like one is replaced as well. What
comes of the landed answers later needs no key.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from firmlake.api.contract import CREATED_BY, LIST_NAME
from firmlake.errors import SettingsError
from firmlake.files import write_file
from firmlake.run import Folders
from firmlake.settings import ListSettings

__all__ = ["concealer"]

_FIELD = re.compile(rb'"%b"\s*:\s*' % CREATED_BY.encode())
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{\[]|[}\]]|[^\s"{}\[\],:]+', re.DOTALL)
"""A text, also where the answer was cut within it; a bracket; or anything else that is a value."""
_LETTER = rb"(?:[^\s\"\\@<>(),;:\[\]{}]|\\u(?!0040)[0-9a-fA-F]{4})"
_ADDRESS = re.compile(rb"((?:\\[^u])?)(%b{1,320}+(?:@|\\u0040)%b{1,320}+)" % (_LETTER, _LETTER))
"""What looks like an e-mail address inside of JSON, and an escape before it, which is none of it."""
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
        return partial(_conceal, in_field=lambda value: b"null", elsewhere=lambda address: b"omitted")
    key = _read_key(Path(settings.created_by_key_file or folders.state / "created_by.key"))
    return partial(
        _conceal,
        in_field=lambda value: b'"%b"' % _hash(key, value),
        elsewhere=lambda address: _hash(key, b'"%b"' % address),
    )


def _conceal(body: bytes, in_field: Callable[[bytes], bytes], elsewhere: Callable[[bytes], bytes]) -> bytes:
    parts, position = [], 0
    for found in _FIELD.finditer(body):
        if found.start() >= position:
            end = _value_end(body, found.end())
            value = body[found.end() : end]
            parts += [body[position : found.end()], value if value in (b"", b"null") else in_field(value)]
            position = end
    concealed = b"".join([*parts, body[position:]])
    if not _may_name_others(concealed):
        return concealed
    return _ADDRESS.sub(lambda found: found[1] + elsewhere(found[2]), concealed)


def _value_end(body: bytes, start: int) -> int:
    """Find where a JSON value ends; the end of an answer that was cut within it."""
    depth = 0
    for token in _TOKEN.finditer(body, start):
        depth += (token[0] in (b"{", b"[")) - (token[0] in (b"}", b"]"))
        if depth <= 0:
            return token.end() if depth == 0 else token.start()
    return len(body)


def _may_name_others(body: bytes) -> bool:
    """Tell whether an answer has addresses anywhere but in the names of lists, or cannot be read."""
    try:
        page = msgspec.json.decode(body, type=dict[str, Any])
        lists = [{**one, LIST_NAME: None} for one in page["data"]]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return True
    return _ADDRESS.search(msgspec.json.encode({**page, "data": lists})) is not None


def _hash(key: bytes, value: bytes) -> bytes:
    try:
        text = msgspec.json.decode(value, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = value.decode("utf-8", "replace")
    return hmac.new(key, text.strip().casefold().encode(), "sha256").hexdigest()[:_HASH_DIGITS].encode()


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
