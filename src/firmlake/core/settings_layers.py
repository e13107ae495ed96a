"""Settings as text: read from five layers, and written as TOML with their descriptions.

The layers are defaults, profile, TOML file, `FIRMLAKE_SECTION__KEY` and `--set section.key=value`.
The profile is what the first run of a data folder found out about its service. Each layer overrides the one before it,
but a file overrides the profile only by what is no default.
An unknown key is an error, because a misspelt budget would otherwise mean no budget.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Struct

from firmlake.core.errors import SettingsError, UsageError
from firmlake.core.example import follow_examples, read_example
from firmlake.core.settings import (
    KEYS,
    PROFILE,
    SANDBOX,
    SECTIONS,
    PathSettings,
    RequestSettings,
    Settings,
    change_settings,
    choices_of,
    description_of,
    is_mapping,
    is_tuple,
    value_of,
)
from firmlake.core.text import shown

ENVIRONMENT_PREFIX = "FIRMLAKE_"
NOT_SETTINGS = (
    "FIRMLAKE_CONFIG",
    "FIRMLAKE_API_TOKEN",
    "FIRMLAKE_API_TOKEN_FILE",
    "FIRMLAKE_API_TOKEN_BLOCK",
    "FIRMLAKE_SANDBOX_TOKEN",
)
"""Variables with our prefix that are not settings: the path of the settings file, and secrets."""

DEFAULT_FILE = Path("config/firmlake.toml")

_TAKEN_OVER = {
    f"api.names.{name}": "Show the whole request in api.requests instead; `firmlake config show` has the defaults"
    for name in (
        "companies", "company", "company_contacts", "company_number", "contact_id", "contacts", "country",
        "language_header", "limit", "offset",
    )
}  # fmt: skip
"""What took the place of a setting."""

_OF_A_PROFILE = (
    "api.companies_per_request", "api.keep_leading_zero", "api.names.", "api.offsets", "api.page_limit_max",
    "api.records_per_request", "api.requests.", "api.requests_per_minute", "api.totals", "contract.",
)  # fmt: skip
"""How the settings begin that say what the requests and answers of a service look like."""

_PASSWORD = re.compile(r"(?<=://)[^/@\s]*:[^/\s]*(?=@)")

_found_addresses: dict[str, Path] = {}
"""Addresses of services from a settings file that nobody named, with that file."""
_asking: list[Callable[[str], bool]] = []
"""How to ask a person; empty if there is none."""


def load_settings(
    file: Path | None = None,
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    named: Mapping[str, str] | None = None,
) -> tuple[Settings, dict[str, str]]:
    """Read the settings from all layers.

    Args:
        file: TOML file; None takes FIRMLAKE_CONFIG, or `config/firmlake.toml` if it exists, or the defaults alone.
        flags: Text by dotted key, as given with `--set`.
        environment: Environment variables; None takes those of the process.
        named: Flag by dotted key, for settings that have a flag of their own instead of `--set`.

    Returns:
        The settings, and the origin of every value that is not a default, by dotted key.

    Raises:
        SettingsError: A key is unknown (the message suggests the nearest one) or a value does not fit.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    config = file or environment.get("FIRMLAKE_CONFIG")
    path = Path(config or DEFAULT_FILE)
    from_flags = ((key, text, (named or {}).get(key, f"--set {key}")) for key, text in (flags or {}).items())
    for is_text, layer in (
        (False, _read(path) if config or path.exists() else ()),
        (True, _from_environment(environment)),
        (True, from_flags),
    ):
        for key, value, origin in layer:
            values[key] = _convert(key, value, origin, is_text)
            origins[key] = origin
    for key, value, origin in read_profile(Path(values.get("paths.data", PathSettings().data))):
        # A file that lists every setting, as config/firmlake.toml does, repeats defaults without meaning them.
        is_repeated = origins.get(key) == str(path) and values[key] == value_of(Settings(), key)
        if key not in values or is_repeated:
            values[key] = _convert(key, value, origin, is_text=False)
            origins[key] = origin
    settings = change_settings(Settings(), values)
    _check_together(settings, origins)
    followed = follow_examples(*map(msgspec.structs.asdict, (settings.api.requests, RequestSettings())))
    if followed:
        settings = change_settings(settings, {f"api.requests.{name}": text for name, text in followed.items()})
        origins |= {f"api.requests.{name}": "as the example of another dataset" for name in followed}
    address = settings.api.base_url
    if origins.get("api.base_url") == str(DEFAULT_FILE) and not config:
        _found_addresses[address] = DEFAULT_FILE.absolute()
    else:
        _found_addresses.pop(address, None)
    return settings, origins


def check_named(address: str) -> None:
    """Refuse to send the token to an address from a settings file that nobody named; on a terminal, ask.

    A file in the current folder is read without being named, and whoever made the folder chose its address. If nobody
    can be asked, or the answer is no, that is a SettingsError.
    """
    file = _found_addresses.get(address)
    if file is None or address == SANDBOX:
        return
    if not any(ask(f"{file} names the service {shown(address)}. Send your token there?") for ask in _asking):
        raise SettingsError(
            f"The token is not sent to {shown(address)}: only {file} names it, a file that was found in the current "
            "folder",
            f"If you trust that file, set FIRMLAKE_CONFIG={quote(str(file))} or give --config; or set "
            "FIRMLAKE_API__BASE_URL",
        )
    del _found_addresses[address]


@contextmanager
def confirm_by(ask: Callable[[str], bool]) -> Iterator[None]:
    """Let a person confirm an address that `check_named` would refuse."""
    _asking.append(ask)
    try:
        yield
    finally:
        _asking.remove(ask)


def read_flags(flags: Iterable[str]) -> dict[str, str]:
    """Read the values of `--set`, such as `api.threads=8`, into texts by dotted key; UsageError if one has no `=`."""
    read = {}
    for flag in flags:
        key, separator, value = flag.partition("=")
        if not separator:
            raise UsageError(f"--set {flag} is not KEY=VALUE", "For example --set api.threads=8")
        read[key.strip()] = value
    return read


def read_profile(data: Path) -> Iterator[tuple[str, Any, str]]:
    """Yield key, value and file of what the first run of a data folder found out about its service.

    A setting that is not about the form of requests and answers is a SettingsError.
    """
    path = data / PROFILE
    if not path.is_file():
        return
    for key, value, origin in _read(path):
        if not key.startswith(_OF_A_PROFILE):
            raise SettingsError(
                f"{key} ({origin}) does not belong in the profile of a service", "Remove that line, or the file"
            )
        yield key, value, origin


def _read(path: Path) -> Iterable[tuple[str, Any, str]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}", "Name a settings file that can be read") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is no TOMLDecodeError
        raise SettingsError(f"{path} is not TOML: {error}", "Correct that line") from None
    yield from _flatten(content, "", str(path))


def _flatten(table: Mapping[str, Any], prefix: str, origin: str) -> Iterable[tuple[str, Any, str]]:
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and (key in SECTIONS or not prefix):
            if key not in SECTIONS:
                raise _unknown(f"[{key}]", key, sorted(SECTIONS), origin)
            yield from _flatten(value, f"{key}.", origin)
        else:
            yield key, value, origin


def _from_environment(environment: Mapping[str, str]) -> Iterable[tuple[str, Any, str]]:
    known = {ENVIRONMENT_PREFIX + key.upper().replace(".", "__"): key for key in KEYS}
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX) or name in NOT_SETTINGS:
            continue
        if name not in known:
            raise _unknown(name, name, [*known, *NOT_SETTINGS], "the environment")
        yield known[name], environment[name], name


def _convert(key: str, value: Any, origin: str, is_text: bool) -> Any:
    if taken_over := _TAKEN_OVER.get(key):
        raise SettingsError(f"{key} ({origin}) is not a setting any more", taken_over)
    if key not in KEYS:
        raise _unknown(key, key, list(KEYS), origin)
    kind = KEYS[key]
    if is_text and (is_mapping(kind) or is_tuple(kind)):
        value = _read_parts(value, f"{key} ({origin})", is_table=is_mapping(kind))
    if is_mapping(kind):
        value = dict(_dotted(value, ""))
    try:
        return msgspec.convert(value, kind, strict=not is_text)
    except msgspec.ValidationError as error:
        # The message leaves the value out: it may be a token in the wrong place.
        what = str(error).replace("`int`", "a whole number").replace("`str`", "text")
        choices = list(choices_of(kind))
        if choices and what.startswith("Invalid enum value"):
            what = f"choose from {', '.join(map(str, choices))}"
        raise SettingsError(f"{key} ({origin}) does not fit: {what}", f"{key}: {description_of(key)}") from None


def _read_parts(text: str, what: str, *, is_table: bool) -> Any:
    """Read a table or an array as a settings file has it, or `a=1, b=2` or texts with commas in between."""
    if text.strip().startswith(("{", "[")):
        try:
            return tomllib.loads(f"value = {text.strip()}")["value"]
        except (ValueError, RecursionError) as error:  # so are numbers of thousands of digits, thousands of brackets
            said = f"{what} does not fit: it begins with {text.strip()[0]}, but is not TOML ({error})"
            raise SettingsError(said, 'Write it as {"a" = "b"} or a=b, an array as ["a", "b"] or a, b') from None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return {name.strip(): value.strip() for name, _, value in (p.partition("=") for p in parts)} if is_table else parts


def _check_together(settings: Settings, origins: Mapping[str, str]) -> None:
    data = Path(settings.paths.data)
    if data.exists() and not data.is_dir():
        where = origins.get("paths.data", "default")
        raise SettingsError(
            f"paths.data ({where}) is {data}, which is not a folder", "Name a new folder or a data folder"
        )
    try:
        ZoneInfo(settings.run.time_zone)
    except (ValueError, ZoneInfoNotFoundError):
        where = origins.get("run.time_zone", "default")
        raise SettingsError(
            f"run.time_zone ({where}) names no time zone", "Name one such as Europe/Brussels or UTC"
        ) from None
    for endpoint in RequestSettings.__struct_fields__:
        read_example(endpoint, getattr(settings.api.requests, endpoint))
    if 0 < settings.api.records_per_request < settings.api.companies_per_request:
        raise SettingsError(
            "api.records_per_request is smaller than api.companies_per_request: no page would fit",
            "Lower companies_per_request, or lift records_per_request with 0",
        )


def _dotted(table: Any, prefix: str) -> Iterable[tuple[str, Any]]:
    """Join the keys of nested tables: TOML reads an unquoted `a.b = 1` as a table in a table."""
    for name, value in table.items() if isinstance(table, dict) else [(prefix, table)]:
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _unknown(what: str, key: str, known: list[str], origin: str) -> SettingsError:
    near = difflib.get_close_matches(key, known, 1, 0.5) or difflib.get_close_matches(
        key, [k.split(".")[-1] for k in known], 1
    )
    meant = f"Did you mean {near[0]}? " if near else ""
    return SettingsError(f"{what} ({origin}) is not a setting", f"{meant}`firmlake config show` lists them all")


def render_toml(settings: Settings, origins: Mapping[str, str] | None = None) -> str:
    """Return settings as TOML with each key's description; with origins, also the origin of each value."""
    lines: list[str] = []
    _render_section(settings, "", origins, lines)
    return "\n".join(lines).lstrip("\n") + "\n"


def without_passwords(value: Any) -> Any:
    """Return settings in which the passwords of addresses (`scheme://user:password@host`) are hidden."""
    match value:
        case Struct():
            fields = {name: without_passwords(getattr(value, name)) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **fields)
        case str():
            return _PASSWORD.sub("[hidden]", value)
        case tuple():
            return tuple(map(without_passwords, value))
        case dict():
            return {name: without_passwords(each) for name, each in value.items()}
    return value


def render_changes(changes: Mapping[str, Any], reasons: Mapping[str, str]) -> str:
    """Return settings as TOML, each below a comment with its reason; without one, with the setting's description."""
    lines: list[str] = []
    for section in sorted(SECTIONS):
        names = [key for key in changes if key.rpartition(".")[0] == section]
        lines += ["", f"[{section}]"] if names else []
        for key in names:
            reason = "".join(c if c.isprintable() else " " for c in reasons.get(key) or description_of(key))
            lines += [f"# {reason}", f"{key.rpartition('.')[2]} = {_toml_value(changes[key])}"]
    return "\n".join(lines).lstrip("\n") + "\n"


def _render_section(section: Struct, prefix: str, origins: Mapping[str, str] | None, lines: list[str]) -> None:
    nested = []
    if prefix:
        lines += ["", f"# {(type(section).__doc__ or '').strip()}", f"[{prefix.rstrip('.')}]"]
    for name in section.__struct_fields__:
        value = getattr(section, name)
        if isinstance(value, Struct):
            nested.append((name, value))
            continue
        key = prefix + name
        origin = f"  # {origins[key]}" if origins and key in origins else ""
        lines += [f"# {description_of(key)}", f"{name} = {_toml_value(value)}{origin}"]
    for name, value in nested:
        _render_section(value, f"{prefix}{name}.", origins, lines)


def _toml_value(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, dict):
        pairs = ", ".join(f"{_toml_value(name)} = {_toml_value(each)}" for name, each in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, str) and "\n" in value and "'''" not in value and value.replace("\n", "").isprintable():
        return f"'''\n{value}'''"
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")  # which JSON allows, but TOML does not


SAMPLE_SETTINGS = {
    "api.base_url": SANDBOX,
    "paths.data": "data/sandbox",
    "paths.alert_rules": str(Path(__file__).with_name("watch.toml")),
}
"""Settings of the sample list by dotted key; settings of the user override them.

The rules of alerts are those of config/watch.toml."""
_SAMPLE = Path("data/intake/sample.csv")
_PACKAGED = Path(__file__).with_name("sample.csv")


def find_sample() -> Path:
    """Return the path of the sample list: the one in the working directory's clone, or the installed one."""
    return _SAMPLE if _SAMPLE.exists() else _PACKAGED
