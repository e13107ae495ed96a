"""A store for the processes of several machines: one PostgreSQL row for each key.

A process locks the row from reading to writing, so processes take turns, and all use the server's time. If the
server's clock is set back, time stands still here until the clock catches up. If it is set forward, slots would be
freed too early, so NTP must adjust the server's clock in small steps.

PostgreSQL was chosen over Redis because the rules stay in `window.py` (Redis would need them in Lua), because grants
survive a crash, and because anyone with several workers already runs PostgreSQL for Prefect.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from firmlake.api.throttle.throttle import Slot
from firmlake.core.errors import SettingsError, ThrottleStoreError

if TYPE_CHECKING:
    import psycopg


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
    CREATE TABLE IF NOT EXISTS firmlake_throttle (
        key text PRIMARY KEY,
        clock bigint NOT NULL DEFAULT 0,
        wall bigint NOT NULL DEFAULT 0,
        content bytea NOT NULL DEFAULT ''
    );
    COMMENT ON TABLE firmlake_throttle IS 'Requests sent with each key of the company-data service; made by firmlake'
"""
# The CTE returns its row only once the lock is held, so the time is read after that.
_HOLD = """
    WITH slot AS MATERIALIZED (SELECT clock, wall, content FROM firmlake_throttle WHERE key = %s FOR UPDATE)
    SELECT clock, wall, content, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint FROM slot
"""
_PEEK = """
    SELECT clock, wall, content, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint
    FROM firmlake_throttle WHERE key = %s
"""
_INSERT = "INSERT INTO firmlake_throttle (key) VALUES (%s) ON CONFLICT DO NOTHING"
_KEEP = "UPDATE firmlake_throttle SET clock = %s, wall = %s, content = %s WHERE key = %s"


class PostgresStore:
    """A store in one row. Threads may share it; it connects on first use, and again after a failure.

    Args:
        address: A `postgresql://` URL without a password; missing parts come from PGHOST, PGUSER, PGPASSFILE ...
        key: Key of the row.
        name: Name of the store, for messages.
    """

    def __init__(self, address: str, key: str, name: str) -> None:
        self.name = name
        self._address = address
        self._key = key
        self._lock = threading.Lock()
        self._connection: psycopg.Connection | None = None

    @contextmanager
    def hold(self) -> Iterator[Slot]:
        """Lend the state to one caller at a time; see `Store`.

        Raises:
            ThrottleStoreError: The server cannot be reached, refuses the login, or the row stays locked.
            SettingsError: The login may not use the table.
        """
        import psycopg

        with self._lock:
            try:
                with self._connect().transaction():
                    clock, wall, content, now = self._read()
                    slot = Slot(content, clock + max(0, now - wall))
                    yield slot
                    self._connect().execute(_KEEP, (slot.now, now, slot.content, self._key))
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

    def peek(self) -> Slot:
        """Return the state over a connection of its own, without locking or making anything; see `Store`.

        Raises:
            ThrottleStoreError: The server cannot be reached, or the table cannot be read.
        """
        import psycopg

        try:
            with psycopg.connect(self._address, autocommit=True, **_CONNECTION) as connection:
                is_there = connection.execute(_IS_THERE).fetchone() == (True,)
                row = connection.execute(_PEEK, (self._key,)).fetchone() if is_there else None
        except psycopg.Error as error:
            raise ThrottleStoreError(f"{self.name} cannot be read: {_first_line(error)}") from None
        clock, wall, content, now = row or (0, 0, b"", 0)
        return Slot(bytes(content), clock + max(0, now - wall))

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

    def _read(self) -> tuple[int, int, bytes, int]:
        while (row := self._connect().execute(_HOLD, (self._key,)).fetchone()) is None:
            self._connect().execute(_INSERT, (self._key,))
        return row


def open_postgres_store(address: str, key: str) -> PostgresStore:
    """Make the store for one key; it connects later.

    Args:
        address: `api.throttle_store`.
        key: Identifies service and token without revealing the token.

    Raises:
        SettingsError: The address is invalid or holds a password, or the library is missing.
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
