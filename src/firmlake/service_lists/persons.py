"""Replace the maker of a list, which is personal data, before an answer lands.

Only the value is replaced, whatever its shape. If addresses remain anywhere except in list names, everything that
looks like an address is replaced too. If a list lacks the field, the service may have renamed it. Then all texts whose
unknown key suggests a person are replaced, because a renamed field would otherwise land addresses. An answer that was
cut off is emptied. The landed answers can be read without the secret key.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from firmlake.api.contract import CREATED_BY, LIST_NAME, ListEntry
from firmlake.core.folders import Folders
from firmlake.core.settings import ListSettings
from firmlake.privacy.document import Number, Object, Place, looks_like_json, read, rewrite, write
from firmlake.privacy.key import read_key
from firmlake.privacy.persons import speaks_of_person, words_of

_ADDRESS = re.compile(r"[^\s\"\\@<>(),;:\[\]{}]{1,320}+@[^\s\"\\@<>(),;:\[\]{}]{1,320}+")
_KNOWN = {field.encode_name for field in msgspec.structs.fields(ListEntry)}
_HASH_DIGITS = 32

Conceal = Callable[[Any], str | None]
"""What takes the place of a value that names a person; None for null."""


def concealer(settings: ListSettings, folders: Folders) -> Callable[[bytes], bytes]:
    """Return a function that replaces the makers' addresses in an answer, as set by `lists.created_by`.

    The keyed hash (HMAC-SHA256, cut to 128 bits) of a person is the same in every answer, whatever the case of the
    address. Without the key, nobody can compare it with a list of addresses. The key is created when first needed,
    readable only by its owner.

    Raises:
        SettingsError: The key cannot be read or made.
    """
    if settings.created_by == "as_is":
        return lambda body: body
    if settings.created_by == "omit":
        return partial(_conceal, conceal=lambda value: None)
    key = read_key(Path(settings.created_by_key_file or folders.state / "created_by.key"), "lists.created_by_key_file")
    return partial(_conceal, conceal=partial(_hash, key))


def _conceal(body: bytes, conceal: Conceal) -> bytes:
    try:
        page = read(body)
    except ValueError:
        return b"" if looks_like_json(body) else _without_addresses(body.decode("latin-1"), conceal).encode("latin-1")
    lists = _lists_of(page)
    concealed = rewrite(page, partial(_conceal_maker, conceal=conceal))
    has_addresses = lists is None or _has_address_beside_names(concealed)
    if lists is None or any(CREATED_BY not in dict(entry) for entry in lists):
        concealed = rewrite(concealed, partial(_conceal_person, conceal=conceal))
    if has_addresses:
        concealed = rewrite(concealed, partial(_conceal_addresses, conceal=conceal))
    return body if concealed == page else write(concealed)


def _conceal_maker(place: Place, conceal: Conceal) -> Any:
    return conceal(place.value) if place.key == CREATED_BY and place.value is not None else place.value


def _conceal_person(place: Place, conceal: Conceal) -> Any:
    is_text = isinstance(place.value, str) and not isinstance(place.value, Number)
    return conceal(place.value) if is_text and _is_about_person(place) else place.value


def _lists_of(page: Any) -> list[Object] | None:
    lists = page.get("data") if isinstance(page, Object) else None
    return lists if isinstance(lists, list) and all(isinstance(entry, Object) for entry in lists) else None


def _has_address_beside_names(page: Any) -> bool:
    found: list[Place] = []

    def look(place: Place) -> Any:
        is_name = place.key == LIST_NAME and place.outer and place.outer.outer and place.outer.outer.key == "data"
        if not is_name and _texts_of(place.value) and _ADDRESS.search(_texts_of(place.value)):
            found.append(place)
        return place.value

    rewrite(page, look)
    return bool(found)


def _texts_of(value: Any) -> str:
    """Return a text, or the keys of an object."""
    if isinstance(value, Object):
        return "\n".join(key for key, _ in value)
    return value if isinstance(value, str) else ""


def _conceal_addresses(place: Place, conceal: Conceal) -> Any:
    if isinstance(place.value, Object):
        return Object((_without_addresses(key, conceal), item) for key, item in place.value)
    is_text = isinstance(place.value, str) and not isinstance(place.value, Number)
    return _without_addresses(place.value, conceal) if is_text else place.value


def _without_addresses(text: str, conceal: Conceal) -> str:
    return _ADDRESS.sub(lambda found: conceal(found[0]) or "omitted", text)


def _is_about_person(place: Place) -> bool:
    """Return whether an unknown key suggests a person, or the text is a name inside an unknown object of a list."""
    keys = place.keys[::-1]
    unknown = [key for key in keys if key not in _KNOWN]
    if any(speaks_of_person(key, even_by_id=True) for key in unknown):
        return True
    return keys[:1] == ["data"] and "name" in words_of(keys[-1]) and any(key in unknown for key in keys[1:-1])


def _hash(key: bytes, value: Any) -> str:
    text = value if isinstance(value, str) else write(value).decode("utf-8", "replace")
    content = text.strip().casefold().encode("utf-8", "surrogatepass")
    return hmac.new(key, content, "sha256").hexdigest()[:_HASH_DIGITS]
