"""Columns that several tables share."""

from __future__ import annotations

from firmlake.api.contract import DATASETS
from firmlake.tables.schemas.shape import Column, Privacy

__all__ = [
    "ASKED", "CAUSE", "COMPANY", "DATASET", "EXTRA", "FETCHED", "FETCHED_BY", "LINE", "NOT_STATED", "REQUEST", "RUN",
    "TAIL", "service_columns",
]  # fmt: skip

NOT_STATED = "the service states no usable value"

COMPANY = (
    Column("country", "text", "Country of the company: BE, NL or FR"),
    Column(
        "company_number",
        "text",
        "Company number in normal form, digits only: 10 for BE, 8 for NL (KVK), 9 for FR (SIREN)",
        privacy="company",
    ),
)
EXTRA = Column(
    "extra_json",
    "json",
    "JSON object of values that are in no column, by dotted path: fields unknown to firmlake, and values that do not "
    "fit their column",
    "there are none",
    privacy="text",
)
FETCHED = Column("fetched_at", "timestamp", "Time at which the answer was received, UTC")
FETCHED_BY = Column("run_id", "text", "Run that fetched the row")
TAIL = (EXTRA, FETCHED, FETCHED_BY)
LINE = Column("line", "integer", "Line number in the file (row number in a worksheet), from 1; titles and header count")


_PRIVACY: dict[str, Privacy] = {
    "lookalike_company_number": "company",
    "related_company_number": "company",
    "related_identifier_name": "company",
    "related_place": "company",
    "related_name": "person",
}
"""The fields of records that may tell something about a natural person."""


def service_columns(dataset: str, *described: tuple[str, str]) -> tuple[Column, ...]:
    """Make the columns of fields of a record, with source and kind from the contract."""
    fields, first_group = DATASETS[dataset].fields, next(iter(DATASETS[dataset].groups.values()))
    start = f"data[].{first_group.key}[]." if first_group.key else "data[]."
    return tuple(
        Column(
            name,
            fields[name].kind,
            meaning,
            "" if fields[name].required else NOT_STATED,
            f"{dataset} {start}{fields[name].path}",
            _PRIVACY.get(name, ""),
        )
        for name, meaning in described
    )


DATASET = Column("dataset", "text", "Dataset: financials, lookalikes or relationships")
ASKED = Column(
    "dataset", "text", "What was requested: financials, lookalikes, relationships, service_lists or contacts"
)
RUN = Column("run_id", "text", "Id of the run, which begins with its start time in UTC")
CAUSE = Column(
    "run_id",
    "text",
    "Id of what caused the row: a run, an overview of the service lists, a plan of contacts or the renaming of a list. "
    "It begins with the start time in UTC",
)
REQUEST = Column("request_id", "text", "Id of the request that led to this row", "no request led to it")
