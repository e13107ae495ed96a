"""What an answer loses before it lands: names of persons, as `privacy.persons` says, and forgotten subjects.

A related party with a name but no company number counts as a person. So does a text whose unknown key suggests a
person. The rest of the answer lands byte for byte, so structures, stakes and counts do not change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from firmlake.core.folders import Folders
from firmlake.core.settings import PrivacySettings
from firmlake.privacy.cleaning import clean_json, identity
from firmlake.privacy.forgotten import open_forgotten
from firmlake.privacy.key import read_key
from firmlake.privacy.tombstones import key_path, person_hash
from firmlake.privacy.tree import NULL, Node, as_json, parse, read_text, replaced, walk
from firmlake.privacy.words import name_words

__all__ = ["answer_filter", "speaks_of_person", "words_of"]

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
_PARTIES = ("parents", "children")
_KNOWN = {"identifier", "data", "pagination", "message", "function", "percentage", "parents", "children"}

Mask = Callable[[str], bytes]


def answer_filter(settings: PrivacySettings, folders: Folders) -> Callable[[bytes], bytes]:
    """Return a function that masks persons and removes forgotten subjects in an answer before it lands.

    Raises:
        SettingsError: The key cannot be read or made, or does not fit the tombstones. Restore it.
        DamagedError: The tombstones cannot be read. Restore them.
    """
    forgotten, masked = open_forgotten(settings, folders), mask(settings, folders)

    def clean(body: bytes) -> bytes:
        if forgotten:
            body = clean_json(body, forgotten)
        return _mask_persons(body, masked) if masked else body

    return clean


def mask(settings: PrivacySettings, folders: Folders) -> Mask | None:
    """Return the replacement of a person's name, as JSON; None if names are kept.

    A hash is the same for all spellings of a name and in every answer, so that groups of companies stay visible.
    """
    if settings.persons == "keep":
        return None
    if settings.persons == "drop":
        return lambda name: NULL
    key = read_key(key_path(settings, folders), "privacy.key_file", is_new=not folders.tombstones.exists())
    return lambda name: as_json(f"person-{person_hash(key, name_words(name) or (name.strip(),))}")


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


# ---------------------------------------------------------------------------------------------------------------------


def _mask_persons(body: bytes, masked: Mask) -> bytes:
    keys = {read_text(b'"' + key) for key in set(_KEYS.findall(body))}
    root = parse(body) if keys & set(_PARTIES) or any(map(speaks_of_person, keys - _KNOWN)) else None
    if root is None:
        return body
    edits = [(node.start, node.end, masked(node.text)) for node in _names_of_persons(root)]
    return replaced(body, edits)


def _names_of_persons(root: Node) -> Iterator[Node]:
    for node in walk(root):
        if node.kind == "text" and node.text.strip() and (_has_person_key(node) or _is_name_of_party(node)):
            yield node


def _has_person_key(node: Node) -> bool:
    """Tell whether any unknown key on the path to a text suggests a person."""
    return any(speaks_of_person(key) for key in node.path if key not in _KNOWN)


def _is_name_of_party(node: Node) -> bool:
    """Tell whether a text is the name of a related party whose record holds no company number."""
    if "name" not in words_of(node.key or ""):
        return False
    each: Node | None = node
    while each is not None and not (each.parent is not None and each.parent.key in _PARTIES):
        each = each.parent
    return each is not None and not any(map(identity, walk(each)))
