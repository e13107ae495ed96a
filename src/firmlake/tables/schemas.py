"""Every table, stated once: columns with type, unit, source and meaning, and the key.

Polars and DuckDB schemas, comments and the data dictionary are made from these.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from firmlake.api.contract import DATASETS, Kind

__all__ = [
    "COMPANY_TABLES",
    "KIND_TYPES",
    "TABLES",
    "WAREHOUSE_TABLES",
    "Column",
    "Table",
    "duckdb_type",
    "history_of",
    "polars_schema",
]


class Column(NamedTuple):
    """One column.

    Attributes:
        type: A key of `_TYPES`.
        meaning: What a value says, with its unit.
        null: What null says; empty where a column is never null.
        source: Dotted place in the service's JSON; empty where the value is ours.
    """

    name: str
    type: str
    meaning: str
    null: str = ""
    source: str = ""

    @property
    def comment(self) -> str:
        """The column in one line, for the database and the dictionary."""
        parts = [
            self.meaning,
            f"Null: {self.null}" if self.null else "Never null",
            self.source and f"From {self.source}",
        ]
        return ". ".join(part for part in parts if part) + "."


class Table(NamedTuple):
    """One table: what a row is, which columns name it, and its columns.

    Attributes:
        volatile: Columns whose earlier values are not kept, because a row that differs in nothing else is no other row.
            None: the table keeps no history.
    """

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    volatile: tuple[str, ...] | None = None

    @property
    def content(self) -> tuple[str, ...]:
        """Columns that make a row another one when they change: neither volatile nor where the row comes from."""
        apart = {*(self.volatile or ()), "fetched_at", "run_id", "valid_from_run"}
        return tuple(column.name for column in self.columns if column.name not in apart)


_TYPES: dict[str, tuple[pl.DataType, str]] = {
    "text": (pl.String(), "VARCHAR"),
    "json": (pl.String(), "JSON"),
    "integer": (pl.Int64(), "BIGINT"),
    "count": (pl.Int64(), "BIGINT"),
    "date": (pl.Date(), "DATE"),
    "timestamp": (pl.Datetime("us"), "TIMESTAMP"),
    "boolean": (pl.Boolean(), "BOOLEAN"),
    "money": (pl.Decimal(18, 2), "DECIMAL(18,2)"),
    "ratio": (pl.Decimal(12, 4), "DECIMAL(12,4)"),
    "fraction": (pl.Decimal(9, 6), "DECIMAL(9,6)"),
    "score": (pl.Float64(), "DOUBLE"),
}

KIND_TYPES: dict[Kind, pl.DataType] = {
    "text": pl.String(),
    "date": pl.Date(),
    "codes": pl.List(pl.String()),
    **{kind: _TYPES[kind][0] for kind in ("integer", "money", "ratio", "fraction", "score")},
}


def polars_schema(table: Table) -> pl.Schema:
    """Give the frame schema of a table."""
    return pl.Schema({column.name: _TYPES[column.type][0] for column in table.columns})


def duckdb_type(column: Column) -> str:
    """Give the DuckDB type of a column."""
    return _TYPES[column.type][1]


def history_of(table: Table) -> tuple[Table, Table]:
    """Give a table as the warehouse holds it, with the start of each row, and the table of its superseded rows."""
    current = table._replace(columns=(*table.columns, _VALID_FROM))
    superseded = Table(
        f"{table.name}_history",
        f"Superseded rows of {table.name}, as they stood last: {table.meaning[0].lower()}{table.meaning[1:]}",
        # Two rows that a run closed stood in the table side by side, so its key tells them apart.
        (*table.key, _VALID_TO.name),
        (*current.columns, _VALID_TO),
    )
    return current, superseded


_NOT_STATED = "the service states none"

_KEY = (
    Column("country", "text", "Country of the company: BE, NL or FR"),
    Column("company_number", "text", "Company number in normal form: BE 10 digits, NL 8 (KVK), FR 9 (SIREN)"),
)
_TAIL = (
    Column("extra_json", "json", "Fields of the record that the contract does not know", "there are none"),
    Column("fetched_at", "timestamp", "When the answer was received, UTC"),
    Column("run_id", "text", "Run that fetched the row"),
)


def _service_columns(dataset: str, group: str, *described: tuple[str, str]) -> tuple[Column, ...]:
    """Columns that come straight from a record, with their source and kind taken from the contract."""
    prefix, fields = DATASETS[dataset].groups[group]
    start = f"data[].{prefix}[]." if prefix else "data[]."
    return tuple(
        Column(
            name,
            fields[name].kind,
            meaning,
            "" if fields[name].required else _NOT_STATED,
            f"{dataset} {start}{fields[name].path}",
        )
        for name, meaning in described
    )


_PERIOD = _service_columns(
    "financials", "period", ("start_date", "First day of the period"), ("end_date", "Last day of the period")
)
_DUP_NO = Column("dup_no", "integer", "0 for the first filing of the period in the answer, 1 for a second, ...")

_FINANCIAL_VALUES = _service_columns(
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

_VALID_FROM = Column("valid_from_run", "text", "Run that first brought the row as it stands")
_VALID_TO = Column("valid_to_run", "text", "Run that found it changed or gone; it no longer held from then")

_DATASET = Column("dataset", "text", "financials, lookalikes or relationships")
_ASKED = Column("dataset", "text", "A dataset, service_lists or contacts: what was asked")
_RUN = Column("run_id", "text", "Run, named by its start in UTC")
_CAUSE = Column("run_id", "text", "Run, overview of the lists or plan of contacts, named by its start in UTC")
_LIST = Column("list_id", "integer", "Id of the list at the service")
_OVERVIEW = Column("run_id", "text", "Overview that shows it, named by its start in UTC")
_REQUEST = Column("request_id", "text", "Request whose answer this comes from", "no request was involved")

_ALL = (
    Table(
        "companies",
        "One row for each company ever accepted from a list, found or not",
        ("country", "company_number"),
        (
            *_KEY,
            Column(
                "name", "text", "Name, in the language of the run", "not found or not fetched yet", "identifier.name"
            ),
            Column("place", "text", "Place, likewise", "not found or not fetched yet", "identifier.place"),
            Column("fetched_at", "timestamp", "When name and place were received, UTC", "never"),
            Column(
                "paid_at",
                "timestamp",
                "Start of the window in which its requests are free, UTC",
                "never found, so never paid",
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
            *_KEY,
            *_PERIOD,
            _DUP_NO,
            Column("position", "integer", "Place in the service's answer; 0 is the first, as a rule the newest"),
            *_FINANCIAL_VALUES,
            *_TAIL,
        ),
        # New accounts move all earlier ones down by one, which changes nothing about them.
        volatile=("position",),
    ),
    Table(
        "financial_joint_committees",
        "One row for each joint committee code of a financial period",
        ("country", "company_number", "start_date", "end_date", "dup_no", "position"),
        (
            *_KEY,
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
            *_TAIL[1:],
        ),
        volatile=(),
    ),
    Table(
        "lookalikes",
        "One row for each company that the service finds similar to a company",
        ("country", "company_number", "rank"),
        (
            *_KEY,
            Column("rank", "integer", "Place in the service's answer, 1 first"),
            *_service_columns(
                "lookalikes",
                "lookalike",
                ("lookalike_country", "Country of the similar company"),
                ("lookalike_company_number", "Its company number, in normal form"),
                ("score", "Similarity; between 0 and 1 in the examples"),
            ),
            *_TAIL,
        ),
        volatile=(),
    ),
    Table(
        "relationships",
        "One row for each parent or child of a company",
        ("country", "company_number", "direction", "position"),
        (
            *_KEY,
            Column("direction", "text", "parent: the related party stands above the company; child: below"),
            Column("position", "integer", "Place among the parents or children of the answer, 0 first"),
            Column(
                "related_kind",
                "text",
                "company: identified; named_party: no identifier but a name, such as a person; anonymous: neither",
            ),
            *_service_columns(
                "relationships",
                "parent",
                ("related_country", "Country of the related company"),
                ("related_company_number", "Its company number, in normal form where it has one"),
                ("related_name", "Name of the related party"),
                ("related_identifier_name", "Name inside its identifier"),
                ("related_place", "Place of the related company"),
                ("function", "Kind of relationship; SHAREHOLDER occurs, others may"),
                ("stake_fraction", "Share, 0 to 1; of the company in a parent row, of the child in a child row"),
            ),
            *_TAIL,
        ),
        volatile=("position",),  # one parent fewer moves all that follow
    ),
    Table(
        "company_state",
        "One row for each company and dataset asked for: what came of it last",
        ("country", "company_number", "dataset"),
        (
            *_KEY,
            _DATASET,
            Column(
                "status",
                "text",
                "reported: there are rows; empty: the service answered and has none; not_found: no such company; "
                "failed: no usable answer, see dead_letters; waiting: not asked, budget or credits ran out",
            ),
            Column("record_count", "count", "Records of the answer held, rejected ones left out", "never answered"),
            Column("reject_count", "count", "Records of that answer that did not fit, see rejects", "never answered"),
            Column("payload_hash", "text", "Hash of the records as received; equal means nothing changed", "none held"),
            Column("fetched_at", "timestamp", "When the answer held was received, UTC", "never answered"),
            Column("run_id", "text", "Run that last asked, or would have"),
        ),
        volatile=("fetched_at", "run_id"),
    ),
    Table(
        "dead_letters",
        "One row for each company and dataset that failed in a run",
        ("run_id", "country", "company_number", "dataset"),
        (
            *_KEY,
            _DATASET,
            Column("reason", "text", "Why there is no usable answer"),
            Column("attempt_count", "count", "Requests that were tried for it"),
            _REQUEST,
            Column("failed_at", "timestamp", "When it was given up, UTC"),
            _RUN,
        ),
    ),
    Table(
        "rejects",
        "One row for each record of an answer that does not fit the contract",
        ("run_id", "request_id", "country", "company_number", "dataset", "path", "position"),
        (
            *_KEY,
            _DATASET,
            Column("position", "integer", "Place of the record in the company's answer, 0 first"),
            Column("path", "text", "Field that does not fit"),
            Column("reason", "text", "What is wrong with it"),
            Column("record_json", "text", "The record as received"),
            _REQUEST,
            Column("fetched_at", "timestamp", "When it was received, UTC"),
            _RUN,
        ),
    ),
    Table(
        "refused_lines",
        "One row for each line of a company list that could not be used",
        ("run_id", "line"),
        (
            Column("list_name", "text", "File name of the company list"),
            Column("line", "integer", "Line in the file (row of a sheet), 1 first"),
            Column("given", "text", "What stood there", "nothing"),
            Column("reason", "text", "Why it was refused and what would help"),
            _RUN,
        ),
    ),
    Table(
        "drift",
        "One row for each difference in a run between the answers and the known contract. Records are looked at where "
        "their company's answer is new or changed",
        ("run_id", "dataset", "kind", "path"),
        (
            _ASKED,
            Column(
                "kind", "text", "new_field, vanished_field, new_value, rounded_value, foreign_element or other_count"
            ),
            Column("path", "text", "Dotted place in the service's JSON"),
            Column("example", "text", "First value seen", "the field vanished"),
            Column("record_count", "count", "Records concerned"),
            Column("first_seen_at", "timestamp", "When the first such answer was received, UTC"),
            _CAUSE,
        ),
    ),
    Table(
        "service_lists",
        "One row for each list of the service, as its newest overview shows it",
        ("list_id",),
        (
            _LIST,
            Column("name", "text", "Name of the list", _NOT_STATED, "service_lists data[].name"),
            Column("type", "text", "STATIC or SMART; others may come", source="service_lists data[].type"),
            Column(
                "is_shared", "boolean", "Whether others see the list", _NOT_STATED, source="service_lists data[].shared"
            ),
            Column(
                "has_notifications",
                "boolean",
                "Whether its owner is told of changes",
                _NOT_STATED,
                "service_lists data[].notifications.enabled",
            ),
            Column("company_count", "count", "Companies in it", _NOT_STATED, "service_lists data[].amountOfCompanies"),
            Column(
                "new_result_count",
                "count",
                "New results of its filters",
                "a static list has none",
                "service_lists data[].newResults",
            ),
            Column("updated_at", "timestamp", "Last update, UTC", _NOT_STATED, "service_lists data[].updatedAt"),
            Column("created_at", "timestamp", "Creation, UTC", _NOT_STATED, "service_lists data[].createdAt"),
            Column(
                "created_by",
                "text",
                "Who made it: keyed hash of the address, or the address, as lists.created_by wants it",
                "left out, or " + _NOT_STATED,
                "service_lists data[].createdBy",
            ),
            *_TAIL[:2],
            _OVERVIEW,
        ),
        volatile=(),
    ),
    Table(
        "service_list_columns",
        "One row for each column that a list of the service shows",
        ("list_id", "position"),
        (
            _LIST,
            Column("position", "integer", "Place among the columns of the list, 0 first"),
            Column("column_name", "text", "Name of the column; an open set", source="service_lists data[].columns[]"),
            _TAIL[1],
            _OVERVIEW,
        ),
        volatile=(),
    ),
    Table(
        "contact_additions",
        "One row for each contact that was sent to a list of the service: what came of it",
        ("list_id", "country", "company_number", "contact_id"),
        (
            _LIST,
            *_KEY,
            Column("contact_id", "text", "Id of the contact at the service"),
            Column(
                "status",
                "text",
                "added; failed: not added, see message; company_failed: nor was any other of the company in that "
                "request; unknown: no answer says what was done",
            ),
            Column("message", "text", "Why it was not added, or why nothing is known; empty where it was"),
            Column("sent_count", "count", "Requests it was sent in; the service takes a contact twice without harm"),
            Column("lost_count", "count", "Those of them whose answer was lost, or did not say what was done"),
            Column("changed_at", "timestamp", "When the status was learned, or it was sent last, UTC"),
            _REQUEST,
            Column("run_id", "text", "Plan it was sent by, named by when that was made in UTC"),
        ),
    ),
    Table(
        "changes",
        "One row for each event: something that a run found changed about a company",
        ("run_id", "country", "company_number", "position"),
        (
            *_KEY,
            Column("position", "integer", "Place among the events of the company in the run, 0 first"),
            Column(
                "kind",
                "text",
                "company_appeared, company_gone, new_accounts, period_restated, period_removed, health_up, "
                "health_down, parent_in, parent_out, child_in, child_out, stake_changed, lookalike_in or lookalike_out",
            ),
            Column("start_date", "date", "First day of the period", "not about a period"),
            Column("end_date", "date", "Last day of the period", "not about a period"),
            Column("dup_no", "integer", "Which filing of the period, as in financials", "not about a filing"),
            Column("direction", "text", "parent or child", "not about a related party"),
            Column("related_country", "text", "Country of the other company", "none, or not identified"),
            Column("related_company_number", "text", "Its company number", "none, or not identified"),
            Column("related_name", "text", "Name of the related party", "none, or the service states none"),
            Column("old_value", "text", "Before: health indicator, stake (0 to 1) or rank", "none, or not stated"),
            Column("new_value", "text", "After, likewise", "none, or not stated"),
            Column(
                "fields", "json", "Figures that were restated: list of field, old and new", "not about a restatement"
            ),
            Column("run_id", "text", "Run that found it"),
        ),
    ),
    Table(
        "list_changes",
        "One row for each event: something that an overview found changed about a list of the service",
        ("run_id", "list_id", "position"),
        (
            _LIST,
            Column("position", "integer", "Place among the events of the list in the overview, 0 first"),
            Column(
                "kind",
                "text",
                "list_gone, list_renamed, list_shared, list_unshared, list_grew or list_shrank (static ones), or "
                "list_new_results (smart ones, also when first seen)",
            ),
            Column("old_value", "text", "Before: name, companies or new results", "none, or it says all"),
            Column("new_value", "text", "After, likewise", "none, or it says all"),
            Column("run_id", "text", "Overview that found it"),
        ),
    ),
    Table(
        "runs",
        "One row for each run in this warehouse",
        ("run_id",),
        (
            _RUN,
            Column("list_name", "text", "File name of the company list"),
            Column("list_sha256", "text", "Hash of the accepted companies, whatever their order and spelling"),
            Column("service", "text", "Host of the service"),
            Column("datasets", "text", "What was asked for, separated by commas"),
            Column("started_at", "timestamp", "When the run was planned, UTC"),
            Column("finished_at", "timestamp", "When its last answer had landed, UTC"),
            Column("outcome", "text", "done, some_failed or stopped"),
            Column("line_count", "count", "Lines of the list, header and blank lines left out"),
            Column("company_count", "count", "Companies accepted"),
            Column("refused_count", "count", "Lines refused"),
            Column("repeated_count", "count", "Lines naming a company named before"),
            Column("fresh_count", "count", "Companies left alone because all they need is fresh"),
            Column("target_count", "count", "Companies asked for"),
            Column("request_count", "count", "Requests answered, repeats included"),
            Column("credit_count", "count", "Credits the service says it charged", "it did not say"),
            Column(
                "expected_credit_count", "count", "Credits our ledger expects: companies found outside any paid window"
            ),
            Column("firmlake_version", "text", "Version of firmlake"),
        ),
    ),
    Table(
        "requests",
        "One row for each answer received, errors and repeats included",
        ("run_id", "request_id", "attempt"),
        (
            Column("request_id", "text", "Hash of run, endpoint, companies, limit, offset and language"),
            Column("attempt", "integer", "1 for the first try"),
            _DATASET,
            Column("shard", "integer", "Part of the run"),
            Column("company_count", "count", "Companies in the request"),
            Column("page_limit", "integer", "Records asked for each company", "the endpoint does not page"),
            Column("page_offset", "integer", "Records skipped for each company", "the endpoint does not page"),
            Column("status", "integer", "HTTP status", "no answer came"),
            Column("error", "text", "Why no answer came", "one came"),
            Column("body_bytes", "count", "Size of the answer, bytes"),
            Column("duration_seconds", "score", "From sending to the last byte"),
            Column("credits_charged", "count", "Credits the answer says it cost", "it does not say"),
            Column("credits_remaining", "count", "Credits the answer says are left", "it does not say"),
            Column("fetched_at", "timestamp", "When the answer was complete, UTC"),
            _RUN,
        ),
    ),
    Table(
        "loads",
        "One row for each published generation of this warehouse; the row of a run is its commit mark",
        ("generation",),
        (
            Column("generation", "integer", "Number of the generation, in its file name"),
            _CAUSE,
            Column("published_at", "timestamp", "When it was published, UTC"),
            Column("changed_company_count", "count", "Companies whose rows were written"),
            Column("row_counts", "json", "Rows written, by table"),
            Column("schema_version", "integer", "Version of the tables' shape"),
        ),
    ),
)

TABLES = {table.name: table for table in _ALL}

WAREHOUSE_TABLES = {
    each.name: each for table in _ALL for each in ((table,) if table.volatile is None else history_of(table))
}
"""The same as the warehouse holds them: with `valid_from_run` and a table of superseded rows where history is kept."""

COMPANY_TABLES = {
    "financials": ("financials", "financial_joint_committees"),
    "lookalikes": ("lookalikes",),
    "relationships": ("relationships",),
}
"""The tables that hold a dataset's records, keyed by company: replaced together when a company's payload changes."""
