"""What an answer loses before it lands: names of persons, as `privacy.persons` says, and forgotten subjects.

A related party with a name but no company number counts as a person. So does a text whose unknown key suggests a
person. Structures, stakes and counts do not change, and an answer that names nobody lands byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from firmlake.core.company import company_in
from firmlake.core.folders import Folders
from firmlake.core.settings import ContractSettings, ListSettings, PrivacySettings
from firmlake.core.text import plain_key
from firmlake.privacy.cleaning import IDENTIFIERS, PARTIES, clean_json, identity, is_parties
from firmlake.privacy.document import Number, Object, Place, edit, looks_like_json, objects_in, write
from firmlake.privacy.forgotten import open_forgotten
from firmlake.privacy.tombstones import key_path, keyed_hash, person_hash, read_key
from firmlake.privacy.words import name_words

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_OF_PERSONS = {
    "author", "beneficiary", "bestuurder", "birth", "birthday", "birthdate", "by", "contact", "creator", "director",
    "dirigeant", "editor", "email", "firstname", "gerant", "lastname", "mail", "maker", "manager", "mobile", "officer",
    "owner", "person", "persoon", "personne", "phone", "representative", "surname", "telephone", "ubo", "user",
    "username", "zaakvoerder",
}  # fmt: skip
_OF_OTHERS = {"count", "filter", "group", "kind", "language", "order", "role", "sort", "status", "type"}
_IDS = {"company", "id"}
"""Words of keys: `createdByV2` and `list_owner` suggest a person; `sortBy` and `ownerType` do not."""
_KEYS = re.compile(rb'"((?:[^"\\]|\\.)*+")\s*:', re.DOTALL)
_RUN_TOGETHER = re.compile(r"(?:added|created|edited|made|modified|owned|updated)by")
_KNOWN = {"identifier", "data", "pagination", "message", "function", "percentage", "parents", "children"}

Mask = Callable[[Any], str | None]
"""What takes the place of a value that names a person; None for null."""
_ADDRESS = re.compile(r"[^\s\"\\@<>(),;:\[\]{}]{1,320}+@[^\s\"\\@<>(),;:\[\]{}]{1,320}+")


def answer_filter(settings: PrivacySettings, folders: Folders, contract: ContractSettings) -> Callable[[bytes], bytes]:
    """Return a function that masks persons and removes forgotten subjects in an answer before it lands.

    Names are also looked for under the keys that `contract.rename` gives.
    """
    forgotten, masked = open_forgotten(settings, folders), mask(settings, folders)
    renamed = frozenset(
        theirs.rpartition(".")[2] for theirs, ours in contract.rename.items() if ours.rpartition(".")[2] == "name"
    )

    def clean(body: bytes) -> bytes:
        if forgotten:
            body = clean_json(body, forgotten)
        return _mask_persons(body, masked, renamed) if masked else body

    return clean


def mask(settings: PrivacySettings, folders: Folders) -> Mask | None:
    """Return what replaces a person's name; None if names are kept.

    A hash is the same for all spellings of a name and in every answer, so that groups of companies stay visible.
    """
    if settings.persons == "keep":
        return None
    if settings.persons == "drop":
        return lambda name: None
    key = read_key(key_path(settings, folders), "privacy.key_file", is_new=not folders.tombstones.exists())
    return lambda name: f"person-{person_hash(key, name_words(name) or (name.strip(),))}"


@lru_cache(maxsize=4096)
def speaks_of_person(key: str, *, even_by_id: bool = False) -> bool:
    """Tell whether the name of a field suggests that its value is about a person; a mere id counts `even_by_id` only.

    Example:
        >>> [speaks_of_person(key) for key in ("createdByV2", "sortBy", "director", "ownerType")]
        [True, False, True, False]
    """
    words = words_of(key)
    of_others = _OF_OTHERS if even_by_id else _OF_OTHERS | _IDS
    return bool(words & _OF_PERSONS and not words & of_others) or _RUN_TOGETHER.search(key.lower()) is not None


def words_of(key: str) -> set[str]:
    """Return the words of a key in lower case, those in the plural also without their s."""
    words = {word.lower() for word in _WORD.findall(key)}
    return words | {word.removesuffix("s") for word in words}


def _mask_persons(body: bytes, masked: Mask, renamed: frozenset[str]) -> bytes:
    """Mask the names of persons in an answer; one that was cut off and may hold some is emptied."""
    keys = {_read_key(key) for key in set(_KEYS.findall(body))}
    unknown = {key for key in keys if plain_key(key) not in _KNOWN}
    if not (set(map(plain_key, keys)) & set(PARTIES) or any(map(speaks_of_person, unknown))):
        return body

    def change(place: Place) -> Any:
        text = place.value
        is_text = isinstance(text, str) and not isinstance(text, Number) and text.strip() != ""
        return masked(text) if is_text and (_has_person_key(place) or _is_name_of_party(place, renamed)) else text

    return edit(body, change)


def _read_key(key: bytes) -> str:
    try:
        return str(json.loads(b'"' + key, strict=False))
    except ValueError:
        return key.decode("utf-8", "replace")


def _has_person_key(place: Place) -> bool:
    """Tell whether any unknown key on the path to a text suggests a person."""
    return any(speaks_of_person(key) for key in place.keys if plain_key(key) not in _KNOWN)


def _is_name_of_party(place: Place, renamed: frozenset[str]) -> bool:
    """Tell whether a text is the name of a related party whose record holds no company number."""
    if "name" not in words_of(place.key or "") and place.key not in renamed:
        return False
    parties = (each.value for each in place.outwards() if each.outer is not None and is_parties(each.outer))
    party = next(parties, None)
    if party is None or any(map(identity, objects_in(party))):
        return False
    pairs = (pair for each in objects_in(party) for pair in each)
    texts = (item for key, item in pairs if plain_key(key) in IDENTIFIERS and isinstance(item, str))
    return not any(map(company_in, texts))


def concealer(settings: ListSettings, folders: Folders, known: Collection[str]) -> Callable[[bytes], bytes]:
    """Return a function that conceals who made a list of the service in an answer, as set by `lists.created_by`.

    Makers and e-mail addresses are concealed, and persons in fields whose keys are not `known`, unless the list names
    its maker. The keyed hash (HMAC-SHA256, cut to 128 bits) of a person is the same in every answer, whatever the case
    of the address. Without the key, nobody can compare it with a list of addresses. The key is created when first
    needed, readable only by its owner.
    """
    if settings.created_by == "as_is":
        return lambda body: body
    if settings.created_by == "omit":
        conceal: Mask = lambda value: None  # noqa: E731
    else:
        path = Path(settings.created_by_key_file or folders.state / "created_by.key")
        conceal = partial(_hash, read_key(path, "lists.created_by_key_file"))
    change = partial(_conceal, conceal=conceal, known=known)

    def clean(body: bytes) -> bytes:
        if looks_like_json(body):
            return edit(body, change)
        return _without_addresses(body.decode("latin-1"), conceal).encode("latin-1")

    return clean


def _hash(key: bytes, value: Any) -> str:
    text = value if isinstance(value, str) else write(value).decode("utf-8", "replace")
    return keyed_hash(key, text.strip().casefold())


def _conceal(place: Place, conceal: Mask, known: Collection[str]) -> Any:
    value = place.value
    if place.key == "createdBy" and value is not None:
        return conceal(value)
    if isinstance(value, Object):
        return Object((_without_addresses(key, conceal), item) for key, item in value)
    if not isinstance(value, str) or isinstance(value, Number):
        return value
    around = (outer.value for outer in place.outwards())
    if any(isinstance(each, Object) and "createdBy" in dict(each) for each in around):
        return value if place.keys == ["name", "data"] else _without_addresses(value, conceal)
    return conceal(value) if _is_about_person(place, known) else _without_addresses(value, conceal)


def _without_addresses(text: str, conceal: Mask) -> str:
    return _ADDRESS.sub(lambda found: conceal(found[0]) or "omitted", text)


def _is_about_person(place: Place, known: Collection[str]) -> bool:
    """Return whether an unknown key suggests a person, or the text is a name inside an unknown object of a list."""
    keys = place.keys[::-1]
    unknown = [key for key in keys if key not in known]
    if any(speaks_of_person(key, even_by_id=True) for key in unknown):
        return True
    return keys[:1] == ["data"] and "name" in words_of(keys[-1]) and any(key in unknown for key in keys[1:-1])
