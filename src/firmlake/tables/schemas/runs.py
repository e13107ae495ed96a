"""Tables of runs: requests, failures, rejected records, refused lines, drift, changes and loads."""

from __future__ import annotations

from firmlake.tables.schemas.shape import Column, Table
from firmlake.tables.schemas.shared import ASKED, CAUSE, COMPANY, DATASET, FETCHED, LINE, REQUEST, RUN

__all__ = ["TABLES_OF_FAILURES", "TABLES_OF_RUNS"]

_FILE = Column(
    "list_name",
    "text",
    "Name of the file that the company list was read from. Joins file_name in company_lists, not list_name in other "
    "tables",
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
            Column("attempt_count", "count", "Requests sent in the run for this company and dataset"),
            REQUEST,
            Column("failed_at", "timestamp", "Time at which the run gave up, UTC"),
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
            Column("position", "integer", "Position of the record in the company's answer, from 0"),
            Column("path", "text", "Dotted path of the value in the service's JSON; empty for the record as a whole"),
            Column(
                "value",
                "text",
                "Beginning of the value as received; extra_json of the record holds all of it",
                "the value is missing",
                privacy="text",
            ),
            Column("reason", "text", "Why the value or record does not fit"),
            Column(
                "effect",
                "text",
                "value: the column is null, and the record is in the tables; record: the record is left out; stop: the "
                "column is null, and the setting contract.values also stops the run",
            ),
            Column("record_json", "text", "The record as received", "only the value was discarded", privacy="text"),
            REQUEST,
            FETCHED,
            RUN,
        ),
    ),
    Table(
        "refused_lines",
        "One row for each line of a company list that could not be used",
        ("run_id", "line"),
        (
            _FILE,
            LINE,
            Column("given", "text", "Text of the line", "the line is empty, or its text is not kept", privacy="text"),
            Column("reason", "text", "Why the line was refused, and how to correct it"),
            RUN,
        ),
    ),
    Table(
        "drift",
        "One row for each difference between the answers of a run and the contract: the fields and values that "
        "firmlake expects. Only records of new or changed answers are compared",
        ("run_id", "dataset", "kind", "path"),
        (
            ASKED,
            Column(
                "kind",
                "text",
                "new_field: unknown field; vanished_field: value missing that the previous answer had; new_value: "
                "unknown value; discarded_value: value that does not fit its column; rounded_value: more digits than "
                "the column has; other_scale: value above 1 in a field that goes up to 1; withheld_value: fraction "
                "discarded because the scale of its field is in doubt; other_place: field in another place of the "
                "record; text_for_number: number sent as text; number_for_text: text sent as number; empty_text: "
                "empty text, read as null; foreign_element: data that was not requested; left_out: requested company "
                "missing from the answer; other_count: a count that does not match what the answer holds",
            ),
            Column("path", "text", "Dotted path in the service's JSON"),
            Column(
                "example",
                "text",
                "First value with this difference",
                "there is no value, for example because the field vanished",
                privacy="text",
            ),
            Column("record_count", "count", "Records with this difference"),
            Column("first_seen_at", "timestamp", "Time at which the first such answer was received, UTC"),
            CAUSE,
        ),
    ),
)

TABLES_OF_RUNS = (
    Table(
        "changes",
        "One row for each change of a company that a run found",
        ("run_id", "country", "company_number", "position"),
        (
            *COMPANY,
            Column("position", "integer", "Position among the changes of the company in the run, from 0"),
            Column(
                "kind",
                "text",
                "company_appeared, company_gone, company_renamed, company_moved (another place), new_accounts, "
                "period_returned (a removed filing is back), period_restated (other figures), period_removed (a "
                "filing is gone), committees_changed, health_up, health_down, parent_in, parent_out, child_in, "
                "child_out, function_changed, stake_changed, lookalike_in or lookalike_out (among the first "
                "lookalikes, see run.lookalikes_watched)",
            ),
            Column("start_date", "date", "First day of the period that changed", "not about a period"),
            Column("end_date", "date", "Last day of the period that changed", "not about a period"),
            Column("dup_no", "integer", "Number of the filing, as in financials", "not about a filing"),
            Column(
                "direction",
                "text",
                "What the related party is to the company: parent or child",
                "not about a related party",
            ),
            Column(
                "related_country",
                "text",
                "Country of the parent, child or lookalike",
                "not about one, or the service gives no company number",
            ),
            Column(
                "related_company_number",
                "text",
                "Company number of the parent, child or lookalike",
                "not about one, or the service gives no company number",
                privacy="company",
            ),
            Column(
                "related_name",
                "text",
                "Name of the related party",
                "not about a related party, or the service states no usable value",
                privacy="person",
            ),
            Column(
                "function",
                "text",
                "Kind of relationship. A party in several functions has all of them here, and its stake is that as "
                "SHAREHOLDER; stake_changed names the one whose stake changed",
                "not about a related party, or the service states no usable value",
            ),
            Column(
                "old_value",
                "text",
                "Value before the change: name, place, joint committees, health indicator, function, stake (0 to 1) "
                "or rank",
                "there is no such value, or the service states no usable value",
                privacy="company",
            ),
            Column(
                "new_value",
                "text",
                "Value after the change: name, place, joint committees, health indicator, function, stake (0 to 1) or"
                " rank",
                "there is no such value, or the service states no usable value",
                privacy="company",
            ),
            Column(
                "fields",
                "json",
                "Figures that were restated: a list of objects with field, old and new",
                "not about a restatement",
            ),
            Column("run_id", "text", "Run that found the change"),
        ),
    ),
    Table(
        "runs",
        "One row for each run that this warehouse has loaded",
        ("run_id",),
        (
            RUN,
            _FILE,
            Column(
                "list_sha256",
                "text",
                "SHA-256 hash of the accepted companies; their order and the spelling of their numbers do not change "
                "it",
            ),
            Column("service", "text", "Host name of the service"),
            Column("language", "text", "Language in which names and places were requested: EN, NL or FR"),
            Column("datasets", "text", "Datasets requested, separated by commas"),
            Column("started_at", "timestamp", "Time at which the run was planned, UTC"),
            Column("finished_at", "timestamp", "Time at which its last answer was stored, UTC"),
            Column("outcome", "text", "How the run ended: done, some_failed or stopped"),
            Column("reason", "text", "Why the outcome is not done", "the outcome is done"),
            Column("next_step", "text", "What to do next", "the outcome is done"),
            Column("line_count", "count", "Number of lines in the list, without header and blank lines"),
            Column("company_count", "count", "Companies accepted from the list, each counted once"),
            Column("refused_count", "count", "Lines that name no usable company, see refused_lines"),
            Column("repeated_count", "count", "Lines that repeat a company of an earlier line"),
            Column(
                "fresh_count",
                "count",
                "Companies not fetched because all their datasets were still fresh (see run.refresh_after_days)",
            ),
            Column("target_count", "count", "Companies that the run planned to fetch"),
            Column("request_count", "count", "Requests sent and recorded, including retries"),
            Column(
                "credit_count",
                "count",
                "Credits charged, according to the service",
                "the service answered without reporting them",
            ),
            Column(
                "expected_credit_count",
                "count",
                "Credits that firmlake expected: one for each company found outside its paid window. A company that "
                "was forgotten since then counts if the service charged for it",
            ),
            Column(
                "free_refresh_count",
                "count",
                "Companies refreshed for free in the last days of their paid window, without those that were charged "
                "after all. Each saved one credit",
            ),
            Column("firmlake_version", "text", "Version of firmlake that made the run"),
        ),
    ),
    Table(
        "requests",
        "One row for each attempt to send a request, including errors and retries",
        ("run_id", "request_id", "attempt"),
        (
            Column("request_id", "text", "Hash of run, endpoint, companies, limit, offset and language"),
            Column("attempt", "integer", "Number of the attempt, from 1"),
            DATASET,
            Column("shard", "integer", "Number of the shard: the part of the run that the request belongs to"),
            Column("company_count", "count", "Number of companies in the request"),
            Column(
                "page_limit", "integer", "Page size: records requested for each company", "the endpoint does not page"
            ),
            Column("page_offset", "integer", "Records skipped for each company", "the endpoint does not page"),
            Column("status", "integer", "HTTP status of the answer", "no answer came"),
            Column("error", "text", "Why no answer came", "an answer came"),
            Column("body_bytes", "count", "Size of the answer in bytes"),
            Column("duration_seconds", "score", "Seconds from sending the request to the last byte of the answer"),
            Column(
                "credits_charged",
                "count",
                "Credits charged for the request, according to the answer",
                "the answer does not say",
            ),
            Column(
                "credits_remaining",
                "count",
                "Credits left in the account, according to the answer",
                "the answer does not say",
            ),
            Column("fetched_at", "timestamp", "Time at which the attempt ended, UTC"),
            RUN,
        ),
    ),
    Table(
        "loads",
        "One row for each published generation of this warehouse. A run is in the warehouse if it has a row here",
        ("generation",),
        (
            Column("generation", "integer", "Number of the generation, as in its file name"),
            CAUSE,
            Column("published_at", "timestamp", "Time at which the generation was published, UTC"),
            Column(
                "loaded_at",
                "timestamp",
                "Time at which the run was first loaded, UTC; a replay changes published_at but not this",
            ),
            Column("changed_company_count", "count", "Companies whose rows were written"),
            Column("row_counts", "json", "Number of rows written, by table"),
            Column("schema_version", "integer", "Version of the table schemas"),
        ),
    ),
)
