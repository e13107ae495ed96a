"""Read from the text of a refusal the names that the service expects and the largest number that it allows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_QUOTED = re.compile("['\"`\u2018\u201c]([A-Za-z_][\\w.\\[\\]$]*)['\"`\u2019\u201d]")
_SUBJECT = re.compile(  # tried once a word: from each letter of a word of a megabyte, it would take hours
    r"(?<![\w.\[\]$])(?=[\d.\[\]$]*+[A-Za-z_])([\w.\[\]$]++)\s+(?:property |field |parameter )?"
    r"(?:should|must|is (?:required|missing|not|unknown|invalid|mandatory)|cannot|may not|Field required|not allowed)"
)
_OBJECT = re.compile(
    r"(?:property|properties|field|parameter|key|attribute|expected|mean|missing|required:?)\s+([A-Za-z_]\w*)"
)
_BRACKETED = re.compile(r"\bno \[([A-Za-z_]\w*)\]")
_NAME_LENGTH_MAX = 64
"""Longest name that goes into requests and settings; those of services have a dozen characters."""
_NUMBER = re.compile(r"(?<![\w.])\d{1,7}(?![\w.]*\w)")

_FRAGMENTS: dict[str, tuple[str, ...]] = {
    "country": ("country", "land", "pays", "nation"),
    "company_number": (
        "number",
        "nummer",
        "numero",
        "siren",
        "kvk",
        "vat",
        "regist",
        "enterpriseid",
        "companyid",
        "id",
    ),
    "companies": (
        "compan",
        "identif",
        "items",
        "entities",
        "organi",
        "enterprises",
        "businesses",
        "elements",
        "onderneming",
        "bedrij",
        "entrepris",
        "societ",
    ),
    "limit": ("limit", "size", "take", "count", "perpage", "per_page", "top", "rows", "max"),
    "offset": ("offset", "skip", "start", "from", "begin"),
}
"""Parts of the names that services use, by role in a request. The first role that matches a word wins."""

_UNKNOWN = re.compile(
    r"should not exist|unknown|unrecogni[sz]ed|unexpected|not (?:allowed|permitted|recogni[sz]ed|expected)|additional",
    re.IGNORECASE,
)
_NOT_NAMES = {
    "a", "an", "and", "array", "bad", "body", "data", "error", "expected", "field", "fields", "input", "integer", "is",
    "it", "json", "key", "list", "message", "missing", "must", "not", "null", "object", "of", "one", "or", "parameter",
    "properties", "property", "query", "request", "required", "should", "string", "the", "this", "to", "type",
    "unknown", "value", "values", "you", "your",
}  # fmt: skip


def suggest_names(lines: list[str], names: Mapping[str, str]) -> dict[str, str]:
    """Find the names that the service expects instead of ours.

    Args:
        lines: Lines of text from `api.refusal.read_lines`.
        names: The names that were sent, by role (`companies`, `country`, `company_number`, `limit`, `offset`).

    Returns:
        The names that the service seems to expect, by role; empty if it names none.

    Example:
        >>> suggest_names(["unknown property 'companyNumber', expected 'number'"], {"company_number": "companyNumber"})
        {'company_number': 'number'}
    """
    found: dict[str, str] = {}
    ours = {name: role for role, name in names.items()}
    for line in lines:
        words = [word for word in dict.fromkeys(_names_in(line)) if len(word) <= _NAME_LENGTH_MAX]
        refused = [ours[word] for word in words if word in ours]
        others = [word for word in words if word not in ours and word.lower() not in _NOT_NAMES]
        for word in others:
            role = _role(word, names) or (refused[0] if len(refused) == len(others) == 1 else None)
            if role is not None and word != names[role]:
                found.setdefault(role, word)
    return found


def find_unknown(lines: list[str], names: Mapping[str, str]) -> set[str]:
    """Find the roles whose names the service does not know.

    Example:
        >>> find_unknown(["companies should not exist"], {"companies": "companies", "country": "country"})
        {'companies'}
    """
    words = {word for line in lines if _UNKNOWN.search(line) for word in _names_in(line)}
    return {role for role, name in names.items() if name in words}


def find_bounds(lines: list[str], asked: int) -> list[int]:
    """Find the numbers in a refusal that may be the largest allowed one, the likeliest first.

    Args:
        lines: Lines of text from `api.refusal.read_lines`.
        asked: The number that was refused; only smaller numbers are returned.

    Example:
        >>> find_bounds(["101 companies, but a request may have at most 100"], 101)
        [100]
    """
    numbers = {int(text) for line in lines for text in _NUMBER.findall(line)}
    return sorted((number for number in numbers if 0 < number < asked), reverse=True)


# ---------------------------------------------------------------------------------------------------------------------


def _names_in(line: str) -> Iterator[str]:
    """Yield the words of a line that look like field names; for a path, its last part that is not an index."""
    for pattern in (_QUOTED, _SUBJECT, _OBJECT, _BRACKETED):
        for text in pattern.findall(line):
            yield _last(text)
    first = line.partition(" ")[0]
    if "." in first.strip(".") or first.endswith(":"):
        yield _last(first.removesuffix(":"))


def _last(path: str) -> str:
    parts = [part for part in re.split(r"[.\[\]]+", path) if part and not part.isdecimal()]
    return parts[-1] if parts else path


def _role(word: str, names: Mapping[str, str]) -> str | None:
    text = word.lower()
    if text == "page":  # a page number is not an offset
        return None
    if text.endswith("ids") and "companies" in names:
        return "companies"
    for role, fragments in _FRAGMENTS.items():
        if role in names and any(text == part if len(part) < 3 else part in text for part in fragments):
            return role
    return None
