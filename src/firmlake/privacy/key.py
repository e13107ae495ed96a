"""Secret keys for keyed hashes. A key is made on first use, in a file that only its owner can read."""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path

from firmlake.core.errors import SettingsError
from firmlake.core.files import write_file

KEY_BYTES = 32
HASH_DIGITS = 32


def read_key(path: Path, setting: str, *, is_new: bool = True) -> bytes:
    """Read a key, or make one if there is none.

    Args:
        path: The key file.
        setting: The setting that names another file, for the message.
        is_new: Whether a missing key may be made. False if hashes made with the key exist.

    Raises:
        SettingsError: The key cannot be read or made, or is missing although hashes were made with it.
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
