"""Tables of companies: names and places, the records of each dataset, and the state of each dataset."""

from __future__ import annotations

from firmlake.api.contract import DATASETS
from firmlake.tables.schemas.shape import Column, Table
from firmlake.tables.schemas.shared import COMPANY, DATASET, FETCHED, FETCHED_BY, TAIL, service_columns

__all__ = ["TABLES_OF_COMPANIES"]

_PERIOD = service_columns(
    "financials", ("start_date", "First day of the period"), ("end_date", "Last day of the period")
)
_DUP_NO = Column(
    "dup_no",
    "integer",
    "Number of the filing: a period can be filed again, and 0 is the filing received first. "
    "A filing without a day of receipt counts as the oldest; of filings received on the same day, the answer names the "
    "newest first",
)

_FINANCIAL_VALUES = service_columns(
    "financials",
    ("date_received", "Day on which the accounts were received, according to the service"),
    (
        "health_indicator",
        "Financial health score of the service; its range and meaning are not specified, so use it for ranking only",
    ),
    ("revenue", "Revenue of the period"),
    ("gross_margin", "Gross margin of the period, as an amount"),
    ("ebitda", "EBITDA of the period: earnings before interest, taxes, depreciation and amortisation"),
    ("ebit", "EBIT of the period: earnings before interest and taxes"),
    ("net_profit", "Net profit of the period; a loss is negative"),
    ("cash", "Cash at the end of the period"),
    ("cash_flow", "Cash flow of the period"),
    ("net_working_capital", "Net working capital at the end of the period"),
    ("net_working_capital_requirement", "Net working capital requirement at the end of the period"),
    ("current_ratio", "Current ratio, as computed by the service"),
    ("quick_ratio", "Quick ratio, as computed by the service"),
    ("total_assets", "Total assets at the end of the period"),
    ("equity", "Equity at the end of the period; may be negative"),
    ("capital", "Capital at the end of the period"),
    ("retained_earnings", "Retained earnings at the end of the period; an accumulated loss is negative"),
    ("debt", "Total debt at the end of the period"),
    ("long_term_debt", "Part of the debt that is due after more than a year"),
    ("long_term_debt_financial", "Financial part of the long-term debt"),
    ("long_term_debt_accounts_payable", "Accounts payable within the long-term debt"),
    ("short_term_debt", "Part of the debt that is due within a year"),
    ("short_term_debt_financial", "Financial part of the short-term debt"),
    ("short_term_debt_accounts_payable", "Accounts payable within the short-term debt"),
    ("employee_count", "Number of employees"),
    ("new_hire_count", "Number of people hired in the period"),
    ("employee_male_fraction", "Share of employees who are men, 0 to 1"),
    ("employee_female_fraction", "Share of employees who are women, 0 to 1"),
)

TABLES_OF_COMPANIES = (
    Table(
        "companies",
        "One row for each company that a run planned to fetch, found or not",
        ("country", "company_number"),
        (
            *COMPANY,
            Column(
                "name",
                "text",
                "Name of the company, in the language of the run",
                "never found",
                "identifier.name",
                privacy="company",
            ),
            Column(
                "place",
                "text",
                "Place of the company, in the language of the run",
                "never found",
                "identifier.place",
                privacy="company",
            ),
            Column(
                "fetched_at",
                "timestamp",
                "Time at which name and place were received, UTC",
                "never found",
            ),
            Column(
                "paid_at",
                "timestamp",
                "Start of the newest paid window, UTC: for run.credit_window_days from then on, requests for the "
                "company are free",
                "never found, so never paid for",
            ),
            Column("run_id", "text", "Last run that planned to fetch the company"),
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
            Column(
                "position",
                "integer",
                "Position of the period in the service's answer, from 0; 0 is usually the newest period",
            ),
            *_FINANCIAL_VALUES,
            *TAIL,
        ),
        # New accounts move all earlier ones down by one. That does not change the earlier accounts.
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
            Column("position", "integer", "Position among the codes of the period, from 0"),
            Column(
                "code",
                "text",
                "Joint committee code as the service spells it, leading zeros included",
                source="financials data[]." + DATASETS["financials"].fields["joint_committee_codes"].path,
            ),
            FETCHED,
            FETCHED_BY,
        ),
        volatile=(),
    ),
    Table(
        "lookalikes",
        "One row for each company that the service finds similar to a company",
        ("country", "company_number", "rank"),
        (
            *COMPANY,
            Column("rank", "integer", "Position in the service's answer, from 1"),
            *service_columns(
                "lookalikes",
                ("lookalike_country", "Country of the similar company"),
                ("lookalike_company_number", "Company number of the similar company, in normal form"),
                ("score", "Similarity score of the service; expected from 0 to 1, but larger scores are kept"),
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
            Column(
                "direction",
                "text",
                "parent: the related party is above the company; child: the related party is below it",
            ),
            Column("position", "integer", "Position among the parents or children in the service's answer, from 0"),
            Column(
                "related_kind",
                "text",
                "company: the related party has a company number; named_party: it has only a name, such as a person; "
                "anonymous: it has neither; unknown: firmlake cannot read how the service identifies it, see "
                "extra_json",
            ),
            *service_columns(
                "relationships",
                ("related_country", "Country of the related company"),
                (
                    "related_company_number",
                    "Company number of the related company, in normal form if its country has one",
                ),
                ("related_name", "Name of the related party"),
                ("related_identifier_name", "Name of the related company, from its identifier"),
                ("related_place", "Place of the related company"),
                ("function", "Kind of relationship: SHAREHOLDER, or another value of the service"),
                (
                    "stake_fraction",
                    "Stake as a fraction, 0 to 1: for a parent, its stake in the company; for a child, the stake in "
                    "the child",
                ),
            ),
            *TAIL,
        ),
        volatile=("position",),  # a parent that leaves moves all that follow
    ),
    Table(
        "company_state",
        "One row for each company and dataset that a run planned to fetch, with its latest status",
        ("country", "company_number", "dataset"),
        (
            *COMPANY,
            DATASET,
            Column(
                "status",
                "text",
                "reported: the service has records; empty: it has none; not_found: it does not know the company; "
                "failed: no usable answer; forbidden: the token may not use the dataset; unavailable: the service did"
                " not answer for the dataset (see dead_letters); waiting: not requested, because budget or credits "
                "ran out",
            ),
            Column(
                "record_count",
                "count",
                "Records in the newest usable answer, without rejected ones",
                "no usable answer yet",
            ),
            Column(
                "reject_count",
                "count",
                "Rejected records in the newest usable answer, see rejects",
                "no usable answer yet",
            ),
            Column(
                "payload_hash",
                "text",
                "Hash of the records as received; equal hashes mean equal records",
                "no usable answer yet",
            ),
            Column(
                "fetched_at",
                "timestamp",
                "Time at which the newest usable answer was received, UTC",
                "no usable answer yet",
            ),
            Column("run_id", "text", "Last run that planned to fetch this dataset of the company"),
        ),
        volatile=("fetched_at", "run_id"),
    ),
)
