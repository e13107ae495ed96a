"""Where the processes of several machines keep count of an allowance: one row of PostgreSQL for each key.

A process holds the row's lock from reading to writing, so that all of them take their turns, and the time is the
server's. A clock that is set back stands still here until it is where it was; one that is set forward would give slots
back too early, so the server's clock must be kept by NTP in small steps, as servers' are.

PostgreSQL rather than Redis: the rules stay in `window.py` (Redis would want them again in Lua), a grant that was given
is not forgotten in a crash, and who runs several workers has one already, for Prefect.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from firmlake.api.throttle.throttle import Held
from firmlake.core.errors import SettingsError, ThrottleStoreError

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresStore", "open_postgres_store"]

_CONNECTION: dict[str, Any] = {
    "application_name": "firmlake",
    "connect_timeout": 10,
    "tcp_user_timeout": 15_000,  # ms; a machine that has gone without a word
}
_SESSION = """
    SET lock_timeout = '10s';
    SET statement_timeout = '15s';
    SET idle_in_transaction_session_timeout = '10s'
"""
"""The last one takes the row from a process that stands still while it holds it; what it wanted to write is dropped."""
_IS_THERE = "SELECT to_regclass('firmlake_throttle') IS NOT NULL"
_CREATE = """
    SELECT pg_advisory_xact_lock(hashtext('firmlake_throttle'));
    CREATE TABLE IF NOT EXISTS firmlake_throttle (
        key text PRIMARY KEY,
        clock bigint NOT NULL DEFAULT 0,
        wall bigint NOT NULL DEFAULT 0,
        content bytea NOT NULL DEFAULT ''
    );
    COMMENT ON TABLE firmlake_throttle IS 'Requests sent with each key of the company-data service; made by firmlake'
"""
# The CTE gives its row only when that is locked, so that the time is read afterwards.
_HOLD = """
    WITH held AS MATERIALIZED (SELECT clock, wall, content FROM firmlake_throttle WHERE key = %s FOR UPDATE)
    SELECT clock, wall, content, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint FROM held
"""
_INSERT = "INSERT INTO firmlake_throttle (key) VALUES (%s) ON CONFLICT DO NOTHING"
_KEEP = "UPDATE firmlake_throttle SET clock = %s, wall = %s, content = %s WHERE key = %s"


class PostgresStore:
    """A store in one row. Threads may share it; it is connected when it is first used, and again after a failure.

    Args:
        address: A `postgresql://` URL without a password; what it leaves out comes from PGHOST, PGUSER, PGPASSFILE ...
        key: The row's.
        name: For messages.
    """

    def __init__(self, address: str, key: str, name: str) -> None:
        self.name = name
        self._address = address
        self._key = key
        self._lock = threading.Lock()
        self._connection: psycopg.Connection | None = None

    @contextmanager
    def hold(self) -> Iterator[Held]:
        """Hold the state alone; see `Store`.

        Raises:
            ThrottleStoreError: The server cannot be reached, refuses the login, or the row is never free.
            SettingsError: The login may not use the table.
        """
        import psycopg

        with self._lock:
            try:
                with self._connect().transaction():
                    clock, wall, content, now = self._read()
                    held = Held(content, clock + max(0, now - wall))
                    yield held
                    self._connect().execute(_KEEP, (held.now, now, held.content, self._key))
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self.close()
                raise ThrottleStoreError(
                    f"{self.name} keeps count of the allowance and cannot be used: {_first_line(error)}",
                    "See to the server, api.throttle_store and PGUSER, PGPASSFILE; then run again to continue",
                ) from None
            except psycopg.Error as error:
                self.close()
                raise SettingsError(
                    f"{self.name}, table firmlake_throttle: {_first_line(error)}",
                    "Let the login of api.throttle_store make, read and write that table",
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
            self._connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # else waiting ends in an error
            self._connection.execute(_SESSION)
            if self._connection.execute(_IS_THERE).fetchone() != (True,):
                self._connection.execute(_CREATE)
        return self._connection

    def _read(self) -> tuple[int, int, bytes, int]:
        while (row := self._connect().execute(_HOLD, (self._key,)).fetchone()) is None:
            self._connect().execute(_INSERT, (self._key,))
        return row


def open_postgres_store(address: str, key: str) -> PostgresStore:
    """Make the store for one key; nothing is connected yet.

    Args:
        address: `api.throttle_store`.
        key: Names service and token without giving the token away.

    Raises:
        SettingsError: The address holds a password or is none, or the library is missing.
    """
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
        raise SettingsError("api.throttle_store is no address", "For example postgresql://host:5432/name") from None
    if "password" in parts:
        raise SettingsError(
            "api.throttle_store holds a password, and settings are shown", "Put it into PGPASSFILE or PGPASSWORD"
        )
    return PostgresStore(address, key, f"PostgreSQL at {parts.get('host') or 'PGHOST'}")


def _first_line(error: Exception) -> str:
    return (str(error).strip().partition("\n")[0] or type(error).__name__).rstrip(".")
