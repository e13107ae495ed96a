"""What others run on an export: the SQL script that loads it into a warehouse (`--ddl`), a sources file for dbt.

templates/*.sql          the statements that load a table, for each warehouse
templates/sources.yml    the sources file
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import jinja2
import msgspec

from firmlake.core.errors import UsageError
from firmlake.delivery.database import DIALECTS, Dialect
from firmlake.delivery.files import folder_of
from firmlake.delivery.record import DeliveredTable, Record

UTILS_TEST = ("dbt_utils.unique_combination_of_columns", "combination_of_columns")
"""The dbt test of a key of several columns: its name, and its argument with the columns."""
_WARN_DAYS, _ERROR_DAYS = 8, 15
"""A weekly run is late by one run, or by two."""


def render_ddl(manifest: Record, url: str, dialect: str) -> str:
    """Write the script that creates the tables of an export and loads them.

    Raises UsageError if the warehouse cannot read this format or this place.
    """
    warehouse = DIALECTS[dialect]
    if manifest.format != "parquet":
        raise UsageError(f"{dialect} loads parquet, not {manifest.format}", "Add --format parquet")
    folder = f"{address_for(dialect, url)}/{folder_of(manifest.delivery_id)}"
    parts = [f"-- Export {manifest.delivery_id}, for {dialect}. Made by firmlake; run it with your own rights."]
    for table in manifest.tables:
        name = table.name + ("_changes" if manifest.mode == "changes" else "")
        parts += [f"{statement};" for statement in _create(name, table, warehouse)]
        if table.files:
            parts.append(_load(name, table, folder, dialect, replaces=manifest.mode != "changes"))
    return "\n\n".join(parts) + "\n"


def render_sources(manifest: Record) -> str:
    """Write a sources file for dbt with the tables of an export; a longer key has a test of the package dbt_utils."""
    return sources_file(
        f"Made by firmlake from export {manifest.delivery_id}. `dbt deps` must find dbt_utils.",
        _quoted(f"Companies as exported by firmlake {manifest.firmlake_version}"),
        manifest.tables,
        suffix="_changes" if manifest.mode == "changes" else "",
    )


def sources_file(
    comment: str,
    meaning: str,
    tables: Sequence[DeliveredTable],
    *,
    suffix: str = "",
    schema: str = "",
    key_test: tuple[str, str] = UTILS_TEST,
) -> str:
    """Write a sources file for dbt: comments, tests of keys and nulls, freshness.

    Freshness is measured by the newest answer in `company_state`. Every column that is never null has a `not_null`
    test, and a key of one column a `unique` test.
    """
    values = {"suffix": suffix, "schema": schema, "key_test": key_test, "tables": tables}
    days = {"warn_days": _WARN_DAYS, "error_days": _ERROR_DAYS}
    return _render("sources.yml", comment=comment, meaning=meaning, **values, **days) + "\n"


def _create(name: str, table: DeliveredTable, dialect: Dialect) -> Iterator[str]:
    if dialect is DIALECTS["bigquery"]:  # it takes the country from the path, and what it takes from a path may be null
        columns = (msgspec.structs.replace(c, nullable=c.nullable or c.name == "country") for c in table.columns)
        table = msgspec.structs.replace(table, columns=tuple(columns))
    yield dialect.create_table(name, table, "IF NOT EXISTS ")
    yield from dialect.comments(name, table)


def _load(name: str, table: DeliveredTable, folder: str, warehouse: str, *, replaces: bool) -> str:
    dialect = DIALECTS[warehouse]
    countries = sorted({file.country for file in table.files if file.country})
    types = {column.name: dialect.type(column.type) for column in table.columns}
    return _render(
        f"{warehouse}.sql",
        name=name,
        replaces=replaces,
        countries=countries,
        columns={column: kind for column, kind in types.items() if column != "country" or not countries},
        all_columns=dialect.names(table),
        at=lambda path="/": dialect.literal(f"{folder}/{table.name}{path}"),
    )


def _render(template: str, **values: object) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=False,  # noqa: S701 - SQL and YAML, from our own names
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["quoted"] = _quoted
    return environment.get_template(template).render(values).rstrip("\n")


def _quoted(text: str) -> str:
    """Quote a text for YAML, which takes JSON's strings."""
    return json.dumps(text, ensure_ascii=False)


def address_for(warehouse: str, url: str) -> str:
    """Return the address of an export as a warehouse spells it; UsageError if it cannot load from there.

    An `az://` address does not name the account, which then comes from AZURE_STORAGE_ACCOUNT_NAME. The export reads the
    account from the same variable.
    """
    parts, spelled = urlsplit(url), DIALECTS[warehouse].addresses
    if parts.scheme not in spelled:
        names = " or ".join(f"{scheme}://" for scheme in spelled)
        raise UsageError(f"{warehouse} cannot load from {url}", f"Export to {names}")
    container, _, host = parts.netloc.partition("@")
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME") or os.environ.get("AZURE_STORAGE_ACCOUNT")
    if "{container}" in spelled[parts.scheme] and not host and not account:
        raise UsageError(
            f"{url} does not name its storage account, which the script needs",
            "Set AZURE_STORAGE_ACCOUNT_NAME, or export to abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
        )
    host = host or f"{account}.dfs.core.windows.net"
    return spelled[parts.scheme].format(
        place=f"{parts.netloc}{parts.path}",
        container=container,
        blob=host.replace(".dfs.", ".blob.", 1),
        dfs=host.replace(".blob.", ".dfs.", 1),
        path=parts.path,
    )
