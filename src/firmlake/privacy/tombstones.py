"""Tombstones: who is forgotten, as keyed hashes, in a file of the data folder.

A tombstone stays for good. It filters later answers, lists, restored backups and merged archives, and tells nothing to
anybody who lacks the key.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from firmlake.core.company import Company
from firmlake.core.errors import SettingsError, UsageError
from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders
from firmlake.core.settings import PrivacySettings
from firmlake.privacy.key import KEY_BYTES, keyed_hash, read_key
from firmlake.privacy.words import name_words

__all__ = [
    "Register",
    "Subject",
    "Tombstone",
    "add_tombstones",
    "company_hash",
    "contact_hash",
    "key_path",
    "lift",
    "person_hash",
    "read_register",
    "word_hash",
    "write_register",
]

_SETTING = "privacy.key_file"
_RESTORE = "Restore it from a copy; without it, whoever was forgotten comes back with the next answer"


class Subject(msgspec.Struct, frozen=True):
    """Who is to be forgotten.

    Attributes:
        kind: Whether `name` is the name of a person, the id of a contact, or a company number in normal form.
        company: The company about which a person is forgotten; None forgets the person everywhere. For a company, the
            company itself.
    """

    kind: Literal["person", "contact", "company"]
    name: str
    company: Company | None = None


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """Who is forgotten.

    Attributes:
        mark: A random name, which stands for the subject where something has to.
        hash: Keyed hash of the subject.
        scope: Keyed hash of the company about which a person is forgotten; empty if everywhere.
        words: Keyed hash of each word of a person's name, so that most texts are passed over quickly.
        is_done: Whether every place was cleaned since; False while `firmlake forget` is at work, or was killed.
    """

    mark: str
    kind: str
    hash: str
    forgotten_at: datetime
    scope: str = ""
    words: tuple[str, ...] = ()
    is_done: bool = False


class Register(msgspec.Struct, frozen=True):
    """All tombstones, and a hash that tells whether a key is theirs."""

    check: str
    tombstones: tuple[Tombstone, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to clean."""
        return all(one.is_done for one in self.tombstones)


def read_register(settings: PrivacySettings, folders: Folders) -> tuple[Register, bytes] | None:
    """Read the tombstones and their key; None if nobody was ever forgotten.

    Raises:
        SettingsError: The key is missing or another one. Restore it.
        DamagedError: The file is not what was written. Restore it.
    """
    path = folders.tombstones
    if not path.exists():
        return None
    register = read_json(path, Register, _RESTORE)
    key = read_key(key_path(settings, folders), _SETTING, is_new=False)
    if not hmac.compare_digest(register.check, _check(key)):
        raise SettingsError(
            f"The key of {key_path(settings, folders)} is not the one that {path} was made with",
            f"Restore the key from a copy, or correct {_SETTING}",
        )
    return register, key


def write_register(folders: Folders, register: Register) -> None:
    """Write the tombstones, whole or not at all."""
    write_json(folders.tombstones, register)


def add_tombstones(
    settings: PrivacySettings, folders: Folders, subjects: Iterable[Subject], now: datetime, *, is_dry: bool = False
) -> tuple[Register, bytes]:
    """Return the tombstones with one for each subject. Only a first key is written, and not even that if `is_dry`.

    Raises:
        UsageError: A name has no word to look for.
        SettingsError: The key of earlier tombstones is missing.
    """
    held = read_register(settings, folders)
    path = key_path(settings, folders)
    is_unkept = is_dry and not path.exists()
    key = held[1] if held else secrets.token_bytes(KEY_BYTES) if is_unkept else read_key(path, _SETTING)
    tombstones = {(one.kind, one.hash, one.scope): one for one in held[0].tombstones} if held else {}
    for subject in subjects:
        is_person = subject.kind == "person"
        words = name_words(subject.name) if is_person else ()
        if is_person and not words:
            raise UsageError("The name has no word in it", "Give the name as the answers spell it")
        scope = company_hash(key, subject.company) if is_person and subject.company else ""
        made = Tombstone(
            mark=secrets.token_hex(4),
            kind=subject.kind,
            hash=_hash(key, subject),
            scope=scope,
            forgotten_at=now,
            words=tuple(word_hash(key, word) for word in words),
        )
        old = tombstones.get((made.kind, made.hash, made.scope))
        tombstones[made.kind, made.hash, made.scope] = msgspec.structs.replace(old, is_done=False) if old else made
    return Register(_check(key), tuple(tombstones.values())), key


def lift(settings: PrivacySettings, folders: Folders, company: Company) -> bool:
    """Remove the tombstone of a company that is named explicitly; return whether there was one."""
    held = read_register(settings, folders)
    if held is None:
        return False
    register, key = held
    gone = ("company", company_hash(key, company))
    kept = tuple(one for one in register.tombstones if (one.kind, one.hash) != gone)
    if len(kept) < len(register.tombstones):
        write_register(folders, Register(register.check, kept))
    return len(kept) < len(register.tombstones)


def company_hash(key: bytes, company: Company) -> str:
    """Return the keyed hash of a company."""
    return keyed_hash(key, "company", *company)


def contact_hash(key: bytes, contact_id: str) -> str:
    """Return the keyed hash of a contact's id."""
    return keyed_hash(key, "contact", contact_id.strip())


def word_hash(key: bytes, word: str) -> str:
    """Return the keyed hash of a word in normal form."""
    return keyed_hash(key, "word", word)[:16]


def person_hash(key: bytes, words: Iterable[str]) -> str:
    """Return the keyed hash of a name, from its words in normal form: the same for all spellings."""
    return keyed_hash(key, "person", *sorted(words))


# ---------------------------------------------------------------------------------------------------------------------


def key_path(settings: PrivacySettings, folders: Folders) -> Path:
    """Return the file of the key."""
    return Path(settings.key_file or folders.state / "privacy.key")


def _hash(key: bytes, subject: Subject) -> str:
    if subject.kind == "company":
        assert subject.company
        return company_hash(key, subject.company)
    return person_hash(key, name_words(subject.name)) if subject.kind == "person" else contact_hash(key, subject.name)


def _check(key: bytes) -> str:
    return keyed_hash(key, "check")
