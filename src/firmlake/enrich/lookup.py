"""Look up one company: fetch it in a run of its own, publish that run like any other, and read the company back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from firmlake.api import service
from firmlake.core.company import Company
from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings, change_settings
from firmlake.core.work import lock, utc_now
from firmlake.enrich.events import follow
from firmlake.enrich.plan import plan_companies
from firmlake.enrich.run import run_plan, shortfall
from firmlake.landing.run import LOOKUP
from firmlake.privacy.tombstones import Subject, lift
from firmlake.tables.schemas import COMPANY_TABLES, TABLES
from firmlake.warehouse.generations import open_warehouse


class HeldCompany(NamedTuple):
    """What the warehouse holds about a company after a lookup."""

    company: Company
    name: str | None
    place: str | None
    is_found: bool
    tables: dict[str, pl.DataFrame]  # the rows of the company, by table
    rejects: list[tuple[str, str, str]]  # records and values of this run that did not fit: dataset, path, reason
    shortfall: FirmlakeError | None  # what the run left undone, as an error; None if the answers are complete


def fetch_company(settings: Settings, company: Company, datasets: Sequence[str]) -> HeldCompany:
    """Fetch a company, even if it is fresh, and publish the answers. This costs a credit outside its paid window.

    If nothing could be published (FirmlakeError), landed answers are kept; the same call resumes from them.
    """
    run = {"datasets": tuple(datasets), "refresh_after_days": 0, "expand": "", "sample": 0, "fail_on": "any"}
    settings = change_settings(settings, {f"run.{name}": value for name, value in run.items()})
    name = f"{LOOKUP}{company}"
    frame = pl.DataFrame([company], schema=["country", "company_number"], orient="row")
    folders = Folders(Path(settings.paths.data))
    service.check_access(settings)
    with lock(folders, name):
        # Naming a forgotten company explicitly lifts its tombstone.
        lift(settings.privacy, folders, Subject("company", "", company))
        published = follow(run_plan(settings, lambda: plan_companies(settings, frame, name, utc_now()), utc_now))
    assert published, "a lookup always has a company to ask for"
    return _read(folders, company, datasets, published.run.run_id, shortfall([published]))


def as_content(found: HeldCompany) -> dict[str, Any]:
    """Convert a lookup to plain values for JSON. Amounts become strings, so that they stay exact."""
    tables = {table: frame.to_dicts() for table, frame in found.tables.items()}
    return {
        **found.company._asdict(), "is_found": found.is_found, "name": found.name, "place": found.place,
        "tables": tables, "rejects": found.rejects,
    }  # fmt: skip


def _read(
    folders: Folders, company: Company, datasets: Sequence[str], run_id: str, undone: FirmlakeError | None
) -> HeldCompany:
    tables = {}
    with open_warehouse(folders, with_held=True) as connection:
        for table in (table for dataset in datasets for table in COMPANY_TABLES[dataset]):
            # The names are our own, never data.
            order = ", ".join(name for name in TABLES[table].key if name not in company._fields)
            query = (
                f"SELECT * EXCLUDE (country, company_number, run_id, valid_from_run) FROM {table} "  # noqa: S608
                f"WHERE country = ? AND company_number = ? ORDER BY {order}"
            )
            tables[table] = pl.DataFrame(connection.sql(query, params=[*company]).to_arrow_reader())
        names = connection.execute(_NAMES, [*company]).fetchall()
        rejects = connection.execute(_REJECTS, [run_id]).fetchall()
        states = connection.execute(_STATES, [*company]).fetchall()
    name, place = names[0] if names else (None, None)
    is_found = any(status in ("reported", "empty") for (status,) in states) or any(t.height for t in tables.values())
    return HeldCompany(company, name, place, is_found, tables, rejects, undone)


_NAMES = "SELECT name, place FROM companies WHERE country = ? AND company_number = ?"
_REJECTS = "SELECT dataset, path, reason FROM rejects WHERE run_id = ? ORDER BY ALL"
_STATES = "SELECT status FROM company_state WHERE country = ? AND company_number = ?"
