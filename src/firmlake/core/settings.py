"""Settings: every key with its unit, default, range and reason; `settings_layers` reads them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

__all__ = [
    "SANDBOX",
    "ApiSettings",
    "ContractSettings",
    "Dataset",
    "ExportSettings",
    "IntakeSettings",
    "ListSettings",
    "NameSettings",
    "PathSettings",
    "RunSettings",
    "Settings",
]

SANDBOX = "sandbox"
"""The base_url that means: start the embedded service and use it."""


class _Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the TOML file."""


class NameSettings(_Section, frozen=True):
    """How the service spells what its specification leaves open; change it where the service answers 400."""

    language_header: Annotated[str, Meta(description="header that carries the language")] = "Accept-Language"
    limit: Annotated[str, Meta(description="page size, in the query of GET and the body of POST")] = "limit"
    offset: Annotated[str, Meta(description="records to skip, likewise")] = "offset"
    companies: Annotated[str, Meta(description="array of companies in the body of a bulk request")] = "companies"
    country: Annotated[str, Meta(description="country of an element of that array")] = "countryCode"
    company_number: Annotated[str, Meta(description="company number of an element of that array")] = "companyNumber"
    company_contacts: Annotated[str, Meta(description="array of companies in the body that adds contacts")] = (
        "companyContacts"
    )
    company: Annotated[str, Meta(description="the company of an element of that array")] = "company"
    contacts: Annotated[str, Meta(description="the contacts of an element of that array")] = "contacts"
    contact_id: Annotated[str, Meta(description="the id of a contact there")] = "contactId"
    credits_charged_header: Annotated[str, Meta(description="answer header: credits this request cost")] = (
        "X-Credits-Charged"
    )
    credits_remaining_header: Annotated[str, Meta(description="answer header: credits left")] = "X-Credits-Remaining"
    not_found_message: Annotated[str, Meta(description="message of an element for a company that does not exist")] = (
        "Company not found"
    )
    contact_not_found_message: Annotated[
        str, Meta(description="message of a contact that does not exist, among those that could not be added")
    ] = "Contact not found"


class ApiSettings(_Section, frozen=True):
    """The service: where it is, what it allows, how patient we are."""

    base_url: Annotated[
        str, Meta(description='address of the service, https outside this machine; "sandbox" starts the embedded one')
    ] = ""
    service_name: Annotated[
        str,
        Meta(
            pattern=r"^[ -~]{0,200}$",
            description='what a data folder calls the service, where its address changes (a tunnel); "" is the address',
        ),
    ] = ""
    language: Annotated[Literal["EN", "NL", "FR"], Meta(description="language of names and texts")] = "EN"
    companies_per_request: Annotated[
        int, Meta(ge=1, le=10_000, description="companies in one bulk request; the service allows 100")
    ] = 100
    records_per_request: Annotated[
        int,
        Meta(ge=0, description="companies x limit in one bulk request; 500 by a later version of the API, 0 lifts it"),
    ] = 500
    page_limit_max: Annotated[int, Meta(ge=1, description="largest page; the specification says 500")] = 500
    contact_companies_per_request: Annotated[
        int, Meta(ge=1, description="companies in one request that adds contacts; the specification says 100")
    ] = 100
    contacts_per_company: Annotated[int, Meta(ge=1, description="contacts of a company in one such request")] = 50
    requests_per_minute: Annotated[
        int, Meta(ge=0, description="allowance of the key; never exceeded in any 60 s, 0 lifts it")
    ] = 200
    throttle_store: Annotated[
        str,
        Meta(
            pattern=r"^(file|postgres(ql)?://.*)$",
            description='who counts: "file" for one machine, postgresql://host/name for several (no password)',
        ),
    ] = "file"
    keep_leading_zero: Annotated[
        bool, Meta(description="send Belgian numbers as 0770493071; the examples of the service drop the zero")
    ] = False
    threads: Annotated[int, Meta(ge=1, le=64, description="requests in flight at most")] = 4
    tries: Annotated[int, Meta(ge=1, le=20, description="tries of one request; a 429 never uses one up")] = 3
    retry_wait_max_seconds: Annotated[
        float, Meta(ge=0, description="longest pause between two tries; a longer Retry-After stops the run, resumable")
    ] = 120.0
    connect_timeout_seconds: Annotated[float, Meta(gt=0, description="until connected")] = 10.0
    read_timeout_seconds: Annotated[float, Meta(gt=0, description="between two pieces of an answer")] = 60.0
    total_timeout_seconds: Annotated[
        float, Meta(gt=0, description="for one try as a whole: a trickle must end too")
    ] = 120.0
    wire_bytes_max: Annotated[
        int, Meta(ge=1024, description="largest answer as sent, bytes; 100 companies x 20 periods are 2.5 MB")
    ] = 16_777_216
    body_bytes_max: Annotated[
        int, Meta(ge=1024, description="largest answer after inflating, bytes: stops a gzip bomb")
    ] = 33_554_432
    names: NameSettings = NameSettings()


class PathSettings(_Section, frozen=True):
    """Where things are."""

    data: Annotated[str, Meta(description="folder for everything a run makes; one service each")] = "data"
    readers: Annotated[
        str,
        Meta(
            description="group of this system that may read the warehouse, reports and exports to a folder, from the "
            'next one on; "" is nobody but their owner'
        ),
    ] = ""


class IntakeSettings(_Section, frozen=True):
    """How to read a company list where it cannot be found out from the file."""

    country_column: Annotated[str, Meta(description='header (or 1-based position) of the country; "" finds it')] = ""
    number_column: Annotated[
        str, Meta(description='header (or 1-based position) of the company number; "" finds it')
    ] = ""
    contact_column: Annotated[
        str, Meta(description='likewise of the contact id in a list of contacts; "" finds it')
    ] = ""
    default_country: Annotated[Literal["", "BE", "NL", "FR"], Meta(description="country of lines that name none")] = ""
    delimiter: Annotated[str, Meta(max_length=1, description='field separator of CSV; "" finds it')] = ""
    encoding: Annotated[str, Meta(description='encoding of text files; "" finds it')] = ""
    header: Annotated[Literal["auto", "yes", "no"], Meta(description="whether a line holds names")] = "auto"
    header_row: Annotated[int, Meta(ge=0, description="line with the names of the columns; 0 finds it")] = 0
    sheet: Annotated[str, Meta(description='sheet of a workbook; "" is the first with company numbers')] = ""
    max_rows: Annotated[int, Meta(ge=1, description="lines of a list; more of them are refused")] = 50_000_000
    max_columns: Annotated[int, Meta(ge=1, description="columns of a list")] = 16_384
    max_cells: Annotated[
        int, Meta(ge=1, description="cells of a worksheet, rows times columns, filled or not: each takes 50 bytes")
    ] = 25_000_000
    max_inflated_megabytes: Annotated[
        int, Meta(ge=1, description="what a compressed list may inflate to: a small file may hold any number of bytes")
    ] = 8192
    keep_columns: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description='columns of a list that are kept and given back: ["all"], ["none"], or their names; also of '
            "refused lines",
        ),
    ] = ("all",)

    @property
    def keeps_all(self) -> bool:
        """Whether every column of a list is kept."""
        return self.keep_columns == ("all",)

    @property
    def keeps_none(self) -> bool:
        """Whether no column of a list is kept."""
        return self.keep_columns == ("none",)

    def keeps(self, column: str) -> bool:
        """Tell whether a column of a list is kept; upper and lower case are the same."""
        named = {name.casefold() for name in self.keep_columns}
        return self.keeps_all or (not self.keeps_none and column.casefold() in named)


Dataset = Literal["financials", "lookalikes", "relationships"]


class RunSettings(_Section, frozen=True):
    """What a run does and when it stops."""

    datasets: Annotated[tuple[Dataset, ...], Meta(min_length=1, description="what to fetch for each company")] = (
        "financials",
        "lookalikes",
        "relationships",
    )
    list_name: Annotated[
        str, Meta(max_length=100, description='name of the list; "" is that of its file without the ending')
    ] = ""
    refresh_after_days: Annotated[
        int, Meta(ge=0, description="an answer younger than this is not fetched again; 0 fetches always")
    ] = 30
    credit_window_days: Annotated[
        int, Meta(ge=0, description="after a company's first request all its requests are free for so long")
    ] = 30
    max_credits: Annotated[
        int, Meta(ge=-1, description="stop before spending more; 0 fetches only what is free, -1 is no budget")
    ] = -1
    max_requests: Annotated[int, Meta(ge=-1, description="stop before sending more; -1 is no budget")] = -1
    sample: Annotated[
        int, Meta(ge=0, description="fetch only the first so many companies of the list that are not held; 0 is all")
    ] = 0
    expand: Annotated[
        Literal["", "lookalikes", "parents", "children"],
        Meta(description='which companies beside those of the list are fetched as well; "" for none'),
    ] = ""
    depth: Annotated[int, Meta(ge=1, description="steps outward from the list, where run.expand says so")] = 1
    shard_companies: Annotated[
        int, Meta(ge=1, description="companies of one shard (one Prefect task); some thousand keep tasks few")
    ] = 5000
    fail_on: Annotated[
        str | float,
        Meta(description='"any": exit 3 when one company failed; a share such as 0.02: only when more failed'),
    ] = "any"
    vanished_share_max: Annotated[
        float,
        Meta(
            ge=0, le=1, description="share of held records that may lose a field; of more nothing is published (exit 6)"
        ),
    ] = 0.01
    vanished_records_min: Annotated[
        int,
        Meta(ge=1, description="fewer records than this may always lose a field: accounts are restated now and then"),
    ] = 10
    lookalikes_watched: Annotated[
        int, Meta(ge=1, description="a company that enters or leaves so many first lookalikes is an event in changes")
    ] = 10
    keep_generations: Annotated[int, Meta(ge=1, description="warehouse files kept, the newest included")] = 5
    duckdb_memory: Annotated[
        str,
        Meta(
            pattern=r"^\d+\s?(MB|GB|MiB|GiB)$",
            description="memory limit of DuckDB while loading, exporting and reporting",
        ),
    ] = "256MB"
    # Older ones cannot read the macros: 1.2 opens no such file whatever its version.
    storage_version: Annotated[
        Literal["latest", "v1.5.0", "v1.4.0"],
        Meta(description="oldest DuckDB that can read the warehouse; where there is one, `firmlake replay` applies it"),
    ] = "v1.4.0"

    @property
    def fail_share(self) -> float:
        """Largest share of failed companies that still counts as done."""
        return 0.0 if self.fail_on == "any" else float(self.fail_on)


class ListSettings(_Section, frozen=True):
    """The service's lists: what is kept of their overview, and how contacts are added to them."""

    created_by: Annotated[
        Literal["hash", "as_is", "omit"],
        Meta(description="who made a list (an e-mail address): a keyed hash, as it is, or nothing; also in landing"),
    ] = "hash"
    created_by_key_file: Annotated[
        str, Meta(description='file with the key of that hash; "" is state/created_by.key in the data folder')
    ] = ""
    plan_max_age_hours: Annotated[
        float, Meta(ge=0, description="an older plan of contacts is not applied: the list may have become another one")
    ] = 24.0
    needs_approval: Annotated[
        bool, Meta(description="the flow add_contacts waits until a person approves the plan in Prefect")
    ] = False
    approval_wait_hours: Annotated[
        float, Meta(gt=0, description="for so long; then it fails, and nothing was written")
    ] = 24.0


class ExportSettings(_Section, frozen=True):
    """Where results go from here, and how."""

    target: Annotated[str, Meta(description='folder, or s3://, gs:// or az:// address; "" where none is exported')] = ""
    format: Annotated[Literal["parquet", "delta", "csv", "xlsx"], Meta(description="csv and xlsx are for people")] = (
        "parquet"
    )
    changes: Annotated[bool, Meta(description="only what changed since the last export, marked; else whole tables")] = (
        False
    )
    tables: Annotated[
        tuple[str, ...], Meta(description="what is exported; [] takes the data, its state and the runs")
    ] = ()
    file_megabytes: Annotated[
        int, Meta(ge=1, le=256, description="about how large a Parquet file becomes, where there is enough")
    ] = 128


Pattern = str
"""Names fields by dataset and our column or the service's path: `financials.employee_count`, `financials.people.*`."""


class ContractSettings(_Section, frozen=True):
    """What becomes of answers that differ from the contract; keys are dataset.column or dataset.path, * for any."""

    new_fields: Annotated[
        dict[Pattern, Literal["keep", "freeze"]],
        Meta(description="unknown fields: keep them in extra_json (where nothing is said), or freeze: publish nothing"),
    ] = {}
    values: Annotated[
        dict[Pattern, Literal["discard_value", "discard_record", "stop"]],
        Meta(
            description="values that do not fit: discard_value (where nothing is said), discard_record, "
            "or stop: publish nothing"
        ),
    ] = {}
    types: Annotated[
        dict[Pattern, Literal["decimal"]],
        Meta(description='integers that the service states with decimals: {"financials.employee_count" = "decimal"}'),
    ] = {}
    scales: Annotated[
        dict[Pattern, Literal[10, 100, 1000]],
        Meta(description='what the service states for 1, converted exactly: {"relationships.stake_fraction" = 100}'),
    ] = {}


class Settings(_Section, frozen=True):
    """All settings of a run; frozen, checked at the start."""

    api: ApiSettings = ApiSettings()
    paths: PathSettings = PathSettings()
    intake: IntakeSettings = IntakeSettings()
    run: RunSettings = RunSettings()
    lists: ListSettings = ListSettings()
    export: ExportSettings = ExportSettings()
    contract: ContractSettings = ContractSettings()
