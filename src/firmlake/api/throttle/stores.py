"""Stores of a key's allowance: a file for the processes of one machine, a PostgreSQL row for those of several.

A file is in a private folder of the system's temp directory, not in the data folder, because two data folders may use
the same key. Each operation opens, locks, reads, writes and closes it (30 us). So forked processes inherit nothing, a
dying process releases the lock, and a file deleted by a temp cleaner is created again.

In PostgreSQL, a process locks the row from reading to writing, so processes take turns, and all use the server's time.
If that clock is set forward, slots are freed too early, so NTP must adjust it in small steps. PostgreSQL was chosen
over Redis because the rules stay in `window.py` (Redis would need them in Lua), because grants survive a crash, and
because anyone with several workers already runs PostgreSQL for Prefect.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmlake.core.errors import SettingsError, ThrottleStoreError

if TYPE_CHECKING:
    import psycopg


@dataclass(slots=True)
class Slot:
    """What a store lends."""

    content: bytes  # the state as last stored, to be changed in place; empty if there is none yet
    now: int  # nanoseconds on the store's clock, read after the state was locked


def open_store(address: str, key: str, folder: Path | None = None) -> FileStore | PostgresStore:
    """Open the store for one key.

    Args:
        address: `api.throttle_store`: "file", or a `postgresql://` URL without a password.
        key: Identifies service and token without revealing the token.
        folder: Folder of the files; None takes `firmlake-<uid>` in the system's temp directory.

    Raises:
        SettingsError: The folder cannot be made or others can write to it, the address is invalid or holds a password,
            or the library is missing.
    """
    if address != "file":
        return _open_postgres_store(address, key)
    folder = folder or Path(tempfile.gettempdir()) / f"firmlake-{os.getuid()}"
    _make_private(folder)
    _remove_idle(folder)
    return FileStore(folder / f"{key}.throttle")


_SIZE_MAX = 16_777_216
_IDLE_SECONDS = 86_400
_ELSEWHERE = "Set TMPDIR to a folder that only you can write to"


def boot_clock() -> int:
    """Return the nanoseconds since the machine started; on Linux the time asleep counts too."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class FileStore:
    """A store in one file. Its clock returns nanoseconds and is shared by all processes of the machine."""

    def __init__(self, file: Path, clock: Callable[[], int] = boot_clock) -> None:
        self.name = str(file)
        self._file = file
        self._clock = clock

    @contextmanager
    def hold(self) -> Iterator[Slot]:
        """Lend the state to one caller at a time; changes are stored unless the block raises.

        SettingsError: correct TMPDIR.
        """
        try:
            descriptor = self._open()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                slot = Slot(os.read(descriptor, _SIZE_MAX), self._clock())
                yield slot
                os.pwrite(descriptor, slot.content, 0)
                os.ftruncate(descriptor, len(slot.content))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SettingsError(f"{self._file}: {error.strerror}", _ELSEWHERE) from None

    def close(self) -> None:
        """Do nothing: no file is open between two operations."""

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._file, flags, 0o600)
        except FileNotFoundError:
            _make_private(self._file.parent)
            return os.open(self._file, flags, 0o600)


def _remove_idle(folder: Path) -> None:
    """Remove files that were idle for a day; every sandbox leaves one, because each has its own port."""
    for file in folder.glob("*.throttle"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _IDLE_SECONDS:
                file.unlink()


def _make_private(folder: Path) -> None:
    """Make the folder, or check that it is ours, because another user may have made one of this name."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise SettingsError(f"{folder}: {error.strerror}", _ELSEWHERE) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise SettingsError(f"{folder} is not a folder that only you can write to", _ELSEWHERE)


_CONNECTION: dict[str, Any] = {
    "application_name": "firmlake",
    "connect_timeout": 10,
    "tcp_user_timeout": 15_000,  # ms; for a server that vanished without closing the connection
}
_SESSION = """
    SET lock_timeout = '10s';
    SET statement_timeout = '15s';
    SET idle_in_transaction_session_timeout = '10s'
"""
"""The last setting releases the row from a stalled process, whose change is then lost."""
_IS_THERE = "SELECT to_regclass('firmlake_throttle') IS NOT NULL"
_CREATE = """
    SELECT pg_advisory_xact_lock(hashtext('firmlake_throttle'));
    CREATE TABLE IF NOT EXISTS firmlake_throttle (key text PRIMARY KEY, content bytea NOT NULL DEFAULT '');
    COMMENT ON TABLE firmlake_throttle IS 'Requests sent with each key of the company-data service; made by firmlake'
"""
# The row is returned once its lock is held, so the time is read after that.
_HOLD = """
    INSERT INTO firmlake_throttle (key) VALUES (%s) ON CONFLICT (key) DO UPDATE SET key = excluded.key
    RETURNING content, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint
"""
_KEEP = "UPDATE firmlake_throttle SET content = %s WHERE key = %s"


class PostgresStore:
    """A store in one row. Threads may share it; it connects on first use, and again after a failure.

    The address is a `postgresql://` URL without a password; missing parts come from PGHOST, PGUSER, PGPASSFILE ...
    """

    def __init__(self, address: str, key: str, name: str) -> None:
        self.name = name
        self._address = address
        self._key = key
        self._lock = threading.Lock()
        self._connection: psycopg.Connection | None = None

    @contextmanager
    def hold(self) -> Iterator[Slot]:
        """Lend the state to one caller at a time; see `FileStore.hold`.

        Raises:
            ThrottleStoreError: The server cannot be reached, refuses the login, or the row stays locked.
            SettingsError: The login may not use the table.
        """
        import psycopg

        with self._lock:
            try:
                connection = self._connect()
                with connection.transaction():
                    [(content, now)] = connection.execute(_HOLD, (self._key,)).fetchall()
                    slot = Slot(content, now)
                    yield slot
                    connection.execute(_KEEP, (slot.content, self._key))
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self.close()
                raise ThrottleStoreError(
                    f"{self.name}, which stores the allowance, cannot be used: {_first_line(error)}",
                    "Check the server, api.throttle_store, PGUSER and PGPASSFILE, then run again to continue",
                ) from None
            except psycopg.Error as error:
                self.close()
                raise SettingsError(
                    f"{self.name}, table firmlake_throttle: {_first_line(error)}",
                    "Allow the login of api.throttle_store to create, read and write that table",
                ) from None

    def close(self) -> None:
        """Close the connection."""
        with suppress(Exception):
            if self._connection:
                self._connection.close()
        self._connection = None

    def _connect(self) -> psycopg.Connection:
        if self._connection is None:
            import psycopg

            self._connection = psycopg.connect(self._address, autocommit=True, **_CONNECTION)
            self._connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # stricter ones fail after a wait
            self._connection.execute(_SESSION)
            if self._connection.execute(_IS_THERE).fetchone() != (True,):
                self._connection.execute(_CREATE)
        return self._connection


def _open_postgres_store(address: str, key: str) -> PostgresStore:
    """Make the store for one key; it connects later."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise SettingsError(
            "api.throttle_store names PostgreSQL, which needs the library psycopg", "`pip install 'firmlake[postgres]'`"
        ) from None
    try:
        parts = conninfo_to_dict(address)
    except ProgrammingError:
        raise SettingsError(
            "api.throttle_store is not an address", "Write one such as postgresql://host:5432/name"
        ) from None
    if "password" in parts:
        raise SettingsError(
            "api.throttle_store holds a password, but settings are printed",
            "Put the password into PGPASSFILE or PGPASSWORD",
        )
    return PostgresStore(address, key, f"PostgreSQL at {parts.get('host') or 'PGHOST'}")


def _first_line(error: Exception) -> str:
    return (str(error).strip().partition("\n")[0] or type(error).__name__).rstrip(".")
