"""Read settings from four layers: defaults, the TOML file, `FIRMLAKE_SECTION__KEY`, `--set section.key=value`.

Each layer overrides the one before it. An unknown key is an error, because a misspelt budget would otherwise mean no
budget.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from firmlake.core.errors import SettingsError, UsageError
from firmlake.core.settings import Settings

__all__ = ["changed_keys", "load_settings", "read_flags", "render_changes", "render_toml", "value_of"]

ENVIRONMENT_PREFIX = "FIRMLAKE_"
NOT_SETTINGS = (
    "FIRMLAKE_CONFIG",
    "FIRMLAKE_API_TOKEN",
    "FIRMLAKE_API_TOKEN_FILE",
    "FIRMLAKE_SANDBOX_TOKEN",
)
"""Variables with our prefix that are not settings: the path of the settings file, and secrets."""

DEFAULT_FILE = Path("config/firmlake.toml")


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
    from_flags = ((key, text, (named or {}).get(key, f"--set {key}")) for key, text in (flags or {}).items())
    for is_text, layer in (
        (False, _from_file(file, environment)),
        (True, _from_environment(environment)),
        (True, from_flags),
    ):
        for key, value, origin in layer:
            values[key] = _convert(key, value, origin, is_text)
            origins[key] = origin
    try:
        settings = msgspec.convert(_nest(values), Settings)
    except msgspec.ValidationError as error:  # pragma: no cover - every key was converted before
        raise SettingsError(f"The settings do not fit together: {error}") from None
    _check_together(settings, origins)
    return settings, origins


def read_flags(flags: Iterable[str]) -> dict[str, str]:
    """Read the values of `--set`, such as `api.threads=8`, into texts by dotted key.

    Raises:
        UsageError: A value contains no `=`.
    """
    read = {}
    for flag in flags:
        key, separator, value = flag.partition("=")
        if not separator:
            raise UsageError(f"--set {flag} is not KEY=VALUE", "For example --set api.threads=8")
        read[key.strip()] = value
    return read


def render_toml(settings: Settings, origins: Mapping[str, str] | None = None) -> str:
    """Return settings as TOML with each key's description; with origins, also the origin of each value."""
    lines: list[str] = []
    _render_section(settings, "", origins, lines)
    return "\n".join(lines).lstrip("\n") + "\n"


def render_changes(changes: Mapping[str, Any], reasons: Mapping[str, str]) -> str:
    """Return some settings as TOML, each below a comment that gives the reason.

    Args:
        changes: Value by dotted key.
        reasons: One line by dotted key; a key without a reason shows the setting's description.
    """
    lines: list[str] = []
    for section in sorted(_SECTIONS):
        names = [key for key in changes if key.rpartition(".")[0] == section]
        lines += ["", f"[{section}]"] if names else []
        for key in names:
            reason = "".join(
                c if c.isprintable() else " " for c in reasons.get(key) or _meta(_KEYS[key]).description or ""
            )
            lines += [f"# {reason}", f"{key.rpartition('.')[2]} = {_toml_value(changes[key])}"]
    return "\n".join(lines).lstrip("\n") + "\n"


def changed_keys(settings: Settings) -> list[str]:
    """List the dotted keys whose values are not the defaults."""
    return [key for key in _KEYS if value_of(settings, key) != value_of(Settings(), key)]


def value_of(settings: Settings, key: str) -> Any:
    """Read a setting by its dotted key."""
    value: Any = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value


# ---------------------------------------------------------------------------------------------------------------------


def _leaves(section: type[Struct] = Settings, prefix: str = "") -> dict[str, Any]:
    """Return every dotted key with its annotated type."""
    found: dict[str, Any] = {}
    for name, hint in get_type_hints(section, include_extras=True).items():
        if isinstance(hint, type) and issubclass(hint, Struct):
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
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is no TOMLDecodeError
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


def _convert(key: str, value: Any, origin: str, is_text: bool) -> Any:
    if key not in _KEYS:
        raise _unknown(key, key, list(_KEYS), origin)
    kind = _KEYS[key]
    if _is_mapping(kind):
        value = dict(_read_pairs(value) if is_text else _dotted(value, ""))
    if is_text and _is_tuple(kind):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return msgspec.convert(value, kind, strict=not is_text)
    except msgspec.ValidationError as error:
        # The message leaves the value out: it may be a token in the wrong place.
        what, choices = str(error), list(_choices(kind))
        if choices and what.startswith("Invalid enum value"):
            what = f"choose from {', '.join(choices)}"
        raise SettingsError(f"{key} ({origin}) does not fit: {what}", _hint(key)) from None


def _check_together(settings: Settings, origins: Mapping[str, str]) -> None:
    data = Path(settings.paths.data)
    if data.exists() and not data.is_dir():
        where = origins.get("paths.data", "default")
        raise SettingsError(f"paths.data ({where}) is {data}, which is no folder", "Name a folder, new or used before")
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


def _is_mapping(kind: Any) -> bool:
    return any(get_origin(part) is dict for part in get_args(kind))


def _read_pairs(text: str) -> Iterable[tuple[str, str]]:
    """Yield the pairs of a text such as `a=1, b=2`."""
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        yield name.strip(), value.strip()


def _dotted(table: Any, prefix: str) -> Iterable[tuple[str, Any]]:
    """Join the keys of nested tables: TOML reads an unquoted `a.b = 1` as a table in a table."""
    for name, value in table.items() if isinstance(table, dict) else [(prefix, table)]:
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _is_tuple(kind: Any) -> bool:
    return any(str(part).startswith("tuple") for part in get_args(kind))


def _choices(kind: Any) -> Iterable[str]:
    """Yield the values of a type that lists them."""
    for part in get_args(kind):
        if get_origin(kind) is Literal:
            yield part or '""'
        else:
            yield from _choices(part)


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
        if isinstance(value, Struct):
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
    if isinstance(value, dict):
        pairs = ", ".join(f"{_toml_value(name)} = {_toml_value(each)}" for name, each in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return msgspec.json.encode(value).decode()
