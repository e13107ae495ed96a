"""The settings of the sections `export` and `load`: where firmlake delivers the warehouse to."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from firmlake.core.settings_api import SettingsSection

__all__ = ["ExportSettings", "LoadSettings"]


class ExportSettings(SettingsSection, frozen=True):
    """What `firmlake export` writes, where and in which format."""

    target: Annotated[
        str, Meta(description='folder to export to, or an s3://, gs:// or az:// address; "" exports nothing')
    ] = ""
    format: Annotated[
        Literal["parquet", "delta", "iceberg", "csv"],
        Meta(description="file format; csv is for people, and `firmlake query SQL --out FILE.xlsx` makes workbooks"),
    ] = "parquet"
    changes: Annotated[
        bool, Meta(description="export only changed rows, each marked with its change, instead of whole tables")
    ] = False
    tables: Annotated[
        tuple[str, ...], Meta(description="tables to export; [] exports the data, its state and the runs")
    ] = ()
    file_megabytes: Annotated[int, Meta(ge=1, le=256, description="approximate size of a full Parquet file")] = 128
    mask: Annotated[
        dict[str, Literal["drop", "hash"]],
        Meta(
            description='columns to drop, or to replace by a keyed hash: {"relationships.related_name" = "hash"}; '
            "* stands for any table, and person, contact, company or text for all columns of that kind "
            "(docs/privacy.md)"
        ),
    ] = {}  # noqa: RUF012 - msgspec copies it


class LoadSettings(SettingsSection, frozen=True):
    """Which database `firmlake load` writes to."""

    target: Annotated[
        str,
        Meta(
            description="postgres://HOST/DATABASE (without a password), snowflake://ACCOUNT/DATABASE, "
            'bigquery://PROJECT/DATASET or duckdb:FILE; "" loads nothing'
        ),
    ] = ""
    schema: Annotated[str, Meta(min_length=1, max_length=60, description="schema of the tables in that database")] = (
        "firmlake"
    )
    tables: Annotated[
        tuple[str, ...],
        Meta(
            description="tables to load besides those already in the schema; [] loads the data, its state and the runs"
        ),
    ] = ()
