"""The contract as data: the fields of companies and lists. Few other modules spell these (docs/architecture.md).

`Field` maps one of our columns to a place in the service's JSON. Parsing, checks, columns and documentation all derive
from these tables.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

FieldKind = Literal[
    "text", "date", "timestamp", "boolean", "integer", "decimal", "money", "ratio", "fraction", "score", "codes"
]  # fmt: skip
"""Types of values. money has up to 2 decimals, decimal and ratio 4, fraction 6 (0 to 1); score is a float; codes is an
array of texts. No field here is a decimal: the setting `contract.types` turns an integer into one."""


class Field(NamedTuple):
    """One value of a record."""

    path: str  # dotted place in the service's JSON record
    kind: FieldKind
    required: bool = False  # identifies the record, which is rejected without it; others may be null or absent
    is_company_number: bool = False  # a text that services may write as a JSON integer


class Group(NamedTuple):
    """An array of records inside an answer's `data`.

    `elsewhere` are alternative places of the related company's identifier. Each entry maps paths of a record to the
    usual paths, the first of them the usual paths to themselves. If the usual place is empty, the first entry with all
    its paths present is read.
    """

    key: str | None  # in `data`; None if `data` itself is the array
    elsewhere: tuple[dict[str, str], ...] = ()
    is_open: bool = False  # keeps records of another shape, because the specification does not show the shape


class Dataset(NamedTuple):
    """A kind of records that the service offers."""

    is_paged: bool  # whether limit and offset apply and the answer holds `pagination`
    fields: dict[str, Field]  # by column; those of all groups are the same
    groups: dict[str, Group]  # the arrays of records in `data`, by our names


Count = Annotated[int, Meta(ge=0, lt=2**53)]

_FINANCIAL_RECORD = {
    "start_date": Field("startDate", "date", required=True),
    "end_date": Field("endDate", "date", required=True),
    "date_received": Field("dateReceived", "date"),
    "health_indicator": Field("healthIndicator", "integer"),
    "joint_committee_codes": Field("jointCommitteeCodes", "codes"),
    "revenue": Field("profitability.revenue", "money"),
    "gross_margin": Field("profitability.grossMargin", "money"),
    "ebitda": Field("profitability.ebitda", "money"),
    "ebit": Field("profitability.ebit", "money"),
    "net_profit": Field("profitability.netProfit", "money"),
    "cash": Field("liquidity.cash", "money"),
    "cash_flow": Field("liquidity.cashFlow", "money"),
    "net_working_capital": Field("liquidity.netWorkingCapital", "money"),
    "net_working_capital_requirement": Field("liquidity.netWorkingCapitalRequirement", "money"),
    "current_ratio": Field("liquidity.currentRatio", "ratio"),
    "quick_ratio": Field("liquidity.quickRatio", "ratio"),
    "total_assets": Field("solvency.totalAssets", "money"),
    "equity": Field("solvency.equity", "money"),
    "capital": Field("solvency.capital", "money"),
    "retained_earnings": Field("solvency.retainedEarnings", "money"),
    "debt": Field("solvency.debt", "money"),
    "long_term_debt": Field("solvency.longTermDebt", "money"),
    "long_term_debt_financial": Field("solvency.longTermDebtFinancial", "money"),
    "long_term_debt_accounts_payable": Field("solvency.longTermDebtAccountsPayable", "money"),
    "short_term_debt": Field("solvency.shortTermDebt", "money"),
    "short_term_debt_financial": Field("solvency.shortTermDebtFinancial", "money"),
    "short_term_debt_accounts_payable": Field("solvency.shortTermDebtAccountsPayable", "money"),
    "employee_count": Field("people.employees", "integer"),
    "new_hire_count": Field("people.newHires", "integer"),
    "employee_male_fraction": Field("people.employeeMaleRatio", "fraction"),
    "employee_female_fraction": Field("people.employeeFemaleRatio", "fraction"),
}

_LOOKALIKE_ENTRY = {
    "lookalike_country": Field("companyId.country", "text", required=True),
    "lookalike_company_number": Field("companyId.companyNumber", "text", required=True, is_company_number=True),
    "score": Field("score", "score"),
}

# A natural person has `identifier: null` and a name; an anonymous party has neither.
_RELATED_PARTY = {
    "related_country": Field("identifier.country", "text"),
    "related_company_number": Field("identifier.companyNumber", "text", is_company_number=True),
    "related_identifier_name": Field("identifier.name", "text"),
    "related_place": Field("identifier.place", "text"),
    "function": Field("function", "text"),
    "stake_fraction": Field("percentage", "fraction"),
    "related_name": Field("name", "text"),
}

_COUNTRY_KEYS = ("country", "countryCode")
_NUMBER_KEYS = ("companyNumber", "number")
# The specification uses the objects `identifier` and `companyId`, and these keys in objects and requests.
_RELATED_ELSEWHERE = tuple(
    {prefix + country: "identifier.country", prefix + number: "identifier.companyNumber"}
    for prefix in ("identifier.", "companyId.", "")
    for country in _COUNTRY_KEYS
    for number in _NUMBER_KEYS
)

DATASETS = {
    "financials": Dataset(
        True,
        _FINANCIAL_RECORD,
        {"period": Group(None)},
    ),
    "lookalikes": Dataset(
        False,
        _LOOKALIKE_ENTRY,
        {"lookalike": Group(None)},
    ),
    "relationships": Dataset(
        False,
        # The specification does not show children: we assume the shape of parents, with several places for the company.
        _RELATED_PARTY,
        {
            "parent": Group("parents", _RELATED_ELSEWHERE, is_open=True),
            "child": Group("children", _RELATED_ELSEWHERE, is_open=True),
        },
    ),
}

_SERVICE_LIST = {
    "list_id": Field("id", "integer", required=True),
    "name": Field("name", "text"),
    "type": Field("type", "text", required=True),
    "columns": Field("columns", "codes"),
    "is_shared": Field("shared", "boolean"),
    "has_notifications": Field("notifications.enabled", "boolean"),
    "company_count": Field("amountOfCompanies", "integer"),
    "new_result_count": Field("newResults", "integer"),
    "updated_at": Field("updatedAt", "timestamp"),
    "created_at": Field("createdAt", "timestamp"),
    "created_by": Field("createdBy", "text"),
}

RECORDS = {**DATASETS, "service_lists": Dataset(True, _SERVICE_LIST, {"list": Group(None)})}
"""All kinds of records: the datasets of a company, and the lists of the service."""

KNOWN_VALUES = {
    ("relationships", "function"): ("SHAREHOLDER",),
    ("service_lists", "type"): ("STATIC", "SMART"),
    ("service_lists", "columns"): ("activities", "vatNumber", "country", "url", "socials", "description"),
}
"""Known values of open sets, by dataset and column; other values are recorded as drift, never refused."""
