"""Identify companies by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final, NamedTuple

import polars as pl

from firmlake.core.company import COUNTRIES, NUMBER_LENGTH, Company
from firmlake.core.errors import UsageError
from firmlake.intake.columns import COLUMN_COUNTRY, FALLBACK_COUNTRY, SEVERAL


class _Step(NamedTuple):
    """Text that `pattern` matches becomes `replacement`; None means that the number cannot be recovered.

    Steps of which `reason` is a spelling are not reported.
    """

    reason: str
    pattern: str
    replacement: str | None = ""


_SPELLING: Final = "people write numbers with dots, spaces and a prefix"
_SCIENTIFIC: Final = "scientific notation written out"
_COURT: Final = r"\b(RPR|RPM|RCS|R\.C\.S)\b[^0-9]*"
"""A register and its court, with which companies in Belgium and France end or begin the number on their letters."""

_WIDENED: Final = "full-width characters replaced"
_DATE: Final = "this is a date, not a company number: map the column that holds the numbers"
_LOSSLESS: Final = "|".join(rf"([0-9]{{{n}}})E\+?0?{n}" for n in range(6, 14))
"""The exponent is the number of digits after the first; if all of them are shown, no digit was lost."""

_STEPS: Final = (
    _Step("invisible characters removed", r"\p{Cf}|_X000D_"),  # Excel's spelling of a line end
    _Step(_SPELLING, r"^\s+|\s+$"),
    _Step("text mark of a spreadsheet removed", r"""^=?["'`\u00b4\u2018\u2019]+|^=|["'`\u00b4\u2018\u2019]+$"""),
    _Step("decimal zero of a spreadsheet removed", r"^([0-9]{7,14})[.,]0+$", "$1"),
    _Step(_SCIENTIFIC, rf"^([0-9])[.,](?:{_LOSSLESS})$", "$1$2$3$4$5$6$7$8$9"),
    _Step(
        "scientific notation has lost some digits of the number: "
        "format the column as text in the source and export the list again",
        r"^[0-9]+([.,][0-9]+)?E[+-]?[0-9]{1,2}$",
        None,
    ),
    _Step(_DATE, r"^(19|20)[0-9]{2}[./-][0-9]{1,2}[./-][0-9]{1,2}([T ].*)?$", None),
    _Step(_DATE, r"^[0-9]{1,2}[./-][0-9]{1,2}[./-](19|20)[0-9]{2}$", None),
    # After the only point or comma, 3 or 4 digits are a group of a number; 1, 2 or many digits are decimals.
    _Step(
        "this is a decimal number, not a company number: map the column that holds the numbers",
        r"^-?[0-9]*[.,]([0-9]{1,2}|[0-9]{5,})$",
        None,
    ),
    _Step(_SPELLING, rf"^{_COURT}", "$1 "),
    _Step(_SPELLING, rf"^(.*[0-9][^\p{{L}}0-9]*){_COURT}$", "$2 $1"),
    _Step(_SPELLING, r"\bN\s?[°º]"),
    _Step(_SPELLING, r"[\s.,:;#/_()°º\p{Pd}]"),
)

_LABELS: Final = {"KBO": "BE", "BCE": "BE", "CBE": "BE", "RPR": "BE", "RPM": "BE", "KVK": "NL",
                  "SIREN": "FR", "SIRET": "FR", "RCS": "FR",
                  "VAT": None, "BTW": None, "TVA": None, "NUMMER": None, "NUMBER": None, "NR": None}  # fmt: skip
"""Words written before a number, with the country whose numbers they denote."""

_ANY_LABEL: Final = "|".join(_LABELS)
_WIDE: Final = {chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F)}
"""Full-width letters, digits and marks of East Asian keyboards, and the ASCII characters that they stand for."""

_KEY_CHARACTERS: Final = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Characters of a French VAT key; I and O are missing because they look like 1 and 0."""


def _key_value(key: str) -> int:
    """Return the numeric value of a French VAT key with letters."""
    first, second = map(_KEY_CHARACTERS.index, key)
    return first * 24 + second - 10 if key[0].isdigit() else first * 34 + second - 100


_KEY_VALUES: Final = {
    a + b: _key_value(a + b) for a in _KEY_CHARACTERS for b in _KEY_CHARACTERS if not (a + b).isdigit()
}

_DIGIT_SUM: Final = pl.Series([tens + ones for tens in range(10) for ones in range(10)])
_LUHN_SUM: Final = pl.Series([tens * 2 - (tens > 4) * 9 + ones for tens in range(10) for ones in range(10)])
"""ISO/IEC 7812-1: every second digit from the right is doubled, and 9 is subtracted from values above 9."""


def _sum_of_pairs(number: pl.Expr, pairs: int, table: pl.Series) -> pl.Expr:
    """Add up the values of a table of 100 for each pair of digits, from the right."""
    values = (pl.lit(table).gather(number // int(100**n) % 100) for n in range(pairs))
    return pl.sum_horizontal(*values, ignore_nulls=False)


def _enterprise_number(number: pl.Expr) -> pl.Expr:
    """Check that the last two digits are 97 minus the first eight modulo 97."""
    return 97 - number // 100 % 97 == number % 100


def _siren(number: pl.Expr) -> pl.Expr:
    return _sum_of_pairs(number, 5, _LUHN_SUM) % 10 == 0


def _siret(number: pl.Expr) -> pl.Expr:
    """Check a SIREN and five digits. For branches of La Poste (not its head office), the digit sum must divide by 5."""
    siren = number // 100_000
    is_multiple_of_5 = _sum_of_pairs(number, 7, _DIGIT_SUM) % 5 == 0
    holds = _sum_of_pairs(number, 7, _LUHN_SUM) % 10 == 0
    is_branch_of_la_poste = (siren == 356_000_000) & (number != 35_600_000_000_048)
    return _siren(siren) & pl.when(is_branch_of_la_poste).then(is_multiple_of_5).otherwise(holds)


def _vat(number: pl.Expr) -> pl.Expr:
    """Check a SIREN after a key of two digits: (12 + 3 x (SIREN mod 97)) mod 97."""
    siren = number % 1_000_000_000
    return _siren(siren) & ((12 + 3 * (siren % 97)) % 97 == number // 1_000_000_000)


def _vat_with_letters(text: pl.Expr) -> pl.Expr:
    """Check a SIREN after a key with letters: the key's value, split by 11, follows from the SIREN modulo 11."""
    key = text.str.head(2).replace_strict(_KEY_VALUES, default=None, return_dtype=pl.Int64)
    siren = text.str.slice(2).cast(pl.Int64, strict=False)
    return _siren(siren) & ((siren + 1 + key // 11) % 11 == key % 11)


_ANY: Final = pl.lit(value=True)
_IS_ENTERPRISE_NUMBER: Final = _enterprise_number(pl.col("value"))
_IS_SIREN: Final = _siren(pl.col("value"))
_IS_SIRET: Final = _siret(pl.col("value"))

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
        check: The check that must hold, over `digits` (the number as text, with a lost leading zero) and `value` (the
            number as an integer); None if the form never identifies a company.
        problem: What is wrong if the check fails.
        repair: The repair made to the number; None if there is none.
        start: Position in the number at which the company number begins.
    """

    pattern: str
    check: pl.Expr | None
    problem: str
    repair: str | None = None
    start: int = 0


_NOTHING: Final = Form(r"^(NA|NAN|NULL|NONE|(DIV0|NAME|NULL|NUM|REF|VALUE)[!?])?$", None, EMPTY)  # or `words.ERROR`
_FOREIGN: Final = Form(r"^[A-Z]{2}[0-9]{6}", None, _ABROAD)
_MISTYPED: Final = Form(
    r"^([0-9]+[OIL]|[OIL]+[0-9])[0-9OIL]*$",
    None,
    "a letter O, I or L instead of a digit: write 0 for O, and 1 for I or L",
)

FORMS: Final = {
    "BE": (
        _NOTHING,
        Form(r"^[01][0-9]{9}$", _IS_ENTERPRISE_NUMBER, _MOD97),
        Form(r"^[0-9]{9}$", _IS_ENTERPRISE_NUMBER, f"{_BE_LENGTH}; with a leading zero, its check digits are wrong",
             _ZERO),
        Form(r"^[2-8][0-9]{9}$", None,
             "a Belgian establishment unit, not a company: give the number of the enterprise it belongs to"),
        _FOREIGN,
        _MISTYPED,
        Form(r"", None, _BE_LENGTH),
    ),
    "NL": (
        _NOTHING,
        Form(r"^0{7,8}$", None, "all zeros: not a KVK number"),
        Form(r"^[0-9]{8}$", _ANY, ""),
        Form(r"^[0-9]{7}$", _ANY, "", _ZERO),
        Form(r"^[0-9]{8,9}B[0-9]{2}$", None,
             "a Dutch VAT number, which does not identify a company to the service: give the KVK number (8 digits), "
             "or find it with `firmlake match`"),
        Form(r"^[0-9]{9}$", None,
             f"{_NL_LENGTH}; 9 digits are an RSIN, which does not identify a company to the service"),
        Form(r"^[0-9]{12}$", None,
             "a Dutch branch number (vestigingsnummer), not a company: give the KVK number (8 digits)"),
        _FOREIGN,
        _MISTYPED,
        Form(r"", None, _NL_LENGTH),
    ),
    "FR": (
        _NOTHING,
        Form(r"^0{8,9}$", None, "all zeros: not a SIREN"),
        Form(r"^[0-9]{9}$", _IS_SIREN, _LUHN),
        Form(r"^[0-9]{8}$", _IS_SIREN, _FR_SHORT, _ZERO),
        Form(r"^[0-9]{14}$", _IS_SIRET, f"not a SIRET: {_LUHN}", _SIRET_TO_SIREN),
        Form(r"^[0-9]{13}$", _IS_SIRET, _FR_SHORT, f"{_ZERO}; {_SIRET_TO_SIREN}"),
        Form(r"^[0-9A-Z]{2}000[0-9]{6}$", None, "a VAT number of Monaco, which does not identify a French company"),
        Form(r"^[0-9]{11}$", _vat(pl.col("value")), _VAT, _VAT_TO_SIREN, start=2),
        Form(r"^[0-9A-HJ-NP-Z]{2}[0-9]{9}$", _vat_with_letters(pl.col("digits")), _VAT, _VAT_TO_SIREN, start=2),
        _FOREIGN,
        _MISTYPED,
        Form(r"", None, _FR_LENGTH),
    ),
    None: (
        _NOTHING,
        Form(r"^[0-9]{7,14}$", None,
             "nothing names its country: write BE, NL or FR before the number, add a country column, or use "
             "--set intake.default_country=BE (NL, FR)"),
        _FOREIGN,
        _MISTYPED,
        Form(r"", None, "not a company number: check that the right column is read"),
    ),
}  # fmt: skip
"""Forms by country; None is for numbers without a country. The first form whose pattern matches decides."""

CONTRADICTION: Final = "the number names a different country than its line or column: correct one of them"
SURPLUS: Final = "fields beyond the last column left out"
_AMBIGUOUS: Final = "a number that is valid in several countries: add a country column or a prefix"


def clean_numbers(text: pl.Series) -> pl.DataFrame:
    """Extract the bare number from each text, with the repairs made.

    Args:
        text: Company numbers as in the file, null if empty.

    Returns:
        One row per text, in the same order:

        - `body`: upper-case letters and digits without separators, label and country prefix; may be empty.
        - `own_country`: the country that a prefix or label names, or null.
        - `repair`: what was corrected, or null.
        - `problem`: why no number can be recovered (a date, lost digits), or null.
    """
    plain = text.str.contains(r"^[0-9]+$").fill_null(value=False)
    rows = pl.DataFrame({"row": pl.int_range(len(text), eager=True), "body": text})
    untouched = rows.filter(plain).with_columns(
        own_country=pl.lit(None, pl.String), repair=pl.lit(None, pl.String), problem=pl.lit(None, pl.String)
    )
    if untouched.height == len(text):
        return untouched.drop("row")
    odd = rows.filter(~plain)
    cleaned = odd.select("row").hstack(_clean(odd["body"].fill_null("")))
    return pl.concat([untouched, cleaned.select(untouched.columns)]).sort("row").drop("row")


def identify(text: pl.Series, country: pl.Series, column_country: str | None = None) -> pl.DataFrame:
    """Identify the company of each number, or state why there is none.

    The country comes from a prefix or label of the number (`BE 0403...`, `KvK 1708...`), then from `column_country`,
    then from `country`. A prefix that contradicts `column_country` is refused.

    Args:
        text: Company numbers as in the file, null if empty.
        country: `BE`, `NL`, `FR` or null for each number, used if nothing else names a country.
        column_country: The only country whose numbers the column may hold; None if it may hold others.

    Returns:
        One row per number, in the same order:

        - `country`, `company_number`: the company in normal form; null if there is a problem.
        - `repair`: what was corrected, or null.
        - `problem`: what is wrong and what to do about it, or null.
        - `own_country`: the country of the prefix or label, or null.

    References:
        Specification, "Company identifier"; docs/service_gaps.md, "spelling of company numbers".
    """
    contradicts = pl.col("own_country") != pl.lit(column_country, pl.String)
    named = pl.coalesce("own_country", pl.lit(column_country, pl.String), pl.lit(country))
    numbers = clean_numbers(text).with_columns(
        country=pl.when(named.is_in(COUNTRIES)).then(named),
        problem=pl.coalesce("problem", pl.when(contradicts).then(pl.lit(CONTRADICTION))),
        row=pl.int_range(pl.len()),
    )
    parts = [
        _identify(numbers.lazy().filter(pl.col("country").eq_missing(pl.lit(code, pl.String))), code, forms)
        for code, forms in FORMS.items()
    ]
    return pl.concat(parts).sort("row").drop("row").collect()


def read_company(country: str, text: str) -> Company:
    """Read a company number in any spelling.

    Raises:
        UsageError: The text is not a company number of this country. The message gives the reason.
    """
    row = identify(pl.Series([text]), pl.Series([country]), None).row(0, named=True)
    if row["problem"] is not None or row["country"] != country:
        raise UsageError(
            f"{country} {text}: {row['problem'] or 'this is a number of another country'}", "Correct the number"
        )
    return Company(row["country"], row["company_number"])


def read_named_company(text: str) -> Company:
    """Read a company as a person names it, such as "BE 0403.227.515": the country, then the number in any spelling.

    Raises:
        UsageError: The text does not begin with a country, or the rest is not a company number of it.
    """
    country, number = text.strip()[:2].upper(), text.strip()[2:].strip()
    if country not in COUNTRIES:
        raise UsageError(f"{text!r} does not begin with BE, NL or FR", "Write the country first: BE 0403227515")
    return read_company(country, number)


def header_country(role: str, default_country: str | None) -> str | None:
    """Return the country that a column's name implies for numbers without one; None if it implies none."""
    return COLUMN_COUNTRY.get(role) or (None if default_country else FALLBACK_COUNTRY.get(role))


def identify_column(
    numbers: pl.Series, country: pl.Series, role: str, default_country: str | None, *, is_register: bool = False
) -> pl.DataFrame:
    """Identify the company of each number in a column.

    The country of a line takes precedence over the one that the column's name implies.

    Args:
        numbers: Texts of the column, null if empty.
        country: Country of each line: `BE`, `NL`, `FR` or null.
        role: Role of the column, one of `firmlake.intake.columns.NUMBER_ROLES`.
        default_country: Country of numbers without another country; None if there is no default.
        is_register: Whether the column holds only numbers of the register in its name, whatever the country of a line.
            Numbers of other countries are then refused.

    Returns:
        The result of `identify`.
    """
    if role in SEVERAL and default_country is None:
        return _of_several(numbers, country, SEVERAL[role])
    default = header_country(role, default_country) or default_country
    named = country if default is None else country.fill_null(default)
    return identify(numbers, named, COLUMN_COUNTRY.get(role) if is_register else None)


def _clean(text: pl.Series) -> pl.DataFrame:
    """Clean texts that contain more than digits."""
    body = pl.col("body")
    label = body.str.extract(rf"^({_ANY_LABEL})").replace_strict(_LABELS, default=None, return_dtype=pl.String)
    nothing = pl.lit(None, pl.String)
    frame = pl.LazyFrame({"body": text}).with_columns(repair=nothing, problem=nothing)
    frame = _replaced(frame, body.str.replace_many(_WIDE), _WIDENED).with_columns(body.str.to_uppercase())
    frame = reduce(_take, _STEPS, frame).with_columns(own_country=label)
    frame = _replaced(frame, body.str.replace(rf"^(?:{_ANY_LABEL})+", ""), _SPELLING)
    frame = frame.with_columns(own_country=pl.coalesce(body.str.extract(r"^(BE|NL|FR)"), "own_country"))
    return _replaced(frame, body.str.replace(r"^(?:(?:BE)+|(?:NL)+|(?:FR)+)", ""), _SPELLING).collect()


def _take(frame: pl.LazyFrame, step: _Step) -> pl.LazyFrame:
    body = pl.col("body")
    if step.replacement is not None:
        return _replaced(frame, body.str.replace_all(step.pattern, step.replacement), step.reason)
    found = pl.when(body.str.contains(step.pattern)).then(pl.lit(step.reason))
    return frame.with_columns(problem=pl.coalesce("problem", found))


def _replaced(frame: pl.LazyFrame, new: pl.Expr, reason: str) -> pl.LazyFrame:
    """Replace the text, and record the repair if it changed more than the spelling."""
    if reason == _SPELLING:
        return frame.with_columns(body=new)
    return frame.with_columns(body=new, repair=pl.when(new != pl.col("body")).then(_joined(reason)).otherwise("repair"))


def _joined(reason: str | pl.Expr) -> pl.Expr:
    """Return the repairs made so far, and one more."""
    more = pl.lit(reason) if isinstance(reason, str) else reason
    return pl.concat_str("repair", more, separator="; ", ignore_nulls=True)


def _identify(numbers: pl.LazyFrame, country: str | None, forms: Sequence[Form]) -> pl.LazyFrame:
    """Identify the numbers of one country by its forms."""
    body = pl.col("body")
    form = pl.coalesce(
        *(pl.when(body.str.contains(form.pattern)).then(pl.lit(n, pl.UInt32)) for n, form in enumerate(forms))
    )

    def of_form(values: Sequence[object], dtype: pl.DataType) -> pl.Expr:
        return pl.lit(pl.Series(values, dtype=dtype)).gather(pl.col("form"))

    repair = of_form([form.repair for form in forms], pl.String())
    start = of_form([form.start for form in forms], pl.UInt32())
    problem = of_form([form.problem for form in forms], pl.String())
    checks = [pl.when(form=n).then(each.check) for n, each in enumerate(forms) if each.check is not None]
    holds = pl.coalesce(*checks, pl.lit(value=False))
    accepted = pl.col("problem").is_null()
    number = pl.col("digits").str.slice(start, NUMBER_LENGTH.get(country or "", 0))
    return (
        numbers.with_columns(form=form)
        .with_columns(digits=pl.when(repair.str.starts_with(_ZERO)).then("0" + body).otherwise(body))
        .with_columns(value=pl.col("digits").cast(pl.Int64, strict=False))
        .with_columns(problem=pl.coalesce("problem", pl.when(~holds).then(problem)))
        .select(
            "row",
            country=pl.when(accepted).then(pl.lit(country, pl.String)),
            company_number=pl.when(accepted).then(number),
            repair=pl.when(repair.is_null()).then("repair").otherwise(_joined(repair)),
            problem="problem",
            own_country="own_country",
        )
    )


def _of_several(numbers: pl.Series, country: pl.Series, countries: tuple[str, ...]) -> pl.DataFrame:
    """For numbers without a country, take the one among these countries in which the number is valid."""
    found, *others = (identify(numbers, country.fill_null(code)) for code in countries)
    is_ambiguous = pl.repeat(value=False, n=len(numbers), dtype=pl.Boolean, eager=True)
    for other in others:
        is_ambiguous |= country.is_null() & (other["country"] != found["country"]).fill_null(value=False)
        found = take_rows(other, other["problem"].is_null(), found)
    problem = pl.when(is_ambiguous).then(pl.lit(_AMBIGUOUS)).otherwise("problem")
    return found.with_columns(pl.when(~is_ambiguous).then(pl.col("country", "company_number")), problem=problem)


def take_rows(taken: pl.DataFrame, where: pl.Series, otherwise: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of one frame where a condition holds, and those of another elsewhere."""
    return pl.DataFrame([taken[name].zip_with(where, otherwise[name]) for name in otherwise.columns])
