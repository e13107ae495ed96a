"""Addresses of exports as other warehouses spell them."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from firmlake.core.errors import UsageError

__all__ = ["address_for"]

_AZURE = ("az", "abfss")


def address_for(dialect: str, url: str) -> str:
    """Return the address of an export as a warehouse spells it.

    Snowflake writes `gcs://` for Google's store and `azure://ACCOUNT.blob.core.windows.net/CONTAINER` for Azure's;
    Databricks writes `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net`. An `az://` address does not name the account,
    which then comes from AZURE_STORAGE_ACCOUNT_NAME. The export reads the account from the same variable.

    Raises:
        UsageError: Neither the address nor the environment names the account.

    Example:
        >>> address_for("snowflake", "gs://bucket/firmlake")
        'gcs://bucket/firmlake'
    """
    scheme = url.partition("://")[0]
    if scheme == "gs" and dialect == "snowflake":
        return f"gcs{url.removeprefix('gs')}"
    if scheme not in _AZURE or dialect not in ("snowflake", "databricks"):
        return url
    container, host, path = _azure(url)
    if dialect == "snowflake":
        return f"azure://{host.replace('.dfs.', '.blob.', 1)}/{container}{path}"
    return f"abfss://{container}@{host.replace('.blob.', '.dfs.', 1)}{path}"


def _azure(url: str) -> tuple[str, str, str]:
    """Return container, host and path of an Azure address: `az://CONTAINER/PATH` or `abfss://CONTAINER@HOST/PATH`."""
    parts = urlsplit(url)
    container, _, host = parts.netloc.partition("@")
    if not host:
        account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME") or os.environ.get("AZURE_STORAGE_ACCOUNT")
        if not account:
            raise UsageError(
                f"{url} does not name its storage account, which the script needs",
                "Set AZURE_STORAGE_ACCOUNT_NAME, or export to abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
            )
        host = f"{account}.dfs.core.windows.net"
    return container, host, parts.path
