"""The forms of company numbers by country, as one table that is searched from the top."""

from __future__ import annotations

from typing import Final, NamedTuple

from firmlake.intake.checks import NO_CHECK, REFUSED

__all__ = ["EMPTY", "FORMS", "Form"]

EMPTY: Final = "no company number: fill it in, or remove the line"

_MOD97: Final = "wrong check digits (mod 97): the last two do not fit the first eight; look for a typing mistake"
_LUHN: Final = "wrong check digit (Luhn): look for a typing mistake or swapped digits"
_VAT: Final = "wrong VAT number: its key or its SIREN is not valid; look for a typing mistake"
_ABROAD: Final = "a number of another country: the service knows BE, NL and FR only"
_BE_LENGTH: Final = "wrong form: a Belgian enterprise number has 10 digits and begins with 0 or 1"
_NL_LENGTH: Final = "wrong length: a Dutch KVK number has 8 digits"
_FR_LENGTH: Final = "wrong length: a French SIREN has 9 digits (a SIRET 14, a VAT number 11 after FR)"
_FR_SHORT: Final = f"{_FR_LENGTH}; with a leading zero, its check digit is wrong"

_ZERO: Final = "leading zero restored"
_SIRET_TO_SIREN: Final = "SIRET shortened to its SIREN"
_VAT_TO_SIREN: Final = "VAT number shortened to its SIREN"


class Form(NamedTuple):
    """One way to write a number.

    Attributes:
        pattern: Regular expression of the bare number (upper case, no separators, no country).
        check: The check that must hold: a key of `firmlake.intake.checks.CHECKS`.
        problem: What is wrong if the check fails.
        repair: The repair made to the number; None if there is none.
        lost_zero: Whether a leading zero is missing.
        start: Position in the number at which the company number begins.
    """

    pattern: str
    check: str
    problem: str
    repair: str | None = None
    lost_zero: bool = False
    start: int = 0


_NOTHING: Final = Form(r"^(NA|NAN|NULL|NONE|(DIV0|NAME|NULL|NUM|REF|VALUE)[!?])?$", REFUSED, EMPTY)  # or `words.ERROR`
_FOREIGN: Final = Form(r"^[A-Z]{2}[0-9]{6}", REFUSED, _ABROAD)
_MISTYPED: Final = Form(
    r"^([0-9]+[OIL]|[OIL]+[0-9])[0-9OIL]*$",
    REFUSED,
    "a letter O, I or L instead of a digit: write 0 for O, and 1 for I or L",
)

FORMS: Final = {
    "BE": (
        _NOTHING,
        Form(r"^[01][0-9]{9}$", "enterprise number", _MOD97),
        Form(r"^[0-9]{9}$", "enterprise number", f"{_BE_LENGTH}; with a leading zero, its check digits are wrong",
             _ZERO, lost_zero=True),
        Form(r"^[2-8][0-9]{9}$", REFUSED,
             "a Belgian establishment unit, not a company: give the number of the enterprise it belongs to"),
        _FOREIGN,
        _MISTYPED,
        Form(r"", REFUSED, _BE_LENGTH),
    ),
    "NL": (
        _NOTHING,
        Form(r"^0{7,8}$", REFUSED, "all zeros: not a KVK number"),
        Form(r"^[0-9]{8}$", NO_CHECK, ""),
        Form(r"^[0-9]{7}$", NO_CHECK, "", _ZERO, lost_zero=True),
        Form(r"^[0-9]{8,9}B[0-9]{2}$", REFUSED,
             "a Dutch VAT number, which does not identify a company to the service: give the KVK number (8 digits), "
             "or find it with `firmlake match`"),
        Form(r"^[0-9]{9}$", REFUSED,
             f"{_NL_LENGTH}; 9 digits are an RSIN, which does not identify a company to the service"),
        Form(r"^[0-9]{12}$", REFUSED,
             "a Dutch branch number (vestigingsnummer), not a company: give the KVK number (8 digits)"),
        _FOREIGN,
        _MISTYPED,
        Form(r"", REFUSED, _NL_LENGTH),
    ),
    "FR": (
        _NOTHING,
        Form(r"^0{8,9}$", REFUSED, "all zeros: not a SIREN"),
        Form(r"^[0-9]{9}$", "SIREN", _LUHN),
        Form(r"^[0-9]{8}$", "SIREN", _FR_SHORT, _ZERO, lost_zero=True),
        Form(r"^[0-9]{14}$", "SIRET", f"not a SIRET: {_LUHN}", _SIRET_TO_SIREN),
        Form(r"^[0-9]{13}$", "SIRET", _FR_SHORT, f"{_ZERO}; {_SIRET_TO_SIREN}", lost_zero=True),
        Form(r"^[0-9A-Z]{2}000[0-9]{6}$", REFUSED, "a VAT number of Monaco, which does not identify a French company"),
        Form(r"^[0-9]{11}$", "VAT", _VAT, _VAT_TO_SIREN, start=2),
        Form(r"^[0-9A-HJ-NP-Z]{2}[0-9]{9}$", "VAT with letters", _VAT, _VAT_TO_SIREN, start=2),
        _FOREIGN,
        _MISTYPED,
        Form(r"", REFUSED, _FR_LENGTH),
    ),
    None: (
        _NOTHING,
        Form(r"^[0-9]{7,14}$", REFUSED,
             "nothing names its country: write BE, NL or FR before the number, add a country column, or use "
             "--set intake.default_country=BE (NL, FR)"),
        _FOREIGN,
        _MISTYPED,
        Form(r"", REFUSED, "not a company number: check that the right column is read"),
    ),
}  # fmt: skip
"""Forms by country; None is for numbers without a country. The first form whose pattern matches decides."""
