"""Open the throttle named in the settings, or only look at its state."""

from __future__ import annotations

from pathlib import Path

from firmlake.api.throttle.file import find_file_store, open_file_store
from firmlake.api.throttle.forecast import Forecast, forecast
from firmlake.api.throttle.throttle import NoThrottle, SharedThrottle, Store, Throttle, read_window
from firmlake.core.settings import ApiSettings

__all__ = ["look_ahead", "open_throttle"]


def open_throttle(api: ApiSettings, key: str, folder: Path | None = None) -> Throttle:
    """Open the throttle for one key.

    Args:
        api: `requests_per_minute` (0 means no throttle) and `throttle_store`.
        key: `Token.key_hash(api.base_url)`, which identifies service and token without revealing the token.
        folder: Folder for file stores; None takes `firmlake-<uid>` in the system's temp directory.

    Raises:
        SettingsError: The store cannot be used. Correct `api.throttle_store`.
    """
    if api.requests_per_minute == 0:
        return NoThrottle()
    return SharedThrottle(
        _open_store(api.throttle_store, key, folder), api.requests_per_minute, api.retry_wait_max_seconds
    )


def look_ahead(api: ApiSettings, key: str, count: int, folder: Path | None = None) -> Forecast:
    """Forecast the waits of requests that would be sent from now on. Nothing is made, locked or changed.

    Args:
        api: `requests_per_minute`, at least 1, and `throttle_store`.
        key: See `open_throttle`.
        count: The number of requests.
        folder: See `open_throttle`.

    Raises:
        SettingsError: The store cannot be used. Correct `api.throttle_store`.
        ThrottleStoreError: The store cannot be reached.
    """
    store = _open_store(api.throttle_store, key, folder, is_made=False)
    held = store.peek()
    limit = api.requests_per_minute
    return forecast(read_window(held, limit, store.name), limit, count, held.now)


# ---------------------------------------------------------------------------------------------------------------------


def _open_store(store: str, key: str, folder: Path | None, *, is_made: bool = True) -> Store:
    if store == "file":
        return open_file_store(key, folder) if is_made else find_file_store(key, folder)
    from firmlake.api.throttle.postgres import open_postgres_store

    return open_postgres_store(store, key)
