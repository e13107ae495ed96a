"""Notes made while records are read: values that no column holds, rejected records, and other differences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
import polars as pl
from msgspec import Raw

from firmlake.api.answers import UNREADABLE
from firmlake.core.errors import Reason

_WHOLE = "value"
"""Key in `extra_json` of a record that is not an object."""
EFFECTS = {"discard_value": "value", "discard_record": "record", "stop": "stop"}
"""The effect of each mode on a value that does not fit, the mildest first."""

_ENCODE = msgspec.json.Encoder().encode
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""The escape of a half of a character; two of them may be a whole one."""
_SHOWN_MAX = 200


class Reject(NamedTuple):
    """A value or a record that does not fit.

    With the effect "value", the value is null in its column, and kept in `extra_json`. "record": the record is left
    out. "stop": as "value", and the run may not be published.
    """

    record: int  # index of the record
    path: str  # of the value; empty for the record as a whole
    value: str | None  # as JSON; None if it is missing
    reason_code: str  # what is wrong with it, a code of `reasons.toml`
    reason: str  # the same as a sentence
    effect: str


class Observation(NamedTuple):
    """A difference from the contract: its kind, place, an example, the first record and the number of records."""

    kind: str
    path: str
    example: str | None
    record: int
    records: int = 1


class Records(NamedTuple):
    """Records as read.

    The frame has a row per record that was not rejected: `record` (index), our fields, `extra_json`.
    """

    frame: pl.DataFrame
    rejects: list[Reject]  # discarded values and rejected records, in the order of the records
    observations: list[Observation]  # differences by which no value was lost


class Notes:
    """Notes about records that are read together. Records are numbered from 0 here, and from `start` in the results."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._extra: dict[int, dict[str, Raw]] = {}
        self._rejects: list[Reject] = []
        self._seen: dict[tuple[str, str], tuple[int, str | None]] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    def keep(self, number: int, extra: dict[str, Raw]) -> None:
        """Keep values of a record that no column holds, by path."""
        self._extra.setdefault(number, {}).update(extra)

    def keep_unknown(self, number: int, unknown: dict[str, Raw]) -> None:
        """Keep the fields of a record that the contract does not have, by path, and count each as a difference."""
        if unknown:
            self.keep(number, unknown)
        for path, value in unknown.items():
            self.observe("new_field", path, value, number)

    def reject(self, number: int, path: str, value: Raw | None, reason: Reason, effect: str) -> None:
        """Record a value as rejected, or a whole record if the path is empty."""
        self._rejects.append(
            Reject(self._start + number, path, None if value is None else _shown(value), *reason, effect)
        )

    def discard(self, number: int, path: str, value: Raw, reason: Reason, mode: str) -> None:
        """Record a value that does not fit, and keep it."""
        self.reject(number, path, value, reason, EFFECTS[mode])
        self.keep(number, {path or _WHOLE: value})

    def observe(self, kind: str, path: str, example: Raw | bytes | None, number: int) -> None:
        """Count a difference from the contract, with its first example."""
        self._seen.setdefault((kind, path), (number, None if example is None else _shown(example)))
        self._counts[kind, path] += 1

    def count(self, kind: str) -> int:
        """Return how many differences of a kind were observed."""
        return sum(count for (each, _), count in self._counts.items() if each == kind)

    def records(self, columns: Sequence[pl.Series], count: int) -> Records:
        """Combine columns and notes."""
        number = pl.int_range(self._start, self._start + count, dtype=pl.UInt32, eager=True).alias("record")
        extra = [_as_json(self._extra[place]) if place in self._extra else None for place in range(count)]
        frame = pl.DataFrame([number, *columns, pl.Series("extra_json", extra, pl.String)])
        # Of several reasons to reject a record, the first counts.
        lost = {reject.record: reject for reject in reversed(self._rejects) if reject.effect == "record"}
        if lost:
            frame = frame.filter(~pl.col("record").is_in(list(lost)))
        rejects = [reject for reject in self._rejects if reject.record not in lost]
        return Records(
            frame,
            sorted([*rejects, *lost.values()], key=lambda reject: reject.record),
            [
                Observation(*key, example, self._start + place, self._counts[key])
                for key, (place, example) in self._seen.items()
            ],
        )


def _as_json(extra: dict[str, Raw]) -> str:
    """Encode the kept values of a record as received.

    One that a database would refuse as JSON, with bytes that are no text or half a character, becomes a string.
    """
    text = b"{" + b",".join([_key(path) + value for path, value in extra.items()]) + b"}"
    try:
        if b"\\" in text and _SURROGATE.search(text):
            msgspec.json.decode(text)
        return text.decode()
    except UNREADABLE:
        return _ENCODE({path: bytes(value).decode("utf-8", "replace") for path, value in extra.items()}).decode()


@lru_cache(maxsize=4096)
def _key(path: str) -> bytes:
    return _ENCODE(path) + b":"


def _shown(value: Raw | bytes) -> str:
    """Return the beginning of a value's JSON, for messages."""
    return bytes(value).decode("utf-8", "replace")[:_SHOWN_MAX]
