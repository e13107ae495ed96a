"""Why a list cannot be used: a code where it is noticed, and its sentences in `refusals.toml`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import msgspec

from firmlake.core.errors import CompanyListError

_TOML: Final = Path(__file__).with_suffix(".toml").read_text("utf-8")
REFUSALS: Final = msgspec.toml.decode(_TOML, type=dict[str, tuple[str, str]])
"""Message and next step by code."""


class UndecidedError(CompanyListError):
    """Columns of the list may hold company numbers, but the list does not say which, or of which country."""


class TooLargeError(CompanyListError):
    """The file holds more than a setting allows."""


def refusal(code: str, kind: type[CompanyListError] = CompanyListError, /, **values: object) -> CompanyListError:
    """Return the error that refuses a list; `values` are those that its sentences name."""
    message, next_step = REFUSALS[code]
    return kind(message.format(**values), next_step.format(**values))


@contextmanager
def shown_as(path: Path, name: str) -> Iterator[None]:
    """Let refusals of a copy name the source that people know."""
    try:
        yield
    except CompanyListError as error:
        message, next_step = (text.replace(str(path), name) for text in (error.message, error.next_step))
        raise CompanyListError(message, next_step) from error


def nearest_name(wanted: str, names: Sequence[str]) -> str:
    """Return what to do if no column, or worksheet, has a name: take a similar one, or one of these."""
    nearest = get_close_matches(wanted, names, n=1, cutoff=0.5)
    return f"Did you mean {nearest[0]!r}?" if nearest else f"Choose one of {quoted_names(names)}"


def quoted_names(names: Sequence[str], most: int = 20) -> str:
    """Return names for a message, shortened if they are long or many."""
    shown = ", ".join(repr(name if len(name) <= 40 else name[:40] + "...") for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
