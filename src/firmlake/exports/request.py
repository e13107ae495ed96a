"""The request for an export, from the settings and the command line."""

from __future__ import annotations

import msgspec

from firmlake.core.errors import UsageError
from firmlake.core.settings import PrivacySettings, Settings
from firmlake.exports.masking import check_mask
from firmlake.exports.selection import EXPORTED_TABLES
from firmlake.exports.table_files import FORMATS

__all__ = ["ExportRequest", "check_request", "request_of"]

TABLE_FORMATS = {"delta": "Delta Lake", "iceberg": "Iceberg"}
"""Formats that are tables with versions instead of files."""


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to export.

    Attributes:
        mode: `whole`; `changes` since the last export, or `whole` if these are no longer known; `as_of`, the state
            after the run `as_of`.
        format: A key of `FORMATS`, or one of `TABLE_FORMATS`.
        file_bytes: Approximate size of a Parquet file.
        company_list: Restricts the tables to the companies of this list; empty for all companies.
        mask: "drop" or "hash" by pattern of columns; see `masking`.
        privacy: Where the key of the hashes is.
    """

    mode: str = "whole"
    format: str = "parquet"
    as_of: str = ""
    tables: tuple[str, ...] = EXPORTED_TABLES
    file_bytes: int = 128_000_000
    memory_limit: str = "224MB"
    company_list: str = ""
    mask: dict[str, str] = {}
    privacy: PrivacySettings = PrivacySettings()


def request_of(settings: Settings, as_of: str = "", company_list: str = "") -> ExportRequest:
    """Make a request from the settings; `as_of` names a run, `company_list` a list."""
    wanted = settings.export
    return ExportRequest(
        mode="as_of" if as_of else "changes" if wanted.changes else "whole",
        format=wanted.format,
        as_of=as_of,
        tables=wanted.tables or EXPORTED_TABLES,
        file_bytes=wanted.file_megabytes * 1_000_000,
        memory_limit=settings.run.duckdb_memory,
        company_list=company_list,
        mask=dict(wanted.mask),
        privacy=settings.privacy,
    )


def check_request(request: ExportRequest) -> None:
    """Check the format and the mask of a request.

    Raises:
        UsageError: The format is unknown or does not support the mode, or the mask names no column.
    """
    check_mask(request.mask)
    if request.format not in (*FORMATS, *TABLE_FORMATS):
        known = (*FORMATS, *TABLE_FORMATS)
        raise UsageError(f"There is no format {request.format}", f"Choose one of {', '.join(known)}")
    if request.mode == "changes" and request.company_list:
        raise UsageError(
            "Changes cannot be exported for a single list", "Export the list whole, or the changes of all companies"
        )
    if request.mode == "as_of" and request.format in TABLE_FORMATS:
        raise UsageError(
            f"{TABLE_FORMATS[request.format]} tables keep their own history, so --as-of does not apply",
            "Export as Parquet",
        )
