"""Addresses of object stores, such as s3://bucket/prefix."""

from __future__ import annotations

import re
from typing import Final

from firmlake.core.errors import UsageError

_CREDENTIALS: Final = re.compile(r"[?#]|^[^/]*:[^/]*@")
"""A signature in the query, as Azure hands them out, or a password before the host."""


def check_address(address: str) -> None:
    """Refuse the address of a store that holds credentials, because addresses are printed, logged and recorded.

    Raises:
        UsageError: It holds a password, a query or a fragment. The message does not quote it.
    """
    scheme, _, place = address.partition("://")
    if _CREDENTIALS.search(place):
        raise UsageError(
            f"The {scheme}:// address holds a password, a query or a fragment, but addresses are printed and recorded",
            "Give bucket and path only, and keep credentials in the store's environment variables",
        )
