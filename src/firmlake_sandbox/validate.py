"""Reading what a request sends: anything not in the contract is a 400 that says what and where."""

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.exceptions import HTTPException

from firmlake_sandbox.contract import MAX_BODY_BYTES
from firmlake_sandbox.words import LANGUAGES

_Model = TypeVar("_Model", bound=msgspec.Struct)


def read_body(raw: bytes, model: type[_Model]) -> _Model:
    """Return the JSON body as the model.

    Raises:
        HTTPException: 400; the body is not JSON, or something in it is not as the contract says.
    """
    if len(raw) > MAX_BODY_BYTES:
        raise HTTPException(400, f"Body of {len(raw)} bytes is larger than {MAX_BODY_BYTES}")
    try:
        return msgspec.json.decode(raw, type=model)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(400, f"Body refused: {error}") from None


def read_query(query: bytes, model: type[_Model]) -> _Model:
    """Return the query as the model; a parameter that is unknown or named twice is refused.

    Raises:
        HTTPException: 400.
    """
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20)
    except ValueError:
        raise HTTPException(400, "Query refused: not a query string") from None
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise HTTPException(400, f"Query refused: {', '.join(twice)} named more than once")
    return _convert(dict(pairs), model, "Query")


def read_path(parameters: Mapping[str, str], model: type[_Model]) -> _Model:
    """Return the parameters of the path as the model.

    Raises:
        HTTPException: 400.
    """
    return _convert(dict(parameters), model, "Path")


def read_language(header: str | None, default: str) -> str:
    """Return the first language of Accept-Language that the service speaks, else the default.

    Example:
        >>> read_language("de, nl-BE;q=0.9", "EN")
        'NL'
    """
    wanted = (item.strip()[:2].upper() for item in (header or "").split(","))
    return next((language for language in wanted if language in LANGUAGES), default)


def _convert(named: dict[str, str], model: type[_Model], where: str) -> _Model:
    """Convert text by the model."""
    try:
        return msgspec.convert(named, model, strict=False)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"{where} refused: {error}") from None
