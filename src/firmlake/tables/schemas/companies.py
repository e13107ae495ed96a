"""Tables of companies: names and places, the records of each dataset, and the state of each dataset."""

from __future__ import annotations

from firmlake.api.contract import DATASETS
from firmlake.tables.schemas.shape import Column, Table
from firmlake.tables.schemas.shared import COMPANY, DATASET, TAIL, service_columns

__all__ = ["TABLES_OF_COMPANIES"]

_PERIOD = service_columns(
    "financials", "period", ("start_date", "First day of the period"), ("end_date", "Last day of the period")
)
_DUP_NO = Column("dup_no", "integer", "Filing of the period: 0 for the one received first, 1 for the next, ...")

_FINANCIAL_VALUES = service_columns(
    "financials",
    "period",
    ("date_received", "Day the accounts were received"),
    ("health_indicator", "Score of financial health; range and meaning are not specified, so rank only"),
    ("revenue", "Revenue, in the currency of the accounts"),
    ("gross_margin", "Gross margin, in the currency of the accounts"),
    ("ebitda", "Earnings before interest, taxes, depreciation and amortisation"),
    ("ebit", "Earnings before interest and taxes"),
    ("net_profit", "Net profit of the period; negative is a loss"),
    ("cash", "Cash at the end of the period"),
    ("cash_flow", "Cash flow of the period"),
    ("net_working_capital", "Net working capital"),
    ("net_working_capital_requirement", "Net working capital requirement"),
    ("current_ratio", "Current ratio, as the service states it"),
    ("quick_ratio", "Quick ratio, as the service states it"),
    ("total_assets", "Total assets at the end of the period"),
    ("equity", "Equity; may be negative"),
    ("capital", "Capital"),
    ("retained_earnings", "Retained earnings; negative is an accumulated loss"),
    ("debt", "Debt"),
    ("long_term_debt", "Debt due after more than a year"),
    ("long_term_debt_financial", "Of the long-term debt: financial"),
    ("long_term_debt_accounts_payable", "Of the long-term debt: accounts payable"),
    ("short_term_debt", "Debt due within a year"),
    ("short_term_debt_financial", "Of the short-term debt: financial"),
    ("short_term_debt_accounts_payable", "Of the short-term debt: accounts payable"),
    ("employee_count", "Employees"),
    ("new_hire_count", "People hired in the period"),
    ("employee_male_fraction", "Share of employees that are men, 0 to 1"),
    ("employee_female_fraction", "Share of employees that are women, 0 to 1"),
)

TABLES_OF_COMPANIES = (
    Table(
        "companies",
        "One row for each company ever accepted from a list, found or not",
        ("country", "company_number"),
        (
            *COMPANY,
            Column(
                "name",
                "text",
                "Name, in the language of the run",
                "not found or not fetched yet",
                "identifier.name",
                privacy="company",
            ),
            Column(
                "place",
                "text",
                "Place, in the language of the run",
                "not found or not fetched yet",
                "identifier.place",
                privacy="company",
            ),
            Column("fetched_at", "timestamp", "When name and place were received, UTC", "never"),
            Column(
                "paid_at",
                "timestamp",
                "Start of the paid window, in which its requests are free, UTC",
                "never found, so never paid for",
            ),
            Column("run_id", "text", "Run that last asked for the company"),
        ),
        volatile=("fetched_at", "paid_at", "run_id"),
    ),
    Table(
        "financials",
        "One row for each financial period of a company",
        ("country", "company_number", "start_date", "end_date", "dup_no"),
        (
            *COMPANY,
            *_PERIOD,
            _DUP_NO,
            Column("position", "integer", "Place in the service's answer; 0 is the first and usually the newest"),
            *_FINANCIAL_VALUES,
            *TAIL,
        ),
        # New accounts move all earlier ones down by one, which is no change of these.
        volatile=("position",),
    ),
    Table(
        "financial_joint_committees",
        "One row for each joint committee code of a financial period",
        ("country", "company_number", "start_date", "end_date", "dup_no", "position"),
        (
            *COMPANY,
            *_PERIOD,
            _DUP_NO,
            Column("position", "integer", "Place among the codes of the period, 0 first"),
            Column(
                "code",
                "text",
                "Joint committee code; leading zeros count",
                source="financials data[]."
                + DATASETS["financials"].groups["period"].fields["joint_committee_codes"].path,
            ),
            *TAIL[1:],
        ),
        volatile=(),
    ),
    Table(
        "lookalikes",
        "One row for each company that the service finds similar to a company",
        ("country", "company_number", "rank"),
        (
            *COMPANY,
            Column("rank", "integer", "Place in the service's answer, 1 first"),
            *service_columns(
                "lookalikes",
                "lookalike",
                ("lookalike_country", "Country of the similar company"),
                ("lookalike_company_number", "Its company number, in normal form"),
                ("score", "Similarity; between 0 and 1 in the examples"),
            ),
            *TAIL,
        ),
        volatile=(),
    ),
    Table(
        "relationships",
        "One row for each parent or child of a company",
        ("country", "company_number", "direction", "position"),
        (
            *COMPANY,
            Column("direction", "text", "parent: the related party stands above the company; child: below"),
            Column("position", "integer", "Place among the parents or children of the answer, 0 first"),
            Column(
                "related_kind",
                "text",
                "company: it has an identifier; named_party: only a name, such as a person; anonymous: neither; "
                "unknown: the service identifies it in a form we cannot read, see extra_json",
            ),
            *service_columns(
                "relationships",
                "parent",
                ("related_country", "Country of the related company"),
                ("related_company_number", "Its company number, in normal form if there is one"),
                ("related_name", "Name of the related party"),
                ("related_identifier_name", "Name inside its identifier"),
                ("related_place", "Place of the related company"),
                ("function", "Kind of relationship; SHAREHOLDER occurs, others may"),
                ("stake_fraction", "Stake, 0 to 1: in the company for a parent row, in the child for a child row"),
            ),
            *TAIL,
        ),
        volatile=("position",),  # a parent that goes moves all that follow
    ),
    Table(
        "company_state",
        "One row for each company and dataset asked for, with its latest status",
        ("country", "company_number", "dataset"),
        (
            *COMPANY,
            DATASET,
            Column(
                "status",
                "text",
                "reported: there are rows; empty: the service answered and has none; not_found: no such company; "
                "failed: no usable answer; forbidden: the token may not use the dataset; unavailable: the service did "
                "not answer for the dataset (see dead_letters); waiting: not asked, since budget or credits ran out",
            ),
            Column("record_count", "count", "Records of the answer held, without rejected ones", "never answered"),
            Column("reject_count", "count", "Rejected records of the answer held, see rejects", "never answered"),
            Column("payload_hash", "text", "Hash of the records as received; equal means unchanged", "none held"),
            Column("fetched_at", "timestamp", "When the answer held was received, UTC", "never answered"),
            Column("run_id", "text", "Last run that had to ask for the company"),
        ),
        volatile=("fetched_at", "run_id"),
    ),
)
