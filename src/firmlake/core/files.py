"""Files that are either whole or not there: written aside, made durable, then renamed.

They are their owner's alone, as are the folders made for them; `readers` lets a group read them too.
"""

from __future__ import annotations

import grp
import hashlib
import io
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import polars as pl

from firmlake.core.errors import DamagedError, FirmlakeError, SettingsError

T = TypeVar("T")

__all__ = [
    "find_group",
    "is_writable",
    "make_folder",
    "open_to",
    "read_json",
    "sha256_of",
    "sync_folder",
    "write_file",
    "write_json",
    "write_parquet",
]


def make_folder(path: Path, readers: int | None = None) -> None:
    """Make a folder and those above it that are missing, so that a power cut does not take them away again.

    Args:
        path: The folder.
        readers: Group (its number) that may look into those that are made; None is nobody but the owner.
    """
    if not path.is_dir():
        make_folder(path.parent, readers)
        path.mkdir(mode=0o700, exist_ok=True)
        open_to(path, readers)
        sync_folder(path.parent)


def find_group(name: str) -> int | None:
    """Find the number of a group of this system; the empty name is None.

    Raises:
        SettingsError: There is none of that name.
    """
    try:
        return grp.getgrnam(name).gr_gid if name else None
    except KeyError:
        raise SettingsError(f"paths.readers: there is no group {name}", "Name one that `getent group` lists") from None


def is_writable(folder: Path) -> bool:
    """Tell whether files can be made in a folder, or in the nearest one above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK)


def open_to(path: Path, readers: int | None) -> None:
    """Let a group read a file, or look into a folder; None changes nothing.

    Raises:
        FirmlakeError: It is not ours to give, or we are not in that group.
    """
    if readers is None:
        return
    try:
        os.chown(path, -1, readers)
        path.chmod(stat.S_IMODE(path.stat().st_mode) | (0o050 if path.is_dir() else 0o040))
    except PermissionError:
        raise FirmlakeError(
            f"{path} cannot be opened to the group of paths.readers",
            "Become its member, and the owner of the file, or correct paths.readers",
        ) from None


def write_file(path: Path, write: Callable[[Path], object], readers: int | None = None) -> None:
    """Let `write` make a file aside, make it durable and give it its name; a crash leaves the old one or none.

    Only one process may write a path at a time: what an earlier one left aside when it was killed is removed.

    Args:
        path: The file.
        write: Gets the path of an empty file that only its owner can read, and fills it.
        readers: As for `make_folder`.

    Raises:
        FirmlakeError: There is no room, or the folder cannot be written to; the old file is as it was.
    """
    try:
        make_folder(path.parent, readers)
        for rest in path.parent.glob(f".{path.name}.*.part"):
            rest.unlink()
        aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            aside.touch(mode=0o600)
            write(aside)
            open_to(aside, readers)
            with aside.open("rb") as file:
                os.fsync(file.fileno())
            aside.replace(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise FirmlakeError(f"{path}: {error.strerror}", "Make room or give access, then run again") from error


class _Sealed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a JSON file of ours holds: a value, and the checksum of its text without white space."""

    sha256: str
    content: msgspec.Raw


def write_json(path: Path, content: Any) -> None:
    """Write a value as indented JSON with its checksum, whole or not at all."""
    value = msgspec.Raw(msgspec.json.encode(content))
    text = msgspec.json.format(msgspec.json.encode(_Sealed(_seal(value), value)), indent=2) + b"\n"
    write_file(path, lambda aside: aside.write_bytes(text))


def write_parquet(path: Path, frame: pl.DataFrame) -> None:
    """Write a frame, whole or not at all; in memory first, for Polars has no error of its own for a full disk."""
    content = io.BytesIO()
    frame.write_parquet(content, compression="zstd", compression_level=1)
    write_file(path, lambda aside: aside.write_bytes(content.getbuffer()))


def read_json(path: Path, kind: type[T], next_step: str = "Restore it from a copy") -> T:
    """Read a value written by `write_json`.

    Args:
        path: The file.
        kind: Type of the value.
        next_step: What to do if the file is damaged.

    Raises:
        DamagedError: The file is missing, unreadable or not what was written.
    """
    try:
        sealed = msgspec.json.decode(path.read_bytes(), type=_Sealed)
        if _seal(sealed.content) != sealed.sha256:
            raise msgspec.DecodeError("its checksum does not match")
        return msgspec.json.decode(sealed.content, type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise DamagedError(f"{path} cannot be read: {why}", next_step) from None


def _seal(value: msgspec.Raw) -> str:
    return hashlib.sha256(msgspec.json.format(bytes(value), indent=-1)).hexdigest()


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256_of(path: Path) -> str:
    """Hash a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
