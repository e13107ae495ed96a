"""Tombstones: a file of the data folder records each forgotten subject as a keyed hash.

Tombstones are kept until somebody lifts them. They filter later answers, lists, restored backups and merged archives.
Without the key, they reveal nothing about the subjects. A key is made on first use, in a file that only its owner can
read.
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
from firmlake.core.errors import DamagedError, SettingsError, UsageError
from firmlake.core.files import read_json, write_file, write_json
from firmlake.core.folders import Folders
from firmlake.core.settings import PrivacySettings
from firmlake.privacy.words import name_words

KEY_BYTES = 32
HASH_DIGITS = 32
_SETTING = "privacy.key_file"
_RESTORE = "Restore it from a copy; without it, the next answers bring forgotten names back"


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
    """A forgotten subject.

    Attributes:
        mark: A random name for the subject, for receipts and replaced ids.
        hash: Keyed hash of the subject.
        scope: Keyed hash of the only company for which a person is forgotten; empty if forgotten everywhere.
        words: Keyed hash of each word of a person's name, so that most texts are ruled out quickly.
        is_done: Whether every place is clean; False while `firmlake forget` is running, and after it was killed.
    """

    mark: str
    kind: str
    hash: str
    forgotten_at: datetime
    scope: str = ""
    words: tuple[str, ...] = ()
    is_done: bool = False

    @property
    def subject(self) -> tuple[str, str, str]:
        """What tells the subject from all others."""
        return self.kind, self.hash, self.scope


class Register(msgspec.Struct, frozen=True):
    """All tombstones, and a hash to check that a key belongs to them."""

    check: str
    tombstones: tuple[Tombstone, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to clean."""
        return all(one.is_done for one in self.tombstones)

    @property
    def done(self) -> Register:
        """The same tombstones, of which nothing is left to clean."""
        return Register(self.check, tuple(msgspec.structs.replace(one, is_done=True) for one in self.tombstones))


def read_register(settings: PrivacySettings, folders: Folders) -> tuple[Register, bytes] | None:
    """Read the tombstones and their key; None if there are no tombstones.

    Raises:
        SettingsError: The key is missing, or it is the wrong key. Restore the right one.
        DamagedError: The file of the tombstones cannot be read. Restore the file.
    """
    path = folders.tombstones
    if not path.exists():
        if any((folders.state / "receipts").glob("*.json")):
            raise DamagedError(f"{path} is missing, although subjects were forgotten (state/receipts)", _RESTORE)
        return None
    register = read_json(path, Register, _RESTORE)
    key = read_key(key_path(settings, folders), _SETTING, is_new=False)
    if not hmac.compare_digest(register.check, keyed_hash(key, "check")):
        raise SettingsError(
            f"The key in {key_path(settings, folders)} does not belong to {path}",
            f"Restore the key from a copy, or correct {_SETTING}",
        )
    return register, key


def is_forget_open(folders: Folders) -> bool:
    """Return whether a call of `firmlake forget` did not end, or could not reach a copy. Needs no key."""
    try:
        return folders.tombstones.exists() and not read_json(folders.tombstones, Register, _RESTORE).is_done
    except DamagedError:
        return False  # `firmlake forget` and every run say so


def write_register(folders: Folders, register: Register) -> None:
    """Write the tombstones, in one rename."""
    write_json(folders.tombstones, register)


def add_tombstones(
    settings: PrivacySettings, folders: Folders, subjects: Iterable[Subject], now: datetime, *, is_dry: bool = False
) -> tuple[Register, bytes]:
    """Return the tombstones, with one added for each subject. Only a new key is written, and only unless `is_dry`.

    Raises UsageError if a name holds no letters.
    """
    held, path = read_register(settings, folders), key_path(settings, folders)
    is_unkept = is_dry and not path.exists()
    key = held[1] if held else secrets.token_bytes(KEY_BYTES) if is_unkept else read_key(path, _SETTING)
    tombstones = {one.subject: one for one in held[0].tombstones} if held else {}
    for made in (_bury(key, subject, now) for subject in subjects):
        old = tombstones.get(made.subject, made)
        tombstones[made.subject] = msgspec.structs.replace(old, is_done=False)
    return Register(keyed_hash(key, "check"), tuple(tombstones.values())), key


def lift(settings: PrivacySettings, folders: Folders, subject: Subject) -> bool:
    """Remove the tombstone of a subject, so that later answers and lists keep it; return whether there was one."""
    held = read_register(settings, folders)
    if held is None:
        return False
    register, key = held
    gone = _bury(key, subject, datetime.min)
    kept = tuple(one for one in register.tombstones if one.subject != gone.subject)
    if is_lifted := len(kept) < len(register.tombstones):
        write_register(folders, Register(register.check, kept))
    return is_lifted


def read_key(path: Path, setting: str, *, is_new: bool = True) -> bytes:
    """Read a key, or make one if there is none and `is_new`, that is if no hashes were made with it.

    Messages name the setting. Raises SettingsError if the key cannot be read or made, or is missing.
    """
    try:
        if not path.exists():
            if not is_new:
                raise SettingsError(
                    f"The key file {path} is missing, but hashes were made with it",
                    f"Restore it from a copy, or correct {setting}",
                )
            write_file(path, lambda aside: aside.write_text(f"{secrets.token_hex(KEY_BYTES)}\n"))
        key = path.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"The key file {path}: {error.strerror}", f"Correct {setting}") from None
    if len(key) < KEY_BYTES:
        raise SettingsError(
            f"The key file {path} holds fewer than {KEY_BYTES} characters", "Restore the file from a copy"
        )
    return key


def keyed_hash(key: bytes, *parts: str) -> str:
    """Hash texts with a key (HMAC-SHA256, cut to 128 bits). Testing a guess against the hash needs the key."""
    content = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hmac.digest(key, content, "sha256").hex()[:HASH_DIGITS]


def word_hash(key: bytes, word: str) -> str:
    """Return the keyed hash of a word in normal form."""
    return keyed_hash(key, "word", word)[:16]


def person_hash(key: bytes, words: Iterable[str]) -> str:
    """Return the keyed hash of a name, from its words in normal form: the same for all spellings."""
    return keyed_hash(key, "person", *sorted(words))


def key_path(settings: PrivacySettings, folders: Folders) -> Path:
    """Return the file of the key."""
    return Path(settings.key_file or folders.state / "privacy.key")


def _bury(key: bytes, subject: Subject, now: datetime) -> Tombstone:
    """Make the tombstone of a subject."""
    of_company = keyed_hash(key, "company", *subject.company) if subject.company else ""
    if subject.kind != "person":
        name_hash = of_company if subject.kind == "company" else keyed_hash(key, "contact", subject.name.strip())
        return Tombstone(mark=secrets.token_hex(4), kind=subject.kind, hash=name_hash, forgotten_at=now)
    words = name_words(subject.name)
    if not words:
        raise UsageError("The name holds no letters", "Spell the name as the answers do")
    return Tombstone(
        mark=secrets.token_hex(4),
        kind="person",
        hash=person_hash(key, words),
        scope=of_company,
        forgotten_at=now,
        words=tuple(word_hash(key, word) for word in words),
    )
