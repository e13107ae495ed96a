"""Which throttle the settings ask for."""

from __future__ import annotations

from pathlib import Path

from firmlake.api.throttle.file import open_file_store
from firmlake.api.throttle.throttle import NoThrottle, SharedThrottle, Store, Throttle
from firmlake.core.settings import ApiSettings

__all__ = ["open_throttle"]


def open_throttle(api: ApiSettings, key: str, folder: Path | None = None) -> Throttle:
    """Make the throttle for one key.

    Args:
        api: `requests_per_minute` (0 means none) and `throttle_store`.
        key: Names service and token without giving the token away: `Token.key_hash(api.base_url)`.
        folder: As for `open_file_store`.

    Raises:
        SettingsError: The store cannot be used as it is set.
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
