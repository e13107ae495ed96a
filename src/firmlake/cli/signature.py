"""A function as a command: its signature says what can be typed, its docstring what that means.

| in the signature | on the command line |
|---|---|
| `name`, `name="..."` | an argument, an optional one |
| `*names` | any number of arguments |
| `*, max_credits=None` | the option `--max-credits` |
| `*, tables: tuple[str, ...] = ()` | the option `--table`, repeatable |
| `*, anyway: bool = False` | the flag `--anyway` |
| a `Literal`, a click type in `Annotated` | a choice, a checked value |
| `Annotated[T, function]` | the parameters of that function, which makes the value of what is typed |

A line `name (METAVAR): meaning` under "Args" is the help. Names in the parentheses that begin with `--` replace the
option's own. Flows are started by hand in the same way.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click

PATH = click.Path(path_type=Path)
"""The type of options and arguments that name a file or folder."""

_ENTRY = re.compile(r"^    (\w+)(?: \((.*?)\))?: ((?:.*(?:\n {6,})?)*)", re.MULTILINE)
_SECTION = re.compile(r"\n+(?:Args|Returns|Raises):\n")
_OF_THE_CALL = ("call", "_call")


def help_of(function: Callable[..., Any]) -> str:
    """Return the help of a command: the docstring without its sections."""
    return _SECTION.split(inspect.cleandoc(function.__doc__ or ""))[0]


def parameters_of(function: Callable[..., Any], without: tuple[str, ...] = _OF_THE_CALL) -> Iterator[click.Parameter]:
    """Yield what can be typed for a function, and for the functions that make its values."""
    _, _, described = inspect.cleandoc(function.__doc__ or "").partition("\nArgs:\n")
    meanings = {name: (spelled, " ".join(text.split())) for name, spelled, text in _ENTRY.findall(described)}
    for parameter, hint, maker in _parameters(function, without):
        if maker:
            yield from parameters_of(maker)
        else:
            yield _parameter(parameter, hint, *meanings.get(parameter.name, ("", "")))


def call_with(function: Callable[..., Any], given: Mapping[str, Any], call: object) -> Any:
    """Call a function with what was typed, after the functions that make its values."""
    positional, named = [call], {}
    for parameter, _, maker in _parameters(function, _OF_THE_CALL):
        value = call_with(maker, given, call) if maker else given[parameter.name]
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            positional += value if parameter.kind is parameter.VAR_POSITIONAL else [value]
    return function(*positional, **named)


def _parameters(
    function: Callable[..., Any], without: tuple[str, ...]
) -> Iterator[tuple[inspect.Parameter, Any, Callable[..., Any] | None]]:
    """Yield each parameter with its type, and the function that makes its value."""
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in without:
            hint = hints[parameter.name]
            made = hint.__metadata__[0] if get_origin(hint) is Annotated else None
            yield parameter, hint, made if inspect.isfunction(made) else None


def _parameter(parameter: inspect.Parameter, hint: Any, spelled: str, text: str) -> click.Parameter:
    kind, is_multiple = _click_type(hint)
    metavar = " ".join(word for word in spelled.split() if not word.startswith("--")) or None
    is_required, name = parameter.default is parameter.empty, parameter.name
    default = None if is_required else parameter.default
    given = {"required": True} if is_required else {"default": default}  # click takes a default of None for a value
    if parameter.kind is parameter.VAR_POSITIONAL:
        return click.Argument([name], type=kind, nargs=-1, required=bool(metavar), metavar=metavar)
    if parameter.kind is not parameter.KEYWORD_ONLY:
        return click.Argument([name], type=kind, metavar=metavar, **given)
    own = "--" + (name.removesuffix("s") if is_multiple else name).replace("_", "-")
    flags = [word for word in spelled.split() if word.startswith("--")] or [own]
    return click.Option(
        [*flags, name], type=kind, multiple=is_multiple, is_flag=kind is click.BOOL, metavar=metavar, help=text,
        **given, show_default=isinstance(default, str | int | float) and bool(default) and "Default:" not in text,
    )  # fmt: skip


def _click_type(hint: Any) -> tuple[Any, bool]:
    """Return the click type for a type, and whether it may be given several times."""
    if get_origin(hint) is Annotated:
        return hint.__metadata__[0], False
    if get_origin(hint) in (Union, UnionType):
        return _click_type(next(each for each in get_args(hint) if each is not type(None)))
    if get_origin(hint) in (tuple, list) and (get_origin(hint) is list or get_args(hint)[-1] is ...):
        return _click_type(get_args(hint)[0])[0], True
    if get_origin(hint) is tuple:
        return get_args(hint), False
    if get_origin(hint) is Literal:
        return click.Choice(get_args(hint)), False
    return {Path: PATH, bool: click.BOOL}.get(hint, hint), False
