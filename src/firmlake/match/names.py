"""Normalise company names and places for comparison: remove accents, punctuation, case and legal forms."""

from __future__ import annotations

from typing import Final

import polars as pl

_LEGAL_FORMS: Final = (
    # Belgium: ISO 20275 (ELF codes), in Dutch and French, short and in full
    "nv", "sa", "bv", "bvba", "ebvba", "sprl", "sprlu", "srl", "vof", "snc", "cv", "cvba", "cvoa", "sc", "scrl",
    "scris", "gcv", "commv", "comm v", "comm va", "sca", "scs", "vzw", "asbl", "ivzw", "aisbl", "maatschap",
    "societe simple",
    "naamloze vennootschap", "besloten vennootschap", "met beperkte aansprakelijkheid", "a responsabilite limitee",
    "vennootschap onder firma", "commanditaire vennootschap", "op aandelen", "vereniging zonder winstoogmerk",
    "association sans but lucratif", "vereniging van mede eigenaars", "vme", "acp", "stichting van openbaar nut",
    "private stichting", "fondation privee", "fondation d utilite publique",
    # the Netherlands
    "stichting", "vereniging", "cooperatie", "cooperatief", "cooperatieve vennootschap", "coperatieve vennootschap",
    "vve", "vereniging van eigenaars", "vereniging van eigenaren", "eenmanszaak", "in oprichting",
    "onderlinge waarborgmaatschappij", "owm", "kerkgenootschap", "fonds voor gemene rekening",
    # France
    "sarl", "sas", "sasu", "eurl", "ei", "eirl", "sci", "scp", "scm", "sccv", "scpi", "scea", "earl", "gaec", "gfa",
    "selarl", "selarlu", "selas", "selasu", "selafa", "selca", "spfpl", "scop", "scic", "sem", "seml", "spl", "gie",
    "sep", "sica", "cuma", "societe anonyme", "societe par actions simplifiee", "unipersonnelle",
    "societe en nom collectif", "societe civile", "societe civile immobiliere", "societe civile professionnelle",
    "societe en commandite simple", "societe en commandite par actions", "societe cooperative", "a associe unique",
    "entreprise unipersonnelle a responsabilite limitee", "entreprise individuelle", "auto entrepreneur",
    "exploitation agricole a responsabilite limitee", "groupement agricole d exploitation en commun",
    "groupement d interet economique", "societe d exercice liberal", "societe a responsabilite limitee",
    "association", "fondation",
    # Europe and elsewhere
    "se", "sce", "eesv", "geie", "eeig", "ltd", "limited", "gmbh", "ag", "kg", "inc", "plc", "llc", "spa",
)  # fmt: skip
"""Legal forms as people write them beside names: ISO 20275, lower case, without accents and dots."""

_JOINING: Final = ("and", "en", "et", "und")
_WORDS: Final = rf"\b(?:{'|'.join(sorted((*_LEGAL_FORMS, *_JOINING), key=len, reverse=True))})\b"
_LIABILITY: Final = r"\b[buw] ?a$"
"""How the members of a Dutch cooperative are liable: it follows the name (`Coöperatie De Kroon U.A.`)."""


def _plain(text: pl.Expr) -> pl.Expr:
    """Return lower-case letters and digits with single spaces between words; dots and apostrophes are deleted."""
    bare = text.str.normalize("NFKD").str.replace_all(r"\p{M}", "").str.to_lowercase()
    ligatures = bare.str.replace_many({"œ": "oe", "æ": "ae", "ß": "ss", "ø": "o", "ł": "l"})
    joined = ligatures.str.replace_all("[.'\u2019`\u00b4]", "")
    return joined.str.replace_all(r"[^a-z0-9]+", " ").str.strip_chars()


def normal_name(name: pl.Expr) -> pl.Expr:
    """Return a company name without legal forms and joining words; a name made of these alone keeps them.

    Example:
        >>> pl.select(normal_name(pl.lit("Établissements De Kroon, B.V."))).item()
        'etablissements de kroon'
        >>> pl.select(normal_name(pl.lit("SELARL Dupont & Fils"))).item()
        'dupont fils'
    """
    plain = _plain(name)
    is_cooperative = plain.str.contains(r"\bcooperati")
    named = pl.when(is_cooperative).then(plain.str.replace(_LIABILITY, "")).otherwise(plain)
    short = named.str.replace_all(_WORDS, " ").str.replace_all(" +", " ").str.strip_chars()
    return pl.when(short == "").then(plain).otherwise(short)


def whole_name(name: pl.Expr) -> pl.Expr:
    """Return a company name with its legal form, without case, accents, punctuation and spaces.

    Example:
        >>> pl.select(whole_name(pl.lit("De Kroon, B.V."))).item()
        'dekroonbv'
    """
    return _plain(name).str.replace_all(" ", "", literal=True)


def normal_place(place: pl.Expr) -> pl.Expr:
    """Return a place without case, accents, punctuation and suffix (`PARIS 8`, `Paris Cedex 08`).

    Example:
        >>> pl.select(normal_place(pl.lit("SAINT-DENIS CEDEX 2"))).item()
        'saint denis'
    """
    plain = _plain(place).str.replace(r"^ste? ", "saint ").str.replace(r"^sint ", "saint ")
    return plain.str.replace(r"( cedex)?( \d+(e|er|eme)?( arrondissement)?)?$", "").str.strip_chars()


def postcode(text: pl.Expr) -> pl.Expr:
    """Return the digits of a postcode, null unless there are 4 or 5; the letters of a Dutch postcode are dropped.

    Example:
        >>> pl.select(postcode(pl.lit("B-1000")), b=postcode(pl.lit("3511 AB"))).row(0)
        ('1000', '3511')
    """
    return text.str.extract(r"\b(\d{4,5})(?:\.0)?\s?(?:[A-Za-z]{2})?\b")


def vat_key(text: pl.Expr) -> pl.Expr:
    """Return the RSIN of a Dutch VAT number, or a bare RSIN; null for anything else.

    The VAT number of a Dutch legal person is `NL`, its RSIN, and `B01` or another suffix.

    Example:
        >>> pl.select(vat_key(pl.lit("NL 8041.23.456.B01"))).item()
        '804123456'
    """
    bare = text.str.to_uppercase().str.replace_all(r"[^0-9A-Z]", "")
    return bare.str.extract(r"^(?:NL)?(\d{9})(?:B\d{2})?$")
