"""A dialect: how a service differs wherever the specification leaves something open."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

__all__ = ["Dialect"]


class Dialect(Struct, frozen=True):
    """How a service differs.

    Attributes:
        gap: What the specification leaves open there; two dialects about the same gap exclude each other.
        says: What the service does, for `--dialect help`.
        ending: How a run over a list ends, where that is not exit 0 with every value; for `--dialect help`.
        options: Options of the service that it sets.
        names: Names in requests, bodies and queries alike: the assumed one to this service's.
        unknown_name: What comes of a name it does not know: `named` in a 400 that also says which was expected,
            `refused` by a 400 without a reason, or `ignored`.
        request_headers: Headers of requests in lower case: the assumed one to this service's.
        headers: Headers of answers in lower case: the usual one to this service's, "" leaves it out.
        texts: Messages of the service: the usual one to this service's.
        refused: Beginnings of endpoint names (`relationships`, `lists`) to the status they are always answered with.
        element: Changes an element of an answer about companies; gets the dataset and the element.
        elements: Changes the list of elements of a bulk answer.
        error: Makes the body of an error of status and message.
        write: Makes the bytes and the content encoding of a body.
        is_chunked: The answer's length is not announced.
    """

    gap: str
    says: str
    ending: str = ""
    options: dict[str, Any] = {}
    names: dict[str, str] = {}
    unknown_name: str = "named"
    request_headers: dict[str, str] = {}
    headers: dict[str, str] = {}
    texts: dict[str, str] = {}
    refused: dict[str, int] = {}
    element: Callable[[str, dict[str, Any]], None] | None = None
    elements: Callable[[list[Any]], Any] | None = None
    error: Callable[[int, str], object] | None = None
    write: Callable[[bytes], tuple[bytes, str]] | None = None
    is_chunked: bool = False
