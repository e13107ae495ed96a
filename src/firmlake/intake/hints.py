"""Guess the role of a column from words in its name if the whole name is unknown; its values must confirm the role."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

from firmlake.intake.columns import COUNTRY, one_role

__all__ = ["hint_of", "is_company_name"]

_REGISTERS: Final = {
    "be_number": ("kbo", "bce", "cbe"),
    "nl_number": ("kvk", "coc"),
    "siren": ("siren",),
    "siret": ("siret",),
    "vat_number": ("vat", "btw", "tva", "stceg"),
    "enterprise_number": ("onderneming", "enterprise", "entreprise"),
}
"""Words that name a register; longer words that start with one (`kvknr`, `ondernemingsnummer`) count too."""

_NUMBERS: Final = frozenset(
    ("number", "numbers", "nummer", "nummers", "numero", "num", "nr", "no", "nbr", "n", "reg", "regno", "regnr",
     "registration", "registratie", "registratienummer",
     "immatriculation", "identifier", "identifiant", "identificatie",
     "id", "stcd1", "stcd2", "companynumber", "bedrijfsnummer", "firmanummer")
)  # fmt: skip
_COUNTRIES: Final = frozenset(("country", "countrycode", "land", "landcode", "pays", "ctry", "cntry", "nation", "lkz"))
_NAMES: Final = frozenset(
    ("name", "name1", "naam", "nom", "company", "companyname", "bedrijf", "bedrijfsnaam", "firma", "firmanaam",
     "societe",
     "entreprise", "onderneming", "denomination", "klant", "klantnaam", "customer", "client", "account", "raison",
     "organisatie", "organisation", "organization", "handelsnaam", "leverancier", "supplier", "fournisseur")
)  # fmt: skip
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+")


class Hint(NamedTuple):
    """The role that a column's name suggests.

    Attributes:
        role: A role of `firmlake.intake.columns.COMPANY_COLUMNS`.
        strength: 2 if the name contains a register or a country, 1 if it only says number, 0 otherwise.
    """

    role: str
    strength: int


def hint_of(name: str) -> Hint:
    """Return the role that the words of a column's name suggest.

    Example:
        >>> hint_of("customer_kvk_nr"), hint_of("BillingCountry").role, hint_of("Nr. klant").strength
        (Hint(role='nl_number', strength=2), 'country', 1)
    """
    words = _words(name)
    if any(word in _COUNTRIES or word.removesuffix("code") in _COUNTRIES for word in words):
        return Hint(COUNTRY, 2)
    roles = [role for word in words for role, stems in _REGISTERS.items() if word.startswith(stems)]
    if roles:
        return Hint(one_role(roles), 2)
    return Hint("company_number", int(any(word in _NUMBERS for word in words)))


def is_company_name(name: str) -> bool:
    """Return whether a column is likely to hold company names."""
    return any(word in _NAMES for word in _words(name))


def _words(name: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = [word.casefold() for word in (*_WORD.findall(plain), *re.findall(r"\w+", plain.replace("_", " ")))]
    return [*words, *(word.rstrip("0123456789") for word in words)]
