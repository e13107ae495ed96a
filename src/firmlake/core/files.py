"""Files: written atomically, which means under a temporary name, synced to disk, then renamed; and Zstandard.

Only the owner can read files and folders made here; `readers` lets a group read them too.
"""

from __future__ import annotations

import glob
import grp
import hashlib
import io
import os
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from firmlake.core.errors import DamagedError, FirmlakeError, SettingsError, from_system

if TYPE_CHECKING:
    import polars as pl

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

T = TypeVar("T")


def make_folder(path: Path, readers: int | None = None) -> None:
    """Make a folder and its missing parents, which survive a power cut; the group `readers` may read the new ones."""
    if not path.is_dir():
        make_folder(path.parent, readers)
        path.mkdir(mode=0o700, exist_ok=True)
        open_to(path, readers)
        sync_folder(path.parent)


def find_group(name: str) -> int | None:
    """Return the number of a group of this system, None for an empty name; SettingsError if there is no such group."""
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
    """Let a group read a file or list a folder; None changes nothing.

    If we do not own the file, or are not a member of the group, that is a FirmlakeError.
    """
    if readers is None:
        return
    try:
        os.chown(path, -1, readers)
        path.chmod(stat.S_IMODE(path.stat().st_mode) | (0o050 if path.is_dir() else 0o040))
    except PermissionError:
        raise FirmlakeError(
            f"{path} cannot be opened to the group of paths.readers",
            "Run as the file's owner and a member of that group, or correct paths.readers",
        ) from None


def write_file(path: Path, write: Callable[[Path], object], readers: int | None = None) -> None:
    """Write a file atomically: a crash, a full disk or a closed folder leaves the old file, or none if there was none.

    Only one process may write a path at a time, because temporary files of killed processes are removed. `write` gets
    the path of an empty temporary file and fills it.
    """
    try:
        make_folder(path.parent, readers)
        for rest in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
            rest.unlink()
        aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            aside.touch(mode=0o600)
            write(aside)
            open_to(aside, readers)
            with aside.open("rb") as file:
                os.fsync(file.fileno())
            aside.replace(path)
        except BaseException:  # a signal too must leave no half-written file behind
            aside.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise from_system(error, path) from error


def remove_parts(folder: Path) -> None:
    """Remove unfinished files, and folders of unfinished sheets, that killed processes left."""
    for path in list(folder.rglob("*.part")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class _Sealed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a JSON file: a value, and the checksum of its JSON without white space."""

    sha256: str
    content: msgspec.Raw


def encode_json(content: Any) -> bytes:
    """Encode a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def write_json(path: Path, content: Any) -> None:
    """Write a value as indented JSON with its checksum, atomically."""
    value = msgspec.Raw(msgspec.json.encode(content))
    text = encode_json(_Sealed(_seal(value), value))
    write_file(path, lambda aside: aside.write_bytes(text))


def write_parquet(path: Path, frame: pl.DataFrame) -> None:
    """Write a frame atomically; it is encoded in memory first, because Polars has no distinct error for a full disk.

    Snappy takes a fifth less CPU to write and read than zstd, and two fifths more room.
    """
    content = io.BytesIO()
    frame.write_parquet(content, compression="snappy")
    write_file(path, lambda aside: aside.write_bytes(content.getbuffer()))


def read_json(path: Path, kind: type[T], next_step: str = "Restore it from a copy") -> T:
    """Read a value written by `write_json`; DamagedError if it is missing, unreadable or does not match its checksum.

    The error tells the user `next_step`, unless the file is only closed to us.
    """
    try:
        sealed = msgspec.json.decode(path.read_bytes(), type=_Sealed)
        if _seal(sealed.content) != sealed.sha256:
            raise msgspec.DecodeError("its checksum does not match")
        return msgspec.json.decode(sealed.content, type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        if isinstance(error, PermissionError):  # nothing is wrong with the file
            next_step = from_system(error).next_step
        raise DamagedError(f"{path} cannot be read: {why}", next_step) from None


def _seal(value: msgspec.Raw) -> str:
    return hashlib.sha256(msgspec.json.format(bytes(value), indent=-1)).hexdigest()


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        error.filename = str(folder)  # the system names no file that is open
        raise
    finally:
        os.close(handle)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


CompressionParameter = zstd.CompressionParameter
ZstdError = zstd.ZstdError
compress = zstd.compress
decompress = zstd.decompress

_PIECE = 2**20


def decompress_frames(content: bytes) -> bytes:
    """Decompress all frames of a file; the last may be cut short, as a crash leaves it.

    ZstdError if the bytes are damaged.
    """
    pieces = []
    with zstd.open(io.BytesIO(content)) as file, suppress(EOFError):
        while piece := file.read1(_PIECE):
            pieces.append(piece)
    return b"".join(pieces)
