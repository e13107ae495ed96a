"""Lists that are not local files: standard input, a query, a DuckDB table, an object in a store.

Each is copied to a local file first: a list is read more than once, but a pipe can be read only once, and the result of
a query may change.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Final

from firmlake.api.authorization import is_token_file, read_token
from firmlake.core.errors import CompanyListError, SettingsError, first_line
from firmlake.core.settings import Settings
from firmlake.core.stores import check_address
from firmlake.intake.detect import too_large
from firmlake.intake.query import write_list

STDIN: Final = "-"
_STORES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
_DUCKDB: Final = b"DUCK"
_BLOCK_BYTES: Final = 2**20


@contextmanager
def local_list(source: str, sql: str, settings: Settings, keep_in: Path | None = None) -> Iterator[Path]:
    """Yield a local file with the list; error messages name its source.

    Args:
        source: A path, `-` for standard input, `s3://`, `gs://` or `az://`, or a DuckDB file; with `sql` it may be "".
        sql: The query whose result is the list; "" if there is none.
        settings: Limits of the intake and of DuckDB.
        keep_in: Folder in which copies are kept, in a subfolder for each content; None keeps no copy.

    Raises:
        UsageError: The address of a store holds credentials.
        CompanyListError: The source cannot be read, or is larger than the settings allow.
    """
    with suppress(SettingsError):
        read_token()  # registers it, so that no message repeats it even if the list is the file that holds it
    path = Path(source)
    _refuse_secrets(path, source)
    is_database = bool(source) and path.is_file() and _is_database(path)
    scheme = source.partition("://")[0] if "://" in source else ""
    if not (sql or is_database or scheme or source == STDIN):
        yield path
        return
    if sql and source and not is_database:
        raise CompanyListError(
            f"{source} is not a DuckDB database, so --sql cannot query it",
            f"Omit LIST and name the file in the query: --sql \"FROM '{source}'\"",
        )
    with tempfile.TemporaryDirectory(prefix="firmlake-") as folder:
        if sql or is_database:
            file = Path(folder) / f"{path.stem or 'query'}.parquet"
            write_list(path if source else None, sql, settings, file)
        elif scheme:
            file = Path(folder) / (PurePosixPath(source).name or "list")
            _download(source, scheme, settings, file)
        else:
            file = Path(folder) / "stdin"
            _spool(sys.stdin.buffer, file, settings)
        if keep_in is not None:
            file = keep_copy(file, keep_in)
        try:
            yield file
        except CompanyListError as error:
            shown = {STDIN: "standard input", "": "the query"}.get(source, source)
            message, next_step = (text.replace(str(file), shown) for text in (error.message, error.next_step))
            raise CompanyListError(message, next_step) from error


def _refuse_secrets(path: Path, source: str) -> None:
    """Refuse the file of the token, and files without a size, among which are the environments of processes."""
    if not (source and path.is_file()):
        return
    if not path.stat().st_size:
        raise CompanyListError(f"{source} is empty", "Export the list again")
    if is_token_file(path):
        raise CompanyListError(f"{source} is the file of the token, not a list", "Name the list")


def _is_database(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:  # reading it as a list will say what is wrong
        return file.read(12)[8:] == _DUCKDB
    return False


def _download(address: str, scheme: str, settings: Settings, target: Path) -> None:
    """Copy an object from a store to a file."""
    if scheme not in _STORES:
        raise CompanyListError(
            f"{scheme}:// is not a supported source of lists", "Name a file, or s3://, gs:// or az://"
        )
    prefix, _, key = address.rpartition("/")
    check_address(f"{prefix}/{key.replace('#', '')}")  # the name of a list may hold one
    import obstore  # here, because importing it takes a tenth of a second
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    limit = settings.intake.max_inflated_megabytes
    try:
        found = obstore.get(from_url(prefix), key)
        if found.meta["size"] > limit << 20:
            raise too_large(address, limit, "MB", "intake.max_inflated_megabytes")
        with target.open("wb") as file:
            for piece in found.stream(min_chunk_size=_BLOCK_BYTES):
                file.write(piece)
    except (BaseError, FileNotFoundError, PermissionError, OSError, ValueError) as error:
        first = first_line(error)
        raise CompanyListError(
            f"{address} cannot be read: {first}", "Check the address, and the credentials in the environment"
        ) from error


def _spool(stream: IO[bytes], target: Path, settings: Settings) -> None:
    """Copy a stream to a file, up to the limit."""
    limit, count = settings.intake.max_inflated_megabytes, 0
    with target.open("wb") as file:
        while block := stream.read(_BLOCK_BYTES):
            count += len(block)
            if count > limit << 20:
                raise too_large("standard input", limit, "MB", "intake.max_inflated_megabytes")
            file.write(block)


def keep_copy(file: Path, folder: Path) -> Path:
    """Keep a copy under the same name, in a folder named after the hash of its content."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()[:12]
    kept = folder / digest / file.name
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        aside = kept.with_name(kept.name + ".part")
        shutil.copyfile(file, aside)
        aside.replace(kept)
    return kept
