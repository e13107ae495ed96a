"""Remove forgotten subjects from a company list, so that no run pays for a forgotten company."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from firmlake.core.company import Company
from firmlake.core.errors import CompanyListError
from firmlake.intake.company_list import CompanyList, choose_from
from firmlake.intake.members import Members
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.frames import LINE_FORGOTTEN, clean_frame

__all__ = ["clean_members", "without_forgotten"]


def without_forgotten(companies: CompanyList, forgotten: Forgotten | None) -> CompanyList:
    """Refuse the lines of a list that name a forgotten company, and clean the kept columns of all other lines.

    Raises:
        CompanyListError: All companies of the list are forgotten.
    """
    if forgotten is None:
        return companies
    gone = [
        line
        for country, number, line in companies.companies.select("country", "company_number", "line").iter_rows()
        if forgotten.has_company(Company(country, number))
    ]
    if gone and len(gone) == companies.companies.height:
        raise CompanyListError(
            f"{companies.path}: every company on the list was forgotten",
            "To fetch one again, name it with `firmlake company`",
        )
    if gone:
        companies = choose_from(companies, companies.companies.filter(~pl.col("line").is_in(gone)))
    lines = pl.DataFrame({"line": gone}, schema={"line": companies.refused.schema["line"]})
    refused = lines.with_columns(given=pl.lit(None, pl.String), reason=pl.lit(LINE_FORGOTTEN))
    return replace(
        companies,
        repaired=clean_frame(companies.repaired, forgotten),
        refused=clean_frame(pl.concat([companies.refused, refused]).sort("line"), forgotten),
    )


def clean_members(members: Members, forgotten: Forgotten | None) -> Members:
    """Clean the lines of a list while they are read."""
    if forgotten is None:
        return members
    return members._replace(batches=(clean_frame(batch, forgotten) for batch in members.batches))
