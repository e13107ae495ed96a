"""What dialects do to answers: one small function for each way to say the same thing differently.

Bodies are read with every decimal exact and written as they were, so that a dialect changes nothing but what it says.
"""

import gzip
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import msgspec

_Object = dict[str, Any]

read_json = msgspec.json.Decoder(float_hook=Decimal).decode
write_json = msgspec.json.Encoder(decimal_format="number").encode

_FRACTIONS = ("employeeMaleRatio", "employeeFemaleRatio")
_AMOUNTS = ("profitability", "liquidity", "solvency")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_DECIMAL = re.compile(rb'("(?:[^"\\]|\\.)*")|(-?\d+\.\d+)')


# Elements: changed in place.


def clamp_page(_dataset: str, element: _Object) -> None:
    """Cut pages to three records."""
    page = element.get("pagination")
    if page and page["limit"] > 3:
        page["limit"], element["data"] = 3, element["data"][:3]


def count_page(_dataset: str, element: _Object) -> None:
    """Count the records of the page as their total."""
    if page := element.get("pagination"):
        page["total"] = len(element["data"])


def tell_more_in_place_of_total(_dataset: str, element: _Object) -> None:
    """Tell only whether there are more records."""
    if page := element.get("pagination"):
        page["hasMore"] = page["offset"] + len(element["data"]) < page.pop("total")


def say_done(_dataset: str, element: _Object) -> None:
    """Give every element a message."""
    if "message" in element:
        element["message"] = element["message"] or "Done"


def number_identifiers(_dataset: str, element: _Object) -> None:
    """Make company numbers integers."""
    for holder in _objects(element):
        if isinstance(holder.get("companyNumber"), str):
            holder["companyNumber"] = int(holder["companyNumber"])


def omit_nulls(_dataset: str, element: _Object) -> None:
    """Leave out keys that are null, except that data itself says whether a company was found."""
    for holder in _objects(element):
        for key in [key for key, value in holder.items() if value is None]:
            del holder[key]


def omit_empties(_dataset: str, element: _Object) -> None:
    """Leave out keys that are null, empty arrays or empty objects, the innermost first."""
    for holder in _objects(element):
        for key in [key for key, value in holder.items() if value is None or value in ([], {})]:
            del holder[key]


def add_fields(_dataset: str, element: _Object) -> None:
    """Add fields nobody has heard of."""
    for holder in _objects(element):
        holder |= {"x-source": "registry", "confidence": Decimal("0.93"), "meta": {"version": 3, "tags": []}}


def make_decimals(_dataset: str, element: _Object) -> None:
    """Give decimals to integers."""
    for record in _periods(element):
        record["healthIndicator"] = record["healthIndicator"] + Decimal("0.5")
        record["people"]["employees"] = record["people"]["employees"] + Decimal("0.5")


def quote_numbers(_dataset: str, element: _Object) -> None:
    """Write amounts and ratios as text."""
    for record in _periods(element):
        for part in _AMOUNTS:
            record[part] = {key: value if value is None else str(value) for key, value in record[part].items()}


def scale_fractions(_dataset: str, element: _Object) -> None:
    """Make percentages of fractions."""
    for record in _periods(element):
        for key in _FRACTIONS:
            record["people"][key] = _hundredfold(record["people"][key])
    for party in _parties(element):
        if "percentage" in party:
            party["percentage"] = _hundredfold(party["percentage"])


def scale_scores(dataset: str, element: _Object) -> None:
    """Score from 0 to 100."""
    if dataset == "lookalikes":
        for entry in element.get("data") or ():
            entry["score"] = _hundredfold(entry["score"])


def scale_health(_dataset: str, element: _Object) -> None:
    """Count health in hundreds."""
    for record in _periods(element):
        record["healthIndicator"] *= 100


def children_by_company_id(_dataset: str, element: _Object) -> None:
    """Name children by companyId."""
    _change_children(element, lambda company: {"companyId": company})


def children_flat(_dataset: str, element: _Object) -> None:
    """Name children by fields of their own."""
    _change_children(element, lambda company: company)


def children_unknown(_dataset: str, element: _Object) -> None:
    """Name children by something else."""
    _change_children(element, lambda company: {"entity": "-".join(map(str, company.values()))})


def rename_functions(_dataset: str, element: _Object) -> None:
    """Use other functions."""
    for place, party in enumerate(_parties(element)):
        if "function" in party:
            party["function"] = ("DIRECTOR", "BENEFICIAL_OWNER", "SHAREHOLDER")[place % 3]


def _change_children(element: _Object, name: Callable[[_Object], _Object]) -> None:
    data = element.get("data")
    if isinstance(data, dict) and "children" in data:  # another dialect leaves out what is empty
        data["children"] = [_renamed(child, name) for child in data["children"]]


def _renamed(child: _Object, name: Callable[[_Object], _Object]) -> _Object:
    identifier = child.get("identifier")
    if identifier is None:
        return child
    rest = {key: value for key, value in child.items() if key != "identifier"}
    return name({key: identifier[key] for key in ("country", "companyNumber")}) | rest


def _hundredfold(value: Decimal | int | None) -> Decimal | None:
    return None if value is None else Decimal(value).scaleb(2)


def _periods(element: _Object) -> Iterator[_Object]:
    data = element.get("data")
    return (record for record in (data if isinstance(data, list) else ()) if "people" in record)


def _parties(element: _Object) -> Iterator[_Object]:
    data = element.get("data")
    return iter((*data.get("parents", ()), *data.get("children", ())) if isinstance(data, dict) else ())


def _objects(value: Any) -> Iterator[_Object]:
    """Yield every object within a value, itself included, the innermost first."""
    if isinstance(value, dict):
        for inner in list(value.values()):
            yield from _objects(inner)
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)


# Bulk answers as a whole. None stands for a 404.


def refuse_unknown(elements: list[Any]) -> list[Any] | None:
    """Answer 404 where no company of the request is known."""
    return None if all(element.get("data") is None for element in elements) else elements


def refuse_any(elements: list[Any]) -> list[Any] | None:
    """Answer 404 where a company of the request is unknown."""
    return None if any(element.get("data") is None and element.get("message") for element in elements) else elements


def leave_out_unknown(elements: list[Any]) -> list[Any]:
    """Answer only about known companies."""
    return [element for element in elements if "name" in element["identifier"]]


def repeat_elements(elements: list[Any]) -> list[Any]:
    """Answer twice."""
    return [*elements, *elements]


def reverse_elements(elements: list[Any]) -> list[Any]:
    """Answer in another order."""
    return elements[::-1]


def wrap_elements(elements: list[Any]) -> _Object:
    """Wrap the array."""
    return {"items": elements}


# Errors.


def problem_error(status: int, message: str) -> object:
    """Write it as RFC 9457 does."""
    return {"type": "about:blank", "title": "Request failed", "status": status, "detail": message}


def nested_error(status: int, message: str) -> object:
    """Write it into an object."""
    return {"error": {"code": f"E{status}", "message": message}}


def listed_error(status: int, message: str) -> object:
    """Write it as a list, as validators do."""
    return {"statusCode": status, "message": [message], "error": "Bad Request"}


def html_error(status: int, message: str) -> object:
    """Write it as a page."""
    return f"<html><head><title>{status}</title></head><body><p>{message}</p></body></html>".encode()


# Bytes: the body and its content encoding.


def write_pretty(body: bytes) -> tuple[bytes, str]:
    """Indent, and turn the order of keys round."""
    content = _reverse_keys(read_json(body))
    return msgspec.json.format(write_json(content), indent=2), ""


def write_escaped(body: bytes) -> tuple[bytes, str]:
    """Escape all that may be escaped."""
    text = body.decode()
    units = ((character, character.encode("utf-16-be")) for character in text)
    escaped = "".join(
        character
        if character.isascii()
        else "".join(f"\\u{int.from_bytes(unit[place : place + 2]):04X}" for place in range(0, len(unit), 2))
        for character, unit in units
    )
    return _STRING.sub(lambda found: found[0].replace(b"/", b"\\/"), escaped.encode()), ""


def write_exponents(body: bytes) -> tuple[bytes, str]:
    """Write decimals as 1.25E3, or with a zero at their end."""

    def spell(found: re.Match[bytes]) -> bytes:
        if found[1]:
            return found[1]
        value = found[2]
        return value + b"0" if len(value) % 2 else f"{Decimal(value.decode()).scaleb(-3):f}E+3".encode()

    return _DECIMAL.sub(spell, body), ""


def write_mark(body: bytes) -> tuple[bytes, str]:
    """Begin with a byte order mark."""
    return b"\xef\xbb\xbf" + body, ""


def write_gzip(body: bytes) -> tuple[bytes, str]:
    """Compress."""
    return gzip.compress(body, 1, mtime=0), "gzip"


def _reverse_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reverse_keys(inner) for key, inner in reversed(value.items())}
    return [_reverse_keys(inner) for inner in value] if isinstance(value, list) else value
