"""A company list as people send them, at any length, with an account of it kept while it is written.

Nothing here reads a list or knows firmlake's rules beyond the words of the specification: what a line must count as is
decided by how it was spelled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

from firmlake_sandbox.numbers import sample_numbers

__all__ = ["write_companies", "write_mixed"]

_AGAIN_ONE_IN = 10
_NAMES = ("Bakkerij Peeters", '"Dubois, Martin & Cie"', "Société Générale de Béton", '"De ""Gouden"" Leeuw"')

_Spell = Callable[[str, str], str]


def _changed_digit(country: str, number: str) -> str:
    """Break the check digits; Dutch numbers have none, and become that of a branch."""
    return f"{number}0001" if country == "NL" else f"{number[:-1]}{(int(number[-1]) + 1) % 10}"


def _vat(country: str, number: str) -> str:
    """Write the number as VAT numbers are; the Dutch do not hold it, and keep their own with a prefix."""
    return f"FR{(12 + 3 * (int(number) % 97)) % 97:02}{number}" if country == "FR" else f"{country}{number}"


def _pointed(_: str, number: str) -> str:
    return f"{number[:-6]}.{number[-6:-3]}.{number[-3:]}"


def _without_zero(_: str, number: str) -> str:
    return number.removeprefix("0")


# How every hundred lines are written. Points, blanks and prefixes are no repairs; a lost zero and
# the key of a French VAT number are.
_SPELLINGS: tuple[tuple[int, str, _Spell], ...] = (
    (70, "named", lambda _, number: number),
    (8, "named", _pointed),
    (6, "named", lambda country, number: f"{country} {number}"),
    (6, "named", _vat),
    (4, "named", _without_zero),
    (3, "refused", _changed_digit),
    (1, "refused", lambda *_: ""),
    (1, "refused", lambda *_: "12/03/2024"),
    (1, "blank", lambda *_: ""),
)


def write_companies(path: Path, companies: list[tuple[str, str]]) -> Path:
    """Write a list of two columns, country and number in full."""
    with path.open("w") as file:
        file.write("country,company_number\n")
        file.writelines(f"{country},{number}\n" for country, number in companies)
    return path


def write_mixed(path: Path, count: int) -> dict[str, int | str]:
    """Write so many lines of country, number and name: repaired, refused, repeated and blank ones among them.

    Returns:
        What reading it must give: count of lines (with the header), companies, repaired, refused, repeated and blank
        lines, and the SHA-256 of the sorted companies.
    """
    spellings = [(kind, spell) for share, kind, spell in _SPELLINGS for _ in range(share)]
    order = [spellings[line * 37 % 100] for line in range(100)]
    counts = dict.fromkeys(("named", "repaired", "refused", "blank"), 0)
    companies = sample_numbers(
        count - count // _AGAIN_ONE_IN - 7
    )  # so that a company is spelled otherwise when it comes again
    seen = bytearray(len(companies))
    with path.open("w", encoding="utf-8") as file:
        file.write("country,company_number,name\n")
        places = islice(cycle(range(len(companies))), count)
        for (kind, spell), name, place in zip(cycle(order), cycle(_NAMES), places, strict=False):
            country, number = companies[place]
            written = spell(country, number)
            file.write("\n" if kind == "blank" else f"{country},{written},{name}\n")
            counts[kind] += 1
            if kind == "named":
                seen[place] = 1
                is_repair = spell is _without_zero or (spell is _vat and country == "FR")
                counts["repaired"] += is_repair and written != number
    named = sorted(
        f"{country} {number}\n" for (country, number), is_named in zip(companies, seen, strict=True) if is_named
    )
    digest = hashlib.sha256()
    for line in named:
        digest.update(line.encode())
    return {
        "line_count": count + 1,
        "company_count": len(named),
        "repaired_count": counts["repaired"],
        "refused_count": counts["refused"],
        "repeated_count": counts["named"] - len(named),
        "blank_count": counts["blank"],
        "sha256": digest.hexdigest(),
    }
