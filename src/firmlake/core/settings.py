"""All settings, each with its type, range, default and description; `settings_layers` reads files and flags."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from firmlake.core.settings_api import ApiSettings, NameSettings, SettingsSection


class IntakeSettings(SettingsSection, frozen=True):
    """How to read a company list, if firmlake cannot detect it from the file."""

    country_column: Annotated[
        str, Meta(description='column of the country, by name or position from 1; "" detects it')
    ] = ""
    number_column: Annotated[
        str, Meta(description='column of the company number, by name or position from 1; "" detects it')
    ] = ""
    contact_column: Annotated[
        str,
        Meta(description='column of the contact id in a list of contacts, by name or position from 1; "" detects it'),
    ] = ""
    default_country: Annotated[Literal["", "BE", "NL", "FR"], Meta(description="country for lines that state none")] = (
        ""
    )
    delimiter: Annotated[str, Meta(max_length=1, description='field separator of CSV; "" detects it')] = ""
    encoding: Annotated[str, Meta(description='encoding of text files; "" detects it')] = ""
    header: Annotated[
        Literal["auto", "yes", "no"],
        Meta(description="whether the list has a line with the names of the columns; auto detects it"),
    ] = "auto"
    header_row: Annotated[
        int, Meta(ge=0, description="number of the line with the names of the columns; 0 detects it")
    ] = 0
    sheet: Annotated[str, Meta(description='worksheet to read; "" uses the first that has company numbers')] = ""
    max_rows: Annotated[int, Meta(ge=1, description="most lines in a list; a longer list is refused")] = 50_000_000
    max_columns: Annotated[int, Meta(ge=1, description="most columns in a list; a wider list is refused")] = 16_384
    max_cells: Annotated[
        int, Meta(ge=1, description="most cells in a worksheet, empty ones included; each takes 50 bytes of memory")
    ] = 25_000_000
    max_inflated_megabytes: Annotated[
        int, Meta(ge=1, description="largest size of a compressed list after decompression, in megabytes")
    ] = 8192
    query_seconds_max: Annotated[
        int, Meta(ge=1, description="longest duration of a query whose result is the list, or of reading a database")
    ] = 120
    keep_columns: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description='columns to keep and to return, also for refused lines: ["all"], ["none"], or names',
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
        """Tell whether a column of a list is kept; case is ignored."""
        named = {name.casefold() for name in self.keep_columns}
        return self.keeps_all or (not self.keeps_none and column.casefold() in named)


class ExportSettings(SettingsSection, frozen=True):
    """What `firmlake export` writes, where and in which format."""

    target: Annotated[
        str, Meta(description='folder to export to, or an s3://, gs:// or az:// address; "" exports nothing')
    ] = ""
    format: Annotated[
        Literal["parquet", "delta", "iceberg", "csv"],
        Meta(description="file format; csv is for people, and `firmlake query SQL --out FILE.xlsx` makes workbooks"),
    ] = "parquet"
    changes: Annotated[
        bool, Meta(description="export only changed rows, each marked with its change, instead of whole tables")
    ] = False
    tables: Annotated[
        tuple[str, ...], Meta(description="tables to export; [] exports the data, its state and the runs")
    ] = ()
    file_megabytes: Annotated[int, Meta(ge=1, le=256, description="approximate size of a full Parquet file")] = 128
    mask: Annotated[
        dict[str, Literal["drop", "hash"]],
        Meta(
            description='columns to drop, or to replace by a keyed hash: {"relationships.related_name" = "hash"}; '
            "* stands for any table, and person, contact, company or text for all columns of that kind "
            "(docs/privacy.md)"
        ),
    ] = {}  # noqa: RUF012 - msgspec copies it


class LoadSettings(SettingsSection, frozen=True):
    """Which database `firmlake load` writes to."""

    target: Annotated[
        str,
        Meta(
            description="postgres://HOST/DATABASE (without a password), snowflake://ACCOUNT/DATABASE, "
            'bigquery://PROJECT/DATASET or duckdb:FILE; "" loads nothing'
        ),
    ] = ""
    schema: Annotated[str, Meta(min_length=1, max_length=60, description="schema of the tables in that database")] = (
        "firmlake"
    )
    tables: Annotated[
        tuple[str, ...],
        Meta(
            description="tables to load besides those already in the schema; [] loads the data, its state and the runs"
        ),
    ] = ()


__all__ = [
    "SANDBOX",
    "ApiSettings",
    "ContractSettings",
    "DatasetName",
    "IntakeSettings",
    "KeepDaysSettings",
    "ListSettings",
    "NameSettings",
    "PathSettings",
    "PrivacySettings",
    "RunSettings",
    "Settings",
]

SANDBOX = "sandbox"
"""The value of `api.base_url` that starts the embedded service and uses it."""


class PathSettings(SettingsSection, frozen=True):
    """Folders and who may read them."""

    data: Annotated[
        str, Meta(description="data folder, where firmlake writes everything; each data folder belongs to one service")
    ] = "data"
    readers: Annotated[
        str,
        Meta(
            description="system group that may read the warehouses, reports and exports written from now on; "
            '"" lets only their owner read them'
        ),
    ] = ""
    alert_rules: Annotated[
        str,
        Meta(description='file of alert rules, such as config/watch.toml; "" raises no alerts'),
    ] = ""
    gates: Annotated[
        str,
        Meta(
            description="file of rules that each generation must meet to be published, such as config/gates.toml; "
            '"" publishes all'
        ),
    ] = ""


DatasetName = Literal["financials", "lookalikes", "relationships"]


PROFILE = "state/profile.toml"
"""The settings that fit the service of a data folder, below that folder."""


class RunSettings(SettingsSection, frozen=True):
    """What a run does and when it stops."""

    datasets: Annotated[
        tuple[DatasetName, ...], Meta(min_length=1, description="datasets to fetch for each company")
    ] = (
        "financials",
        "lookalikes",
        "relationships",
    )
    list_name: Annotated[
        str, Meta(max_length=100, description='name of the company list; "" uses the file name without its ending')
    ] = ""
    refresh_after_days: Annotated[
        int, Meta(ge=0, description="days for which an answer is fresh and is not fetched again; 0 always fetches")
    ] = 30
    credit_window_days: Annotated[
        int,
        Meta(
            ge=0,
            description="length of the paid window: days for which requests for a company are free after its first one",
        ),
    ] = 30
    free_refresh_days: Annotated[
        int,
        Meta(
            ge=0,
            description="number of last days of the paid window in which companies are refreshed for free; set it to "
            "the days between two runs; 0 turns free refreshes off",
        ),
    ] = 7
    max_credits: Annotated[
        int,
        Meta(
            ge=-1,
            description="most credits of one run, including all attempts to resume it; 0 fetches only what is free, "
            "-1 sets no budget",
        ),
    ] = -1
    max_credits_per_month: Annotated[
        int,
        Meta(
            ge=-1,
            description="most credits of this data folder in a calendar month; -1 sets no budget",
        ),
    ] = -1
    credit_price: Annotated[
        str,
        Meta(
            pattern=r"^(\d+(\.\d+)? [A-Z]{3})?$",
            description='price of a credit, such as "0.12 EUR": plans then state money too; "" states credits alone',
        ),
    ] = ""
    time_zone: Annotated[str, Meta(description="time zone of the months and days in bills and budgets")] = (
        "Europe/Brussels"
    )
    check: Annotated[
        bool,
        Meta(
            description="ask a service that the data folder does not know yet up to three questions, before the first "
            "run buys its list, and keep what differs in state/profile.toml"
        ),
    ] = True
    max_requests: Annotated[
        int, Meta(ge=-1, description="most requests to send before the run stops; -1 sets no limit")
    ] = -1
    sample: Annotated[
        int, Meta(ge=0, description="fetch only this many companies of the list that are not held yet; 0 fetches all")
    ] = 0
    expand: Annotated[
        Literal["", "lookalikes", "parents", "children"],
        Meta(description='related companies to fetch in addition to those of the list; "" fetches none'),
    ] = ""
    depth: Annotated[
        int, Meta(ge=1, description="number of steps from the list to related companies, if run.expand is set")
    ] = 1
    shard_companies: Annotated[
        int,
        Meta(
            ge=1,
            description="companies in one shard, which is one Prefect task; a few thousand keep the number of tasks "
            "small",
        ),
    ] = 5000
    stuck_after_minutes: Annotated[
        float,
        Meta(
            ge=0, description="minutes without any answer after which a run stops and can be resumed; 0 never stops it"
        ),
    ] = 30.0
    fail_on: Annotated[
        str | float,
        Meta(description='"any": exit 3 if any company failed; a share such as 0.02: exit 3 only if more failed'),
    ] = "any"
    vanished_share_max: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="share of held records that may lose a field; if more do, exit 6 and publish nothing",
        ),
    ] = 0.01
    vanished_records_min: Annotated[
        int,
        Meta(
            ge=1,
            description="if fewer records than this lose a field, or have a value that does not fit, the run goes on: "
            "accounts are restated now and then",
        ),
    ] = 10
    lookalikes_watched: Annotated[
        int,
        Meta(
            ge=1,
            description="number of first lookalikes of a company whose entering and leaving is recorded in changes",
        ),
    ] = 10
    keep_generations: Annotated[
        int, Meta(ge=1, description="number of generations of the warehouse to keep, the newest included")
    ] = 5
    duckdb_memory: Annotated[
        str,
        Meta(pattern=r"^\d+\s?(MB|GB|MiB|GiB)$", description="memory limit of DuckDB for loads, exports and reports"),
    ] = "224MB"
    # Older versions cannot read the macros: 1.2 opens no warehouse, whatever its storage version.
    storage_version: Annotated[
        Literal["latest", "v1.5.0", "v1.4.0"],
        Meta(description="oldest DuckDB that can read the warehouse; after a change, run `firmlake replay`"),
    ] = "v1.4.0"

    @property
    def fail_share(self) -> float:
        """Largest share of failed companies that still counts as done."""
        return 0.0 if self.fail_on == "any" else float(self.fail_on)


class ListSettings(SettingsSection, frozen=True):
    """Service lists: what to keep of their overview, and how to add contacts to them."""

    created_by: Annotated[
        Literal["hash", "as_is", "omit"],
        Meta(
            description="how to store the e-mail address of a list's creator, also in landing: hash (keyed), as_is, or "
            "omit"
        ),
    ] = "hash"
    created_by_key_file: Annotated[
        str, Meta(description='file with the key of this hash; "" uses state/created_by.key in the data folder')
    ] = ""
    plan_max_age_hours: Annotated[
        float,
        Meta(
            ge=0,
            description="hours after which a plan of contacts is refused, because the list may have changed since",
        ),
    ] = 24.0
    needs_approval: Annotated[
        bool, Meta(description="whether the flow add_contacts waits until a person approves the plan in Prefect")
    ] = False
    approval_wait_hours: Annotated[
        float, Meta(gt=0, description="hours that the flow waits for approval before it fails and adds nothing")
    ] = 24.0


class KeepDaysSettings(SettingsSection, frozen=True):
    """Days for which personal data is kept; `firmlake prune` removes older data. -1 keeps it."""

    landing: Annotated[
        int, Meta(ge=-1, description="days to keep the landed answers of published runs; -1 keeps them")
    ] = -1
    refused_lines: Annotated[int, Meta(ge=-1, description="days to keep the text of refused lines; -1 keeps it")] = -1
    contacts: Annotated[
        int, Meta(ge=-1, description="days to keep plans of contacts and the result for each contact; -1 keeps them")
    ] = -1
    lists: Annotated[int, Meta(ge=-1, description="days to keep the cells of company lists; -1 keeps them")] = -1
    lookups: Annotated[
        int,
        Meta(
            ge=-1,
            description="days to keep the landed answers of `firmlake company`; -1 treats them like other answers",
        ),
    ] = -1


class PrivacySettings(SettingsSection, frozen=True):
    """What is kept about natural persons."""

    persons: Annotated[
        Literal["keep", "hash", "drop"],
        Meta(
            description="names of persons in answers, also in landing: keep them, hash them with a key, or drop them; "
            "a person is a related party with a name and no company number"
        ),
    ] = "keep"
    key_file: Annotated[
        str,
        Meta(
            description='file with the key of these hashes and of tombstones; "" uses state/privacy.key in the '
            "data folder"
        ),
    ] = ""
    keep_days: KeepDaysSettings = KeepDaysSettings()


Pattern = str
"""A pattern that names fields by dataset and column, or by dataset and the service's path.

Examples: `financials.employee_count`, `financials.people.*`."""


class ContractSettings(SettingsSection, frozen=True):
    """How to treat answers that differ from the contract; keys are dataset.column or dataset.path; * is any text."""

    new_fields: Annotated[
        dict[Pattern, Literal["keep", "freeze"]],
        Meta(description="unknown fields: keep (the default) puts them into extra_json; freeze publishes nothing"),
    ] = field(default_factory=dict)
    values: Annotated[
        dict[Pattern, Literal["discard_value", "discard_record", "stop"]],
        Meta(
            description="values that do not fit: discard_value (default), discard_record, or stop, which publishes "
            "nothing"
        ),
    ] = field(default_factory=dict)
    types: Annotated[
        dict[Pattern, Literal["decimal"]],
        Meta(
            description='integer fields that the service sends with decimals: {"financials.employee_count" = "decimal"}'
        ),
    ] = field(default_factory=dict)
    scales: Annotated[
        dict[Pattern, Literal[1, 10, 100, 1000]],
        Meta(
            description="number that the service sends for a whole: 100 if it sends per cent; values are divided by it "
            "exactly, and 1 keeps values of a field whose scale is in doubt: "
            '{"relationships.stake_fraction" = 100}'
        ),
    ] = field(default_factory=dict)
    rename: Annotated[
        dict[Pattern, str],
        Meta(
            description="fields or objects of records that the service has under another name, and ours: "
            '{"financials.profitability.netResult" = "profitability.netProfit"}'
        ),
    ] = field(default_factory=dict)
    decimal_mark: Annotated[
        Literal["", ".", ","],
        Meta(
            description='decimal mark of numbers that come as text; "" reads only numbers that have one meaning: '
            '"1.234,50" but not "591.240"'
        ),
    ] = ""


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
