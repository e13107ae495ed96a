"""The lists of the account: which there are, and what adding contacts to them does.

A contact exists if its id is a decimal number that does not end in 0: about one in ten does not.
"""

from datetime import UTC, datetime
from typing import Any

from firmlake_sandbox.world import draw

FIRST_LIST_ID = 1001

_TOPICS = ("Prospects", "Klanten", "Fournisseurs", "Customers Ghent", "Région Wallonne", "Leads Q3", "Bouw & Vastgoed")
_COLUMNS: tuple[tuple[str, ...], ...] = (
    ("vatNumber", "country"),
    ("activities", "vatNumber", "country", "url"),
    ("activities", "vatNumber", "country", "url", "socials", "description"),
    ("url", "socials"),
    (),
    ("description", "activities"),
    ("country", "vatNumber", "description"),
    ("vatNumber", "keyPersons", "healthBarometer"),  # values that no documentation names
)
_PEOPLE = ("an.peeters", "luc.dubois", "zoe.bakker", "sales", "j.o'brien")
_YEAR_2023, _YEARS = 1_672_531_200_000, 94_000_000_000  # milliseconds


class ListBook:
    """All lists, with the companies and contacts added to them since the start."""

    def __init__(self, key: int, count: int) -> None:
        """Open so many lists of the world with this key."""
        self._key = key
        self._ids = list(range(FIRST_LIST_ID, FIRST_LIST_ID + count))
        self._next_id = FIRST_LIST_ID + count
        self._added: dict[int, dict[int, set[str]]] = {}
        self._updated: dict[int, float] = {}

    def page(self, kind: str, limit: int, offset: int) -> tuple[list[dict[str, Any]], int]:
        """Return a page of the lists of one kind (OVERVIEW: both), in their order, and how many there are in all."""
        ids = [number for number in self._ids if kind in ("OVERVIEW", self.type_of(number))]
        return [self._describe(number) for number in ids[offset : offset + limit]], len(ids)

    def change(self, change: str, number: int) -> None:
        """Let a list `appear`, `vanish` or move to the `front`; where there is no such list, nothing happens."""
        if change == "appear":
            self._ids.append(self._next_id)
            self._next_id += 1
        elif number in self._ids:
            self._ids.remove(number)
            if change == "front":
                self._ids.insert(0, number)

    def type_of(self, number: int) -> str | None:
        """Return STATIC or SMART, None for a list that does not exist: three of ten are smart."""
        if number not in self._ids:
            return None
        return "SMART" if draw(self._key, "list", number) % 10 < 3 else "STATIC"

    def add_contacts(self, number: int, node: int, contacts: list[str], now: float) -> int:
        """Add contacts of a company to a static list and return how many were not in it yet.

        Args:
            number: The list.
            node: A company that is found.
            contacts: Ids of contacts that exist.
            now: Calendar time in seconds.
        """
        if not contacts:
            return 0
        present = self._added.setdefault(number, {}).setdefault(node, set())
        before = len(present)
        present.update(contacts)
        if len(present) > before:
            self._updated[number] = now
        return len(present) - before

    def _describe(self, number: int) -> dict[str, Any]:
        """Return a list as the overview shows it."""
        bits = draw(self._key, "list", number)
        is_static = self.type_of(number) == "STATIC"
        created = _YEAR_2023 + (bits >> 8) % _YEARS
        updated = created + (bits >> 16) % (_YEAR_2023 + _YEARS - created)
        return {
            "id": number,
            "name": f"{_TOPICS[(bits >> 24) % 7]} {number}",
            "type": "STATIC" if is_static else "SMART",
            "columns": _COLUMNS[(bits >> 32) & 7],
            "shared": bool(bits >> 36 & 1),
            "notifications": {"enabled": is_static and bool(bits >> 37 & 1)},
            "amountOfCompanies": (bits >> 38) % 2500 + len(self._added.get(number, ())),
            "newResults": None if is_static else (bits >> 50) % 40,
            "updatedAt": _timestamp(self._updated.get(number, updated / 1000)),
            "createdAt": _timestamp(created / 1000),
            "createdBy": f"{_PEOPLE[(bits >> 56) % 5]}@example.com",
        }


def is_contact(contact: str) -> bool:
    """Tell whether a contact exists.

    Example:
        >>> is_contact("123"), is_contact("120"), is_contact("abc")
        (True, False, False)
    """
    return contact.isascii() and contact.isdigit() and contact[-1] != "0"


def _timestamp(seconds: float) -> str:
    """Write a time as the service does: UTC with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
