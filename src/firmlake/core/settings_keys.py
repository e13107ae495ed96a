"""Every setting by its dotted key: its type, description and value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct

from firmlake.core.settings import Settings

__all__ = ["KEYS", "SECTIONS", "changed_keys", "choices_of", "description_of", "is_mapping", "is_tuple", "value_of"]


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


def description_of(key: str) -> str:
    """Return the description of a setting."""
    return next(part for part in get_args(KEYS[key]) if isinstance(part, Meta)).description or ""


def is_tuple(kind: Any) -> bool:
    """Tell whether values of a type are lists."""
    return any(str(part).startswith("tuple") for part in get_args(kind))


def is_mapping(kind: Any) -> bool:
    """Tell whether values of a type are tables of names and values."""
    return any(get_origin(part) is dict for part in get_args(kind))


def choices_of(kind: Any) -> Iterable[str]:
    """Yield the values of a type that lists them."""
    for part in get_args(kind):
        if get_origin(kind) is Literal:
            yield part or '""'
        else:
            yield from choices_of(part)
