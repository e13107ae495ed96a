"""All settings, each with its type, range and default, and below it its description; and each by its dotted key."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct, field

SANDBOX = "sandbox"
"""The value of `api.base_url` that starts the embedded service and uses it."""
PROFILE = "state/profile.toml"
"""The settings that fit the service of a data folder, below that folder."""
DatasetName = Literal["financials", "lookalikes", "relationships"]

Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
Limit = Annotated[int, Meta(ge=-1)]
"""-1 is no limit."""
Pattern = str
"""A pattern that names fields by dataset and column, or by dataset and the service's path.

Examples: `financials.employee_count`, `financials.people.*`."""


class SettingsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the TOML file."""


class NameSettings(SettingsSection, frozen=True):
    """Response headers and messages that the specification leaves open."""

    credits_charged_header: str = "X-Credits-Charged"
    """response header with the credits that the request cost"""
    credits_remaining_header: str = "X-Credits-Remaining"
    """response header with the credits left"""
    not_found_message: str = "Company not found"
    """message for a company that does not exist; {country} and {number} stand for its own"""
    success_message: str = "OK"
    """message of an element that is not an error, even if the company has no records"""
    contact_not_found_message: str = "Contact not found"
    """message for a contact that does not exist"""
    contact_present_message: str = "Contact already in list"
    """message for a contact that is already in the list; it counts as added"""


_BULK = """\
POST /v1/companies/{dataset}
Accept-Language: {{language}}

{{"companies": [{{"countryCode": "{{country}}", "companyNumber": "{{number}}"}}]{page}}}
"""
_PAGE = ', "limit": {limit}, "offset": {offset}'


class RequestSettings(SettingsSection, frozen=True):
    """Each request as the service documents it; {number} and others stand for what changes (docs/first-contact.md)."""

    financials: str = _BULK.format(dataset="financials", page=_PAGE)
    """financials; with {country} {number} {limit} {offset} {language}"""
    lookalikes: str = _BULK.format(dataset="lookalikes", page="")
    """lookalikes; with {country} {number} {language}"""
    relationships: str = _BULK.format(dataset="relationships", page="")
    """relationships; with {country} {number} {language}"""
    service_lists: str = "GET /v1/lists?type={type}&limit={limit}&offset={offset}\nAccept-Language: {language}\n"
    """the overview of lists; with {type} {limit} {offset} {language}"""
    contacts: str = """\
PUT /v1/lists/{list}/contacts
Accept-Language: {language}

{"companyContacts": [{
  "company": {"countryCode": "{country}", "companyNumber": "{number}"},
  "contacts": [{"contactId": "{contact}"}]
}]}
"""
    """adding contacts; with {list} {country} {number} {contact} {language}"""


class ApiSettings(SettingsSection, frozen=True):
    """The service: its address, its limits, and how long to wait for it."""

    base_url: str = ""
    """address of the service, with https unless it is local; "sandbox" starts the embedded service"""
    service_name: Annotated[str, Meta(pattern=r"^[ -~]{0,200}$")] = ""
    """name of the service in data folders, if its address changes (a tunnel); "" uses the address"""
    trailing_slash: bool = False
    """end the path of every request with a slash; saves one request a run where the service redirects to such paths"""
    language: Literal["EN", "NL", "FR"] = "EN"
    """language of the names and texts that the service returns"""
    companies_per_request: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """most companies in one bulk request; the specification says 100"""
    records_per_request: Count = 500
    """most companies x limit in one bulk request; a later version of the specification says 500; 0 sets no limit"""
    page_limit_max: Positive = 500
    """largest page size; the specification says 500"""
    contact_companies_per_request: Positive = 100
    """most companies in one request that adds contacts; the specification says 100"""
    contacts_per_company: Positive = 50
    """most contacts of one company in a request that adds contacts"""
    requests_per_minute: Count = 200
    """most requests that the key may send in any 60 seconds; 0 sets no limit"""
    throttle_store: Annotated[str, Meta(pattern=r"^(file|postgres(ql)?://.*)$")] = "file"
    """where requests are counted: "file" for one machine, postgresql://host/name for several (no password)"""
    keep_leading_zero: bool = False
    """send Belgian numbers with their leading zero (0770493071); the service's examples leave it out"""
    totals: Literal["", "company"] = ""
    """what a total of records counts: "company" all records of a company, as the first contact sees from one beyond its
    page; "" leaves that open, and a full page with no more in total is requested again"""
    offsets: Literal["any", "multiples"] = "any"
    """offsets that a page may have; "multiples" of its limit keep to a service that counts in pages"""
    threads: Annotated[int, Meta(ge=1, le=64)] = 4
    """most requests in flight at the same time"""
    tries: Annotated[int, Meta(ge=1, le=20)] = 3
    """most tries of one request; an answer 429 does not count, and a 503 is tried four times as often, up to 8 times"""
    retry_wait_max_seconds: Annotated[float, Meta(ge=0)] = 120.0
    """longest pause between two tries; a longer Retry-After stops the run, which can be resumed"""
    connect_timeout_seconds: Annotated[float, Meta(gt=0)] = 10.0
    """longest wait for a connection"""
    read_timeout_seconds: Annotated[float, Meta(gt=0)] = 60.0
    """longest wait between two pieces of an answer"""
    total_timeout_seconds: Annotated[float, Meta(gt=0)] = 120.0
    """longest duration of one try, so that an answer that arrives very slowly ends too"""
    wire_bytes_max: Annotated[int, Meta(ge=1024)] = 16_777_216
    """largest answer as sent, in bytes; 100 companies x 20 periods take 2.5 MB"""
    body_bytes_max: Annotated[int, Meta(ge=1024)] = 33_554_432
    """largest answer after decompression, in bytes, against gzip bombs"""
    names: NameSettings = NameSettings()
    requests: RequestSettings = RequestSettings()

    @property
    def trusts_totals(self) -> bool:
        """Whether a total of records counts all records of a company, as it does at the embedded service."""
        return self.totals == "company" or self.base_url == SANDBOX


class IntakeSettings(SettingsSection, frozen=True):
    """How to read a company list, if firmlake cannot detect it from the file."""

    country_column: str = ""
    """column of the country, by name or position from 1; "" detects it"""
    number_column: str = ""
    """column of the company number, by name or position from 1; "" detects it"""
    contact_column: str = ""
    """column of the contact id in a list of contacts, by name or position from 1; "" detects it"""
    default_country: Literal["", "BE", "NL", "FR"] = ""
    """country for lines that state none"""
    delimiter: Annotated[str, Meta(max_length=1)] = ""
    """field separator of CSV; "" detects it"""
    encoding: str = ""
    """encoding of text files; "" detects it"""
    header: Literal["auto", "yes", "no"] = "auto"
    """whether the list has a line with the names of the columns; auto detects it"""
    header_row: Count = 0
    """number of the line with the names of the columns; 0 detects it"""
    sheet: str = ""
    """worksheet to read; "" uses the first that has company numbers"""
    max_rows: Positive = 50_000_000
    """most lines in a list; a longer list is refused"""
    max_columns: Positive = 16_384
    """most columns in a list; a wider list is refused"""
    max_cells: Positive = 25_000_000
    """most cells in a worksheet, empty ones included; each takes 50 bytes of memory"""
    max_inflated_megabytes: Positive = 8192
    """largest size of a compressed list after decompression, in megabytes"""
    query_seconds_max: Positive = 120
    """longest duration of a query whose result is the list, or of reading a database"""
    keep_columns: Annotated[tuple[str, ...], Meta(min_length=1)] = ("all",)
    """columns to keep and to return, also for refused lines: ["all"], ["none"], or names"""

    @property
    def keeps_all(self) -> bool:
        """Whether every column of a list is kept."""
        return self.keep_columns == ("all",)

    @property
    def keeps_none(self) -> bool:
        """Whether no column of a list is kept."""
        return self.keep_columns == ("none",)

    def keeps(self, column: str) -> bool:
        """Tell whether a column of a list is kept; case is ignored."""
        named = {name.casefold() for name in self.keep_columns}
        return self.keeps_all or (not self.keeps_none and column.casefold() in named)


class ExportSettings(SettingsSection, frozen=True):
    """What `firmlake export` writes, where and in which format."""

    target: str = ""
    """folder to export to, or an s3://, gs:// or az:// address; "" exports nothing"""
    format: Literal["parquet", "delta", "iceberg", "csv"] = "parquet"
    """file format; csv is for people, and `firmlake query SQL --out FILE.xlsx` makes workbooks"""
    changes: bool = False
    """export only changed rows, each marked with its change, instead of whole tables"""
    tables: tuple[str, ...] = ()
    """tables to export; [] exports the data, its state and the runs"""
    file_megabytes: Annotated[int, Meta(ge=1, le=256)] = 128
    """approximate size of a full Parquet file"""
    mask: dict[str, Literal["drop", "hash"]] = {}
    """columns to drop, or to replace by a keyed hash: {"relationships.related_name" = "hash"}; * stands for any table,
    and person, contact, company or text for all columns of that kind (docs/privacy.md)"""


class LoadSettings(SettingsSection, frozen=True):
    """Which database `firmlake load` writes to."""

    target: str = ""
    """postgres://HOST/DATABASE (without a password), snowflake://ACCOUNT/DATABASE, bigquery://PROJECT/DATASET or
    duckdb:FILE; "" loads nothing"""
    schema: Annotated[str, Meta(min_length=1, max_length=60)] = "firmlake"
    """schema of the tables in that database"""
    tables: tuple[str, ...] = ()
    """tables to load besides those already in the schema; [] loads the data, its state and the runs"""


class PathSettings(SettingsSection, frozen=True):
    """Folders and who may read them."""

    data: str = "data"
    """data folder, where firmlake writes everything; each data folder belongs to one service"""
    readers: str = ""
    """system group that may read the warehouses, reports and exports written from now on; "" lets only their owner
    read them"""
    alert_rules: str = ""
    """file of alert rules, such as config/watch.toml; "" raises no alerts"""
    gates: str = ""
    """file of rules that each generation must meet to be published, such as config/gates.toml; "" publishes all"""


class RunSettings(SettingsSection, frozen=True):
    """What a run does and when it stops."""

    datasets: Annotated[tuple[DatasetName, ...], Meta(min_length=1)] = (
        "financials",
        "lookalikes",
        "relationships",
    )
    """datasets to fetch for each company"""
    list_name: Annotated[str, Meta(max_length=100)] = ""
    """name of the company list; "" uses the file name without its ending"""
    refresh_after_days: Count = 30
    """days for which an answer is fresh and is not fetched again; 0 always fetches"""
    credit_window_days: Count = 30
    """length of the paid window: days for which requests for a company are free after its first one"""
    free_refresh_days: Count = 7
    """number of last days of the paid window in which companies are refreshed for free; set it to the days between two
    runs; 0 turns free refreshes off"""
    max_credits: Limit = -1
    """most credits of one run, including all attempts to resume it; 0 fetches only what is free, -1 sets no budget"""
    max_credits_per_month: Limit = -1
    """most credits of this data folder in a calendar month; -1 sets no budget"""
    credit_price: Annotated[str, Meta(pattern=r"^(\d+(\.\d+)? [A-Z]{3})?$")] = ""
    """price of a credit, such as "0.12 EUR": plans then state money too; "" states credits alone"""
    time_zone: str = "Europe/Brussels"
    """time zone of the months and days in bills and budgets"""
    check: bool = True
    """ask a service that the data folder does not know yet up to three questions, before the first run buys its list,
    and keep what differs in state/profile.toml"""
    max_requests: Limit = -1
    """most requests to send before the run stops; -1 sets no limit"""
    sample: Count = 0
    """fetch only this many companies of the list that are not held yet; 0 fetches all"""
    expand: Literal["", "lookalikes", "parents", "children"] = ""
    """related companies to fetch in addition to those of the list; "" fetches none"""
    depth: Positive = 1
    """number of steps from the list to related companies, if run.expand is set"""
    shard_companies: Positive = 5000
    """companies in one shard, which is one Prefect task; a few thousand keep the number of tasks small"""
    stuck_after_minutes: Annotated[float, Meta(ge=0)] = 30.0
    """minutes without any answer after which a run stops and can be resumed; 0 never stops it"""
    fail_on: Literal["any"] | Annotated[float, Meta(ge=0, le=1)] = "any"
    """ "any": exit 3 if any company failed; a share such as 0.02: exit 3 only if more failed"""
    vanished_share_max: Annotated[float, Meta(ge=0, le=1)] = 0.01
    """share of held records that may lose a field; if more do, exit 6 and publish nothing"""
    vanished_records_min: Positive = 10
    """if fewer records than this lose a field, or have a value that does not fit, the run goes on: accounts are
    restated now and then"""
    lookalikes_watched: Positive = 10
    """number of first lookalikes of a company whose entering and leaving is recorded in changes"""
    keep_generations: Positive = 5
    """number of generations of the warehouse to keep, the newest included"""
    duckdb_memory: Annotated[str, Meta(pattern=r"^\d+\s?(MB|GB|MiB|GiB)$")] = "224MB"
    """memory limit of DuckDB for loads, exports and reports"""
    # Older versions cannot read the macros: 1.2 opens no warehouse, whatever its storage version.
    storage_version: Literal["latest", "v1.5.0", "v1.4.0"] = "v1.4.0"
    """oldest DuckDB that can read the warehouse; after a change, run `firmlake replay`"""

    @property
    def fail_share(self) -> float:
        """Largest share of failed companies that still counts as done."""
        return 0.0 if self.fail_on == "any" else self.fail_on


class ListSettings(SettingsSection, frozen=True):
    """Service lists: what to keep of their overview, and how to add contacts to them."""

    created_by: Literal["hash", "as_is", "omit"] = "hash"
    """how to store the e-mail address of a list's creator, also in landing: hash (keyed), as_is, or omit"""
    created_by_key_file: str = ""
    """file with the key of this hash; "" uses state/created_by.key in the data folder"""
    plan_max_age_hours: Annotated[float, Meta(ge=0)] = 24.0
    """hours after which a plan of contacts is refused, because the list may have changed since"""
    needs_approval: bool = False
    """whether the flow add_contacts waits until a person approves the plan in Prefect"""
    approval_wait_hours: Annotated[float, Meta(gt=0)] = 24.0
    """hours that the flow waits for approval before it fails and adds nothing"""


class KeepDaysSettings(SettingsSection, frozen=True):
    """Days for which personal data is kept; `firmlake prune` removes older data. -1 keeps it."""

    landing: Limit = -1
    """days to keep the landed answers of published runs; -1 keeps them"""
    refused_lines: Limit = -1
    """days to keep the text of refused lines; -1 keeps it"""
    contacts: Limit = -1
    """days to keep plans of contacts and the result for each contact; -1 keeps them"""
    lists: Limit = -1
    """days to keep the cells of company lists; -1 keeps them"""
    lookups: Limit = -1
    """days to keep the landed answers of `firmlake company`; -1 treats them like other answers"""


class PrivacySettings(SettingsSection, frozen=True):
    """What is kept about natural persons."""

    persons: Literal["keep", "hash", "drop"] = "keep"
    """names of persons in answers, also in landing: keep them, hash them with a key, or drop them; a person is a
    related party with a name and no company number"""
    key_file: str = ""
    """file with the key of these hashes and of tombstones; "" uses state/privacy.key in the data folder"""
    keep_days: KeepDaysSettings = KeepDaysSettings()


class ContractSettings(SettingsSection, frozen=True):
    """How to treat answers that differ from the contract; keys are dataset.column or dataset.path; * is any text."""

    new_fields: dict[Pattern, Literal["keep", "freeze"]] = field(default_factory=dict)
    """unknown fields: keep (the default) puts them into extra_json; freeze publishes nothing"""
    values: dict[Pattern, Literal["discard_value", "discard_record", "stop"]] = field(default_factory=dict)
    """values that do not fit: discard_value (default), discard_record, or stop, which publishes nothing"""
    types: dict[Pattern, Literal["decimal"]] = field(default_factory=dict)
    """integer fields that the service sends with decimals: {"financials.employee_count" = "decimal"}"""
    scales: dict[Pattern, Literal[1, 10, 100, 1000]] = field(default_factory=dict)
    """number that the service sends for a whole: 100 if it sends per cent; values are divided by it exactly, and 1
    keeps values of a field whose scale is in doubt: {"relationships.stake_fraction" = 100}"""
    rename: dict[Pattern, str] = field(default_factory=dict)
    """fields or objects of records that the service has under another name, and ours:
    {"financials.profitability.netResult" = "profitability.netProfit"}"""
    decimal_mark: Literal["", ".", ","] = ""
    """decimal mark of numbers that come as text; "" reads only numbers that have one meaning: "1.234,50" but not
    "591.240" """
    date_order: Literal["", "day", "month"] = ""
    """what comes first in dates such as 03/04/2024; "" reads only dates that have one meaning: 31/12/2024"""


class Settings(SettingsSection, frozen=True):
    """All settings; immutable and checked at the start."""

    api: ApiSettings = ApiSettings()
    paths: PathSettings = PathSettings()
    intake: IntakeSettings = IntakeSettings()
    run: RunSettings = RunSettings()
    lists: ListSettings = ListSettings()
    privacy: PrivacySettings = PrivacySettings()
    export: ExportSettings = ExportSettings()
    load: LoadSettings = LoadSettings()
    contract: ContractSettings = ContractSettings()


def _leaves(section: type[Struct] = Settings, prefix: str = "") -> dict[str, Any]:
    """Return every dotted key with its annotated type."""
    found: dict[str, Any] = {}
    for name, hint in get_type_hints(section, include_extras=True).items():
        if isinstance(hint, type) and issubclass(hint, Struct):
            found |= _leaves(hint, f"{prefix}{name}.")
        else:
            found[prefix + name] = hint
    return found


KEYS = _leaves()
"""The annotated type of each setting."""
SECTIONS = {key.rpartition(".")[0] for key in KEYS}


def changed_keys(settings: Settings) -> list[str]:
    """List the dotted keys whose values are not the defaults."""
    return [key for key in KEYS if value_of(settings, key) != value_of(Settings(), key)]


def value_of(settings: Settings, key: str) -> Any:
    """Read a setting by its dotted key."""
    value: Any = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value


def change_settings(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Return settings with other values, given by dotted key."""
    for key, value in changes.items():
        settings = _change(settings, key.split("."), value)
    return settings


def _change(section: Any, names: list[str], value: Any) -> Any:
    name, *rest = names
    return msgspec.structs.replace(section, **{name: _change(getattr(section, name), rest, value) if rest else value})


def description_of(key: str) -> str:
    """Return the description of a setting: the text below it in this file."""
    section, _, name = key.rpartition(".")
    return _read_descriptions(section)[name]


@cache
def _read_descriptions(section: str) -> dict[str, str]:
    lines = ast.parse(inspect.getsource(type(value_of(Settings(), section)))).body[0]
    assert isinstance(lines, ast.ClassDef)
    return {
        setting.target.id: " ".join(text.value.value.split())
        for setting, text in pairwise(lines.body)
        if isinstance(setting, ast.AnnAssign) and isinstance(setting.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def is_tuple(kind: Any) -> bool:
    """Tell whether values of a type are lists."""
    return _bare(kind) is tuple


def is_mapping(kind: Any) -> bool:
    """Tell whether values of a type are tables of names and values."""
    return _bare(kind) is dict


def _bare(kind: Any) -> Any:
    """Return the type of a value without its range and the types of its parts."""
    return get_origin(get_args(kind)[0] if get_origin(kind) is Annotated else kind)


def choices_of(kind: Any) -> Iterable[str]:
    """Yield the values of a type that lists them."""
    for part in get_args(kind):
        if get_origin(kind) is Literal:
            yield part or '""'
        else:
            yield from choices_of(part)
