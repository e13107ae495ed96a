"""Open the throttle that the settings ask for."""

from __future__ import annotations

from pathlib import Path

from firmlake.api.throttle.file import open_file_store
from firmlake.api.throttle.throttle import NoThrottle, SharedThrottle, Store, Throttle
from firmlake.core.settings import ApiSettings

__all__ = ["open_throttle"]


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


def _open_store(store: str, key: str, folder: Path | None) -> Store:
    if store == "file":
        return open_file_store(key, folder)
    from firmlake.api.throttle.postgres import open_postgres_store

    return open_postgres_store(store, key)
