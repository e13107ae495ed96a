"""The destination of an export or archive: a local folder or a bucket of an object store, behind one interface.

s3://bucket/prefix, gs://bucket/prefix, az://container/prefix     credentials from the store's usual environment
anything else                                                     a folder
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

from firmlake.core.errors import Translation, UsageError, translated
from firmlake.core.files import make_folder, write_file
from firmlake.core.folders import check_address

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_MEND = "Check the address and the store's credentials, then run again"
_SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")
_S3 = ("s3", "s3a")
_RULE = "delete them with a lifecycle rule for noncurrent versions"
_RETRIES = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}


class StoredFile(NamedTuple):
    """A small file and its version, which shows whether somebody has replaced the file since."""

    content: bytes
    version: Any


def open_destination(address: str, readers: int | None = None) -> Destination:
    """Open the destination that an address names: a folder, or s3://, gs:// or az://.

    Files in a folder may be read by the group with the id `readers`; None means only by the owner. Raises UsageError if
    the address has an unknown scheme or holds credentials, and FirmlakeError if the credentials of the environment do
    not open the store.
    """
    scheme, separator, _ = address.partition("://")
    if not separator or scheme == "file":
        return Folder(Path(address.removeprefix("file://")).absolute(), readers)
    if scheme not in _SCHEMES:
        raise UsageError(f"{scheme}:// is not a supported target", "Name a folder, or s3://, gs:// or az://")
    check_address(address)
    return Bucket(address.rstrip("/"))


class Folder:
    """A folder of this machine, which a group may read. Paths are relative and use `/`."""

    def __init__(self, path: Path, readers: int | None = None) -> None:
        self.path = path
        self._readers = readers

    @property
    def url(self) -> str:
        """Its address, without a `/` at the end."""
        return str(self.path)

    def put(self, path: str, file: IO[bytes]) -> None:
        """Write a file atomically, replacing an earlier one."""

        def copy(aside: Path) -> None:
            with aside.open("wb") as copied:
                shutil.copyfileobj(file, copied, 1 << 20)

        write_file(self.path / path, copy, self._readers)

    def put_if(self, path: str, content: bytes, known: StoredFile | None = None) -> bool:
        """Write a small file atomically if it has not changed since it was read as `known` (None: it did not exist).

        Returns whether it was written.
        """
        make_folder(self.path, self._readers)
        (self.path / ".lock").touch(mode=0o600)
        with (self.path / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = self.read(path)
            if (found and found.version) != (known and known.version):
                return False
            write_file(self.path / path, lambda aside: aside.write_bytes(content), self._readers)
        return True

    def sizes(self, folder: str) -> dict[str, int]:
        """List the files below a folder, sorted: path to size in bytes."""
        found = (path for path in sorted((self.path / folder).rglob("*")) if path.is_file() and path.suffix != ".part")
        return {path.relative_to(self.path).as_posix(): path.stat().st_size for path in found}

    def read(self, path: str) -> StoredFile | None:
        """Read a small file; None if it does not exist."""
        with suppress(FileNotFoundError):
            content = (self.path / path).read_bytes()
            return StoredFile(content, hashlib.sha256(content).digest())
        return None

    def clear(self, folder: str) -> None:
        """Remove all files below a folder."""
        shutil.rmtree(self.path / folder, ignore_errors=True)

    def remove(self, path: str) -> None:
        """Remove a file."""
        (self.path / path).unlink(missing_ok=True)


class Bucket:
    """A prefix in a bucket of an object store, with the methods of `Folder`."""

    def __init__(self, url: str) -> None:
        import obstore  # here, because importing it takes a tenth of a second
        from obstore.exceptions import AlreadyExistsError, PreconditionError
        from obstore.store import from_url

        open_store = cast("Callable[..., ObjectStore]", from_url)
        self.url = url
        self._obstore, self._is_taken = obstore, (AlreadyExistsError, PreconditionError)
        with _translated(url):
            self._store = open_store(url, retry_config=_RETRIES)

    def put(self, path: str, file: IO[bytes]) -> None:
        """Write an object. A large object is written in parts, which become visible together."""
        with self._translated(path):
            self._obstore.put(self._store, path, file)

    def put_if(self, path: str, content: bytes, known: StoredFile | None = None) -> bool:
        """Write a small object if it has not changed since it was read; the store itself decides who was first."""
        mode: Any = known.version if known else "create"
        with self._translated(path), suppress(*self._is_taken):
            self._obstore.put(self._store, path, content, mode=mode, use_multipart=False)
            return True
        return False

    def sizes(self, folder: str) -> dict[str, int]:
        """List the objects below a folder."""
        with self._translated(folder):
            pages = self._obstore.list(self._store, folder)
            return dict(sorted((found["path"], found["size"]) for page in pages for found in page))

    def read(self, path: str) -> StoredFile | None:
        """Read a small object."""
        with self._translated(path), suppress(FileNotFoundError):
            found = self._obstore.get(self._store, path)
            version = {name: found.meta[name] for name in ("e_tag", "version") if found.meta[name]}
            return StoredFile(bytes(found.bytes()), version)
        return None

    def clear(self, folder: str) -> None:
        """Remove all objects below a folder."""
        with self._translated(folder):
            for found in self._obstore.list(self._store, folder):
                self._obstore.delete(self._store, [each["path"] for each in found])

    def remove(self, path: str) -> None:
        """Remove an object."""
        with self._translated(path):
            self._obstore.delete(self._store, path)

    def _translated(self, path: str) -> AbstractContextManager[None]:
        return _translated(f"{self.url}/{path}")


Destination = Folder | Bucket


def delete_versions(url: str) -> str:
    """Delete all versions below an address except the current ones, and the markers of deleted objects.

    Returns a sentence about versions that may be left; empty if there are none, as in a folder. Raises FirmlakeError if
    the store refuses.
    """
    scheme, separator, _ = url.partition("://")
    if not separator:
        return ""
    left = f"If the bucket of {url} keeps old versions or deleted objects, {_RULE}"
    if scheme not in _S3:
        return left
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return f"{left}, or `pip install 'firmlake[versions]'` and run `firmlake forget` again"
    refused = Translation(
        (BotoCoreError, ClientError),
        f"Allow s3:ListBucketVersions and s3:DeleteObjectVersion, or {_RULE}",
        "Old versions in {where} cannot be deleted: {reason}",
    )
    parts = urlsplit(url)
    with translated(url, refused):
        versions = boto3.resource("s3").Bucket(parts.netloc).object_versions
        for each in versions.filter(Prefix=f"{parts.path.strip('/')}/".lstrip("/")):
            if not each.is_latest or each.e_tag is None:  # markers of deleted objects have none
                each.delete()
    return ""


def _translated(where: str) -> AbstractContextManager[None]:
    """Turn errors of a store into one line without the signature that an address may contain."""
    from obstore.exceptions import BaseError

    return translated(where, Translation((BaseError, OSError), _MEND, "{where}: {kind}: {reason}"))
