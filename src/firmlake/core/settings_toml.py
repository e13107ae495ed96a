"""Write settings as TOML, with the description of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from firmlake.core.settings import Settings
from firmlake.core.settings_keys import SECTIONS, description_of

__all__ = ["render_changes", "render_toml", "without_passwords"]

_PASSWORD = re.compile(r"(?<=://)[^/@\s]*:[^/\s]*(?=@)")


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
    """Return some settings as TOML, each below a comment that gives the reason.

    Args:
        changes: Value by dotted key.
        reasons: One line by dotted key; a key without a reason shows the setting's description.
    """
    lines: list[str] = []
    for section in sorted(SECTIONS):
        names = [key for key in changes if key.rpartition(".")[0] == section]
        lines += ["", f"[{section}]"] if names else []
        for key in names:
            reason = "".join(c if c.isprintable() else " " for c in reasons.get(key) or description_of(key))
            lines += [f"# {reason}", f"{key.rpartition('.')[2]} = {_toml_value(changes[key])}"]
    return "\n".join(lines).lstrip("\n") + "\n"


# ---------------------------------------------------------------------------------------------------------------------


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
