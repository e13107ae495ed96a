"""Detect a list that takes the name of another list: two files or pipes may have the same name.

Their folders do not help, because a folder may be named after a date. So the companies are compared: a list changes
only gradually from one version to the next. A list that only lost companies is still the same list;
`enrich/lost.py` looks for companies that were lost by mistake.
"""

from __future__ import annotations

from typing import NamedTuple

from firmlake.core.folders import Folders
from firmlake.core.settings import Settings
from firmlake.intake.company_list import CompanyList
from firmlake.intake.key import KEY_SQL, company_key
from firmlake.intake.members import list_name_of
from firmlake.warehouse.generations import newest, open_warehouse

__all__ = ["OtherList", "find_other_list"]


class OtherList(NamedTuple):
    """The held version of a list that has little in common with the file about to replace it.

    Attributes:
        name: The name of the list.
        run_id: The run that read the held version.
        company_count: The companies of the held version.
        shared_count: The companies that the file has too.
    """

    name: str
    run_id: str
    company_count: int
    shared_count: int


def find_other_list(settings: Settings, companies: CompanyList) -> OtherList | None:
    """Find the list that a file would replace although the file seems to be a different list.

    Returns:
        The list; None if no list has that name, or if both share at least half the companies of the smaller one.
    """
    folders, name = Folders.of(settings), settings.run.list_name or list_name_of(companies.path)
    if newest(folders) is None:
        return None
    with open_warehouse(folders, memory_limit=settings.run.duckdb_memory) as connection:
        connection.register("given", companies.companies.select(company_key().alias("company")).to_arrow())
        rows = connection.execute(_HELD, [name]).fetchall()
    found = OtherList(*rows[0]) if rows else None
    if found is None or 2 * found.shared_count >= min(found.company_count, companies.companies.height):
        return None
    return found


_HELD = f"""
    SELECT list_name, run_id, company_count, (
        SELECT count(*) FROM given SEMI JOIN (
            SELECT {KEY_SQL} AS company FROM list_members m
            WHERE m.list_name = l.list_name AND company_number IS NOT NULL
        ) USING (company)
    )
    FROM company_lists l WHERE lower(list_name) = lower(?)
"""  # noqa: S608 - constants of this module only
