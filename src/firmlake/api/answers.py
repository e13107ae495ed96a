"""Split an answer into elements: the company of each, and its records as received.

Records stay bytes: fetching needs only their number, and `firmlake.tables` reads them.
"""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from firmlake.api.contract import DATASETS, Pagination
from firmlake.api.element import UNREADABLE, Element, make_element, present, read_element, shorten
from firmlake.api.nearly_json import repaired
from firmlake.core.errors import UnusableAnswerError
from firmlake.core.text import LOOKED_AT_MAX, one_line

__all__ = ["read_answer"]

_GLIMPSE_MAX = 60


def read_answer(dataset: str, body: bytes) -> list[Element]:
    """Split the body of a bulk answer into elements; a broken element does not affect the others.

    Raises:
        UnusableAnswerError: The body is not a JSON array. Ask again.
    """
    try:
        known = _STRICT[dataset].decode(body)
    except UNREADABLE:
        return _read_one_by_one(dataset, repaired(body))
    encoded = _ENCODE(known)
    if encoded != body and _count_members(encoded) != _count_members(body):  # of a repeated key, one value was kept
        return _read_one_by_one(dataset, body)
    return [
        make_element(dataset, part.identifier, part.data, present(part.pagination), present(part.message))
        for part in known
    ]


# ---------------------------------------------------------------------------------------------------------------------


_ENCODE = msgspec.json.Encoder().encode
_ARRAY = msgspec.json.Decoder(list[Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])


def _data_type(dataset: str) -> Any:
    """Return the type of `data`: an array of records, or an object that holds only such arrays."""
    groups = DATASETS[dataset].groups
    if any(group.key is None for group in groups.values()):
        return list[Raw] | None
    fields = [(name, list[Raw], msgspec.field(name=group.key)) for name, group in groups.items()]
    return msgspec.defstruct("Groups", fields, forbid_unknown_fields=True, gc=False) | None


class _StrictPage(Pagination, frozen=True, gc=False, forbid_unknown_fields=True):
    """A paging object with known fields only."""


def _strict_decoder(dataset: str) -> msgspec.json.Decoder[list[Any]]:
    """Make a decoder for whole answers that accepts known fields only and tells absent ones from null."""
    text: Any = str | UnsetType | None
    identifier: Any = msgspec.defstruct(
        "StrictIdentifier",
        [
            ("country", str),
            ("company_number", str, msgspec.field(name="companyNumber")),
            ("name", text, UNSET),
            ("place", text, UNSET),
        ],
        forbid_unknown_fields=True,
        gc=False,
    )
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("identifier", identifier),
        ("data", _data_type(dataset) | UnsetType, UNSET),
        ("pagination", _StrictPage | UnsetType | None, UNSET),
        ("message", text, UNSET),
    ]
    element: Any = msgspec.defstruct("Strict", fields, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(list[element])


_STRICT = {dataset: _strict_decoder(dataset) for dataset in DATASETS}


def _read_one_by_one(dataset: str, body: bytes) -> list[Element]:
    """Read a body that the strict decoder rejects, element by element."""
    with contextlib.suppress(*UNREADABLE):
        if "identifier" in _OBJECT.decode(body):  # the answer to a GET for one company is one element
            return [read_element(dataset, Raw(body))]
    try:
        parts = _ARRAY.decode(body)
    except UNREADABLE as error:
        raise UnusableAnswerError(f"the answer is not a JSON array ({shorten(str(error))}): {_glimpse(body)}") from None
    return [read_element(dataset, part) for part in parts]


def _count_members(answer: bytes) -> int:
    """Count the members of all objects, in any spelling, apart from a constant that records contribute.

    Records are the same bytes in an answer and in what was decoded of it, so they add the same number to both. Around
    them all keys are known words: outside a text, a letter or digit precedes `":`, and inside a text a backslash does.
    """
    compact = msgspec.json.format(answer, indent=-1)
    return compact.count(b'":') - compact.count(b'\\":')


def _glimpse(body: bytes) -> str:
    start = one_line(body[:LOOKED_AT_MAX].decode("utf-8", "replace"), _GLIMPSE_MAX)
    return f"it starts {start!r}" if body else "it is empty"
