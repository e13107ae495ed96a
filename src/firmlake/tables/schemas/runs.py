"""Tables of runs: requests, failures, rejected records, refused lines, drift, changes and loads."""

from __future__ import annotations

from firmlake.tables.schemas.shape import Column, Table
from firmlake.tables.schemas.shared import ASKED, CAUSE, COMPANY, DATASET, REQUEST, RUN

__all__ = ["TABLES_OF_FAILURES", "TABLES_OF_RUNS"]

_FILE = Column(
    "list_name",
    "text",
    "File that the company list was read from. Joins file_name in company_lists, not the list_name of other tables",
)

TABLES_OF_FAILURES = (
    Table(
        "dead_letters",
        "One row for each company and dataset that failed in a run",
        ("run_id", "country", "company_number", "dataset"),
        (
            *COMPANY,
            DATASET,
            Column("reason", "text", "Why there is no usable answer"),
            Column("attempt_count", "count", "Requests that were sent for it"),
            REQUEST,
            Column("failed_at", "timestamp", "When it was given up, UTC"),
            RUN,
        ),
    ),
    Table(
        "rejects",
        "One row for each value of an answer that does not fit the contract, and for each record that lacks the values "
        "that identify it",
        ("run_id", "request_id", "country", "company_number", "dataset", "path", "position"),
        (
            *COMPANY,
            DATASET,
            Column("position", "integer", "Place of the record in the company's answer, 0 first"),
            Column("path", "text", "Dotted path of the value in the service's JSON; empty for the record as a whole"),
            Column(
                "value",
                "text",
                "Start of the value as received; extra_json holds all of it",
                "it is missing",
                privacy="text",
            ),
            Column("reason", "text", "Why the value or record does not fit"),
            Column(
                "effect",
                "text",
                "value: the value is null in its column, and its record is in the tables; record: the record is left "
                "out; stop: the same as value, but contract.values stops the run",
            ),
            Column("record_json", "text", "The record as received", "only the value was discarded", privacy="text"),
            REQUEST,
            Column("fetched_at", "timestamp", "When the answer was received, UTC"),
            RUN,
        ),
    ),
    Table(
        "refused_lines",
        "One row for each line of a company list that could not be used",
        ("run_id", "line"),
        (
            _FILE,
            Column("line", "integer", "Line in the file that was read (row of a sheet), titles counted; 1 first"),
            Column("given", "text", "Text of the line", "the line is empty, or not kept", privacy="text"),
            Column("reason", "text", "Why the line was refused, and how to correct it"),
            RUN,
        ),
    ),
    Table(
        "drift",
        "One row for each difference between the answers of a run and the known contract. Only records of new or "
        "changed answers are compared",
        ("run_id", "dataset", "kind", "path"),
        (
            ASKED,
            Column(
                "kind",
                "text",
                "new_field, vanished_field, new_value, discarded_value, rounded_value, other_scale, withheld_value, "
                "other_place, text_for_number, number_for_text, empty_text, foreign_element, left_out or other_count",
            ),
            Column("path", "text", "Dotted path in the service's JSON"),
            Column(
                "example", "text", "First value seen", "there is none, such as for a vanished field", privacy="text"
            ),
            Column("record_count", "count", "Records with this difference"),
            Column("first_seen_at", "timestamp", "When the first such answer was received, UTC"),
            CAUSE,
        ),
    ),
)

TABLES_OF_RUNS = (
    Table(
        "changes",
        "One row for each event: a change of a company that a run found",
        ("run_id", "country", "company_number", "position"),
        (
            *COMPANY,
            Column("position", "integer", "Place among the events of the company in the run, 0 first"),
            Column(
                "kind",
                "text",
                "company_appeared, company_gone, company_renamed, company_moved, new_accounts, period_returned, "
                "period_restated, period_removed, committees_changed, health_up, health_down, parent_in, parent_out, "
                "child_in, child_out, function_changed, stake_changed, lookalike_in or lookalike_out",
            ),
            Column("start_date", "date", "First day of the period", "not about a period"),
            Column("end_date", "date", "Last day of the period", "not about a period"),
            Column("dup_no", "integer", "Which filing of the period, as in financials", "not about a filing"),
            Column("direction", "text", "parent or child", "not about a related party"),
            Column("related_country", "text", "Country of the other company", "none, or not identified"),
            Column(
                "related_company_number", "text", "Its company number", "none, or not identified", privacy="company"
            ),
            Column(
                "related_name",
                "text",
                "Name of the related party",
                "none, or the service states none",
                privacy="person",
            ),
            Column(
                "function",
                "text",
                "Kind of relationship; all kinds for a party in several functions, with its stake as SHAREHOLDER",
                "not about a related party, or the service states none",
            ),
            Column(
                "old_value",
                "text",
                "Value before: name, place, joint committees, health indicator, function, stake (0 to 1) or rank",
                "none, or not stated",
                privacy="company",
            ),
            Column(
                "new_value",
                "text",
                "Value after: name, place, joint committees, health indicator, function, stake (0 to 1) or rank",
                "none, or not stated",
                privacy="company",
            ),
            Column(
                "fields", "json", "Figures that were restated: list of field, old and new", "not about a restatement"
            ),
            Column("run_id", "text", "Run that found the change"),
        ),
    ),
    Table(
        "runs",
        "One row for each run in this warehouse",
        ("run_id",),
        (
            RUN,
            _FILE,
            Column("list_sha256", "text", "Hash of the accepted companies; order and spelling do not change it"),
            Column("service", "text", "Host of the service"),
            Column("language", "text", "Language in which names and places were asked for: EN, NL or FR"),
            Column("datasets", "text", "Datasets asked for, separated by commas"),
            Column("started_at", "timestamp", "When the run was planned, UTC"),
            Column("finished_at", "timestamp", "When its last answer had landed, UTC"),
            Column("outcome", "text", "done, some_failed or stopped"),
            Column("reason", "text", "Why the run is not done", "it is done"),
            Column("next_step", "text", "What to do next", "the run is done"),
            Column("line_count", "count", "Lines of the list, without header and blank lines"),
            Column("company_count", "count", "Companies accepted"),
            Column("refused_count", "count", "Lines refused"),
            Column("repeated_count", "count", "Lines that repeat a company"),
            Column("fresh_count", "count", "Companies not asked for because all their datasets are fresh"),
            Column("target_count", "count", "Companies asked for"),
            Column("request_count", "count", "Requests answered, including retries"),
            Column(
                "credit_count",
                "count",
                "Credits that the service reports it charged",
                "it answered without reporting them",
            ),
            Column(
                "expected_credit_count",
                "count",
                "Credits our ledger expects: one for each company found outside its paid window. A company that was "
                "forgotten since counts if it was charged",
            ),
            Column(
                "free_refresh_count",
                "count",
                "Companies refreshed for free in the last days of their paid window: the credits that this saved, "
                "without those that were charged after all",
            ),
            Column("firmlake_version", "text", "Version of firmlake"),
        ),
    ),
    Table(
        "requests",
        "One row for each answer received, including errors and retries",
        ("run_id", "request_id", "attempt"),
        (
            Column("request_id", "text", "Hash of run, endpoint, companies, limit, offset and language"),
            Column("attempt", "integer", "1 for the first attempt"),
            DATASET,
            Column("shard", "integer", "Part of the run"),
            Column("company_count", "count", "Companies in the request"),
            Column("page_limit", "integer", "Records asked for each company", "the endpoint does not page"),
            Column("page_offset", "integer", "Records skipped for each company", "the endpoint does not page"),
            Column("status", "integer", "HTTP status", "no answer came"),
            Column("error", "text", "Why no answer came", "an answer came"),
            Column("body_bytes", "count", "Size of the answer, bytes"),
            Column("duration_seconds", "score", "From sending to the last byte"),
            Column("credits_charged", "count", "Credits charged, according to the answer", "the answer does not say"),
            Column("credits_remaining", "count", "Credits left, according to the answer", "the answer does not say"),
            Column("fetched_at", "timestamp", "When the answer was complete, UTC"),
            RUN,
        ),
    ),
    Table(
        "loads",
        "One row for each published generation of this warehouse; the row of a run is its commit mark",
        ("generation",),
        (
            Column("generation", "integer", "Number of the generation, in its file name"),
            CAUSE,
            Column("published_at", "timestamp", "When the generation was published, UTC"),
            Column("loaded_at", "timestamp", "When this was first loaded, UTC; a replay changes only `published_at`"),
            Column("changed_company_count", "count", "Companies whose rows were written"),
            Column("row_counts", "json", "Rows written, by table"),
            Column("schema_version", "integer", "Version of the tables' shape"),
        ),
    ),
)
