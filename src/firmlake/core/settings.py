"""All settings, each with its type, range, default and description; `settings_layers` reads files and flags."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from firmlake.core.settings_api import ApiSettings, NameSettings, SettingsSection
from firmlake.core.settings_intake import IntakeSettings

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
        str, Meta(description="data folder: everything that firmlake writes; each belongs to one service")
    ] = "data"
    readers: Annotated[
        str,
        Meta(
            description="system group that may read the warehouses, reports and exports written from now on; "
            '"" is only their owner'
        ),
    ] = ""
    alert_rules: Annotated[
        str,
        Meta(description='file of the rules that raise alerts, such as config/watch.toml; "" raises none'),
    ] = ""


DatasetName = Literal["financials", "lookalikes", "relationships"]


class RunSettings(SettingsSection, frozen=True):
    """What a run does and when it stops."""

    datasets: Annotated[tuple[DatasetName, ...], Meta(min_length=1, description="what to fetch for each company")] = (
        "financials",
        "lookalikes",
        "relationships",
    )
    list_name: Annotated[
        str, Meta(max_length=100, description='name of the company list; "" uses the file name without its ending')
    ] = ""
    refresh_after_days: Annotated[
        int, Meta(ge=0, description="answers younger than this are not fetched again; 0 always fetches")
    ] = 30
    credit_window_days: Annotated[
        int, Meta(ge=0, description="paid window: a company's requests are free for so long after its first one")
    ] = 30
    free_refresh_days: Annotated[
        int,
        Meta(
            ge=0,
            description="fetch fresh companies once more, for free, in so many last days of their paid window; as long "
            "as the time between two runs, 0 never",
        ),
    ] = 7
    max_credits: Annotated[
        int,
        Meta(
            ge=-1,
            description="stop before a run, in all its attempts together, has spent more credits; 0 fetches only what "
            "is free, -1 sets no budget",
        ),
    ] = -1
    max_credits_per_month: Annotated[
        int,
        Meta(
            ge=-1,
            description="stop before this data folder has spent more credits in a calendar month; -1 sets no budget",
        ),
    ] = -1
    time_zone: Annotated[str, Meta(description="time zone of calendar months and days in bills")] = "Europe/Brussels"
    max_requests: Annotated[int, Meta(ge=-1, description="stop before sending more requests; -1 sets no budget")] = -1
    sample: Annotated[
        int, Meta(ge=0, description="fetch only this many companies of the list that are not held yet; 0 fetches all")
    ] = 0
    expand: Annotated[
        Literal["", "lookalikes", "parents", "children"],
        Meta(description='related companies to fetch besides those of the list; "" fetches none'),
    ] = ""
    depth: Annotated[int, Meta(ge=1, description="steps outward from the list if run.expand is set")] = 1
    shard_companies: Annotated[
        int, Meta(ge=1, description="companies of one shard (one Prefect task); a few thousand keep tasks few")
    ] = 5000
    stuck_after_minutes: Annotated[
        float, Meta(ge=0, description="end a run, resumable, to which nothing arrived for so long; 0 never")
    ] = 30.0
    fail_on: Annotated[
        str | float, Meta(description='"any": exit 3 if any company failed; a share such as 0.02: only if more failed')
    ] = "any"
    vanished_share_max: Annotated[
        float,
        Meta(
            ge=0, le=1, description="share of held records that may lose a field; beyond it exit 6, nothing published"
        ),
    ] = 0.01
    vanished_records_min: Annotated[
        int,
        Meta(
            ge=1,
            description="fewer records than this may always lose a field or have it unread, because accounts are "
            "restated now and then",
        ),
    ] = 10
    lookalikes_watched: Annotated[
        int,
        Meta(
            ge=1,
            description="lookalikes watched per company: entering or leaving the first ones is an event in changes",
        ),
    ] = 10
    keep_generations: Annotated[
        int, Meta(ge=1, description="generations of the warehouse to keep, the newest included")
    ] = 5
    duckdb_memory: Annotated[
        str,
        Meta(pattern=r"^\d+\s?(MB|GB|MiB|GiB)$", description="memory limit of DuckDB for loads, exports and reports"),
    ] = "224MB"
    # Older versions cannot read the macros: 1.2 opens no warehouse, whatever its storage version.
    storage_version: Annotated[
        Literal["latest", "v1.5.0", "v1.4.0"],
        Meta(description="oldest DuckDB that can read the warehouse; to change it later, run `firmlake replay`"),
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
            description="how to store the e-mail address of a list's maker, also in landing: keyed hash, as is, or not"
        ),
    ] = "hash"
    created_by_key_file: Annotated[
        str, Meta(description='file with the key of the hash; "" uses state/created_by.key in the data folder')
    ] = ""
    plan_max_age_hours: Annotated[
        float, Meta(ge=0, description="older plans of contacts are refused, because the list may have changed since")
    ] = 24.0
    needs_approval: Annotated[
        bool, Meta(description="whether the flow add_contacts waits until a person approves the plan in Prefect")
    ] = False
    approval_wait_hours: Annotated[
        float, Meta(gt=0, description="how long the flow waits for approval; then it fails and writes nothing")
    ] = 24.0


class KeepDaysSettings(SettingsSection, frozen=True):
    """How long personal data is kept; `firmlake prune` applies it. -1 keeps it for good."""

    landing: Annotated[int, Meta(ge=-1, description="landed answers of published runs, days; -1 keeps them")] = -1
    refused_lines: Annotated[int, Meta(ge=-1, description="text of refused lines of lists, days; -1 keeps it")] = -1
    contacts: Annotated[
        int, Meta(ge=-1, description="plans of contacts and what became of each contact, days; -1 keeps them")
    ] = -1
    lists: Annotated[int, Meta(ge=-1, description="cells of company lists, days; -1 keeps them")] = -1
    lookups: Annotated[
        int, Meta(ge=-1, description="landed answers of `firmlake company`, days; -1 keeps them as others")
    ] = -1


class PrivacySettings(SettingsSection, frozen=True):
    """What is kept about natural persons."""

    persons: Annotated[
        Literal["keep", "hash", "drop"],
        Meta(
            description="names of persons in answers, also in landing: keep them, keep a keyed hash, or drop them; "
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


class ExportSettings(SettingsSection, frozen=True):
    """Where exports go, and in what form."""

    target: Annotated[str, Meta(description='folder, or s3://, gs:// or az:// address; "" exports nothing')] = ""
    format: Annotated[
        Literal["parquet", "delta", "iceberg", "csv", "xlsx"],
        Meta(description="file format; csv and xlsx are for people"),
    ] = "parquet"
    changes: Annotated[bool, Meta(description="export only changed rows, marked as such; otherwise whole tables")] = (
        False
    )
    tables: Annotated[
        tuple[str, ...], Meta(description="tables to export; [] exports the data, its state and the runs")
    ] = ()
    file_megabytes: Annotated[int, Meta(ge=1, le=256, description="approximate size of a full Parquet file")] = 128
    mask: Annotated[
        dict[str, Literal["drop", "hash"]],
        Meta(
            description='columns to drop or to replace by a keyed hash: {"relationships.related_name" = "hash"}; '
            "* is any table, and person, contact, company or text are all columns of that kind (docs/privacy.md)"
        ),
    ] = {}  # noqa: RUF012 - msgspec copies it


class LoadSettings(SettingsSection, frozen=True):
    """Which database `firmlake load` writes to."""

    target: Annotated[
        str,
        Meta(
            description="postgres://HOST/DATABASE (without a password), snowflake://ACCOUNT/DATABASE, "
            'bigquery://PROJECT/DATASET or duckdb:FILE; "" is none'
        ),
    ] = ""
    schema: Annotated[str, Meta(min_length=1, max_length=60, description="schema of the tables there")] = "firmlake"
    tables: Annotated[
        tuple[str, ...],
        Meta(description="tables to load, and those that the schema has; [] loads the data, its state and the runs"),
    ] = ()


Pattern = str
"""A pattern that names fields by dataset and column, or by dataset and the service's path.

Examples: `financials.employee_count`, `financials.people.*`."""


class ContractSettings(SettingsSection, frozen=True):
    """How to treat answers that differ from the contract; keys are dataset.column or dataset.path, * for any."""

    new_fields: Annotated[
        dict[Pattern, Literal["keep", "freeze"]],
        Meta(description="unknown fields: keep them in extra_json (default), or freeze: publish nothing"),
    ] = field(default_factory=dict)
    values: Annotated[
        dict[Pattern, Literal["discard_value", "discard_record", "stop"]],
        Meta(description="values that do not fit: discard_value (default), discard_record, or stop: publish nothing"),
    ] = field(default_factory=dict)
    types: Annotated[
        dict[Pattern, Literal["decimal"]],
        Meta(description='integers that the service sends with decimals: {"financials.employee_count" = "decimal"}'),
    ] = field(default_factory=dict)
    scales: Annotated[
        dict[Pattern, Literal[1, 10, 100, 1000]],
        Meta(
            description="what the service sends for 1, converted exactly; 1 vouches for a field in doubt: "
            '{"relationships.stake_fraction" = 100}'
        ),
    ] = field(default_factory=dict)
    decimal_mark: Annotated[
        Literal["", ".", ","],
        Meta(
            description='mark before decimals in numbers that come as text; "" reads what has one meaning only: '
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
