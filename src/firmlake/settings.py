"""Settings: every key with its unit, default, range and reason, read from TOML, the environment and flags.

Each layer overrides the one before it: defaults, the TOML file, `FIRMLAKE_SECTION__KEY`, `--set section.key=value`.
A key that does not exist is an error, because a misspelt budget would otherwise be no budget.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from firmlake.errors import SettingsError

__all__ = [
    "ApiSettings",
    "ExportSettings",
    "IntakeSettings",
    "ListSettings",
    "PathSettings",
    "RunSettings",
    "Settings",
    "changed_keys",
    "load_settings",
    "render_toml",
]

ENVIRONMENT_PREFIX = "FIRMLAKE_"
NOT_SETTINGS = (
    "FIRMLAKE_CONFIG",
    "FIRMLAKE_API_TOKEN",
    "FIRMLAKE_API_TOKEN_FILE",
    "FIRMLAKE_SANDBOX_TOKEN",
)
"""Names with our prefix that are not keys: where the settings are, and secrets, which no settings file may hold."""

DEFAULT_FILE = Path("config/firmlake.toml")
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
    header: Annotated[Literal["auto", "yes", "no"], Meta(description="whether the first line holds names")] = "auto"
    sheet: Annotated[str, Meta(description='sheet of a workbook; "" is the first')] = ""


Dataset = Literal["financials", "lookalikes", "relationships"]


class RunSettings(_Section, frozen=True):
    """What a run does and when it stops."""

    datasets: Annotated[tuple[Dataset, ...], Meta(min_length=1, description="what to fetch for each company")] = (
        "financials",
        "lookalikes",
        "relationships",
    )
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
        Meta(ge=0, le=1, description="records that may lack a known field before a run is not published (exit 6)"),
    ] = 0.01
    lookalikes_watched: Annotated[
        int, Meta(ge=1, description="a company that enters or leaves so many first lookalikes is an event in changes")
    ] = 10
    keep_generations: Annotated[int, Meta(ge=1, description="warehouse files kept, the newest included")] = 5
    duckdb_memory: Annotated[
        str, Meta(pattern=r"^\d+\s?(MB|GB|MiB|GiB)$", description="memory limit of DuckDB while loading")
    ] = "512MB"
    # Older ones cannot read the macros: 1.2 opens no such file whatever its version.
    storage_version: Annotated[
        Literal["latest", "v1.5.0", "v1.4.0"],
        Meta(description="oldest DuckDB that can read the warehouse; where there is one, `firmlake replay` applies it"),
    ] = "latest"

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


class Settings(_Section, frozen=True):
    """All settings of a run; frozen, checked at the start."""

    api: ApiSettings = ApiSettings()
    paths: PathSettings = PathSettings()
    intake: IntakeSettings = IntakeSettings()
    run: RunSettings = RunSettings()
    lists: ListSettings = ListSettings()
    export: ExportSettings = ExportSettings()


def load_settings(
    file: Path | None = None,
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[Settings, dict[str, str]]:
    """Read the settings from all layers.

    Args:
        file: TOML file; None takes FIRMLAKE_CONFIG, else `config/firmlake.toml` where it exists, else defaults alone.
        flags: Dotted key to text, as given with `--set`.
        environment: The process environment; None takes the real one.

    Returns:
        The settings, and for each dotted key that a layer set, where its value comes from.

    Raises:
        SettingsError: A key is unknown (the nearest right one is named) or a value does not fit.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for key, value, origin in (
        *_from_file(file, environment),
        *_from_environment(environment),
        *((key, text, f"--set {key}") for key, text in (flags or {}).items()),
    ):
        values[key] = _convert(key, value, origin)
        origins[key] = origin
    try:
        settings = msgspec.convert(_nest(values), Settings)
    except msgspec.ValidationError as error:  # pragma: no cover - every key was converted before
        raise SettingsError(f"The settings do not fit together: {error}") from None
    _check_together(settings, origins)
    return settings, origins


def render_toml(settings: Settings, origins: Mapping[str, str] | None = None) -> str:
    """Write settings as TOML with each key's description; with origins, also where each value comes from."""
    lines: list[str] = []
    _render_section(settings, "", origins, lines)
    return "\n".join(lines).lstrip("\n") + "\n"


def changed_keys(settings: Settings) -> list[str]:
    """List the dotted keys whose values are not the defaults."""
    return [key for key in _KEYS if _value_at(settings, key) != _value_at(Settings(), key)]


# ---------------------------------------------------------------------------------------------------------------------


def _leaves(section: type[Struct] = Settings, prefix: str = "") -> dict[str, Any]:
    """Every dotted key with its annotated type."""
    found: dict[str, Any] = {}
    for name, hint in get_type_hints(section, include_extras=True).items():
        if isinstance(hint, type) and issubclass(hint, _Section):
            found |= _leaves(hint, f"{prefix}{name}.")
        else:
            found[prefix + name] = hint
    return found


_KEYS = _leaves()
_SECTIONS = {key.rpartition(".")[0] for key in _KEYS}


def _from_file(file: Path | None, environment: Mapping[str, str]) -> Iterable[tuple[str, Any, str]]:
    named = file or (Path(environment["FIRMLAKE_CONFIG"]) if environment.get("FIRMLAKE_CONFIG") else None)
    path = named or DEFAULT_FILE
    if named is None and not path.exists():
        return
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}", "Name a settings file that can be read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}", "Correct that line") from None
    yield from _flatten(content, "", str(path))


def _flatten(table: Mapping[str, Any], prefix: str, origin: str) -> Iterable[tuple[str, Any, str]]:
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and (key in _SECTIONS or not prefix):
            if key not in _SECTIONS:
                raise _unknown(f"[{key}]", key, sorted(_SECTIONS), origin)
            yield from _flatten(value, f"{key}.", origin)
        else:
            yield key, value, origin


def _from_environment(environment: Mapping[str, str]) -> Iterable[tuple[str, Any, str]]:
    known = {ENVIRONMENT_PREFIX + key.upper().replace(".", "__"): key for key in _KEYS}
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX) or name in NOT_SETTINGS:
            continue
        if name not in known:
            raise _unknown(name, name, [*known, *NOT_SETTINGS], "the environment")
        yield known[name], environment[name], name


def _convert(key: str, value: Any, origin: str) -> Any:
    if key not in _KEYS:
        raise _unknown(key, key, list(_KEYS), origin)
    kind = _KEYS[key]
    is_text = isinstance(value, str) and origin.startswith((ENVIRONMENT_PREFIX, "--set"))
    if is_text and _is_tuple(kind):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return msgspec.convert(value, kind, strict=not is_text)
    except msgspec.ValidationError as error:
        # The value itself is left out: somebody may have put a token in the wrong place.
        raise SettingsError(f"{key} ({origin}) does not fit: {error}", _hint(key)) from None


def _check_together(settings: Settings, origins: Mapping[str, str]) -> None:
    try:
        share = settings.run.fail_share
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        where = origins.get("run.fail_on", "default")
        raise SettingsError(f"run.fail_on ({where}) does not fit", 'Give "any" or a share from 0 to 1, such as 0.02')
    if 0 < settings.api.records_per_request < settings.api.companies_per_request:
        raise SettingsError(
            "api.records_per_request is smaller than api.companies_per_request: no page would fit",
            "Lower companies_per_request, or lift records_per_request with 0",
        )


def _value_at(settings: Settings, key: str) -> Any:
    value: Any = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _is_tuple(kind: Any) -> bool:
    return any(str(part).startswith("tuple") for part in get_args(kind))


def _meta(kind: Any) -> Meta:
    return next(part for part in get_args(kind) if isinstance(part, Meta))


def _hint(key: str) -> str:
    return f"{key}: {_meta(_KEYS[key]).description}"


def _unknown(what: str, key: str, known: list[str], origin: str) -> SettingsError:
    near = difflib.get_close_matches(key, known, 1, 0.5) or difflib.get_close_matches(
        key, [k.split(".")[-1] for k in known], 1
    )
    meant = f"Did you mean {near[0]}? " if near else ""
    return SettingsError(f"{what} ({origin}) is not a setting", f"{meant}`firmlake config show` lists them all")


def _nest(values: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        table = nested
        for section in sections:
            table = table.setdefault(section, {})
        table[name] = value
    return nested


def _render_section(section: Struct, prefix: str, origins: Mapping[str, str] | None, lines: list[str]) -> None:
    nested = []
    if prefix:
        lines += ["", f"# {(type(section).__doc__ or '').strip()}", f"[{prefix.rstrip('.')}]"]
    for name in section.__struct_fields__:
        value = getattr(section, name)
        if isinstance(value, _Section):
            nested.append((name, value))
            continue
        key = prefix + name
        origin = f"  # {origins[key]}" if origins and key in origins else ""
        lines += [f"# {_meta(_KEYS[key]).description}", f"{name} = {_toml_value(value)}{origin}"]
    for name, value in nested:
        _render_section(value, f"{prefix}{name}.", origins, lines)


def _toml_value(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return msgspec.json.encode(value).decode()
