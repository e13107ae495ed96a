"""Undo the damage that people and spreadsheets do to company numbers, with a reason for each step."""

from __future__ import annotations

from functools import reduce
from typing import Final, NamedTuple

import polars as pl

__all__ = ["CLEANING_REPAIRS", "SPELLINGS", "clean_numbers"]


class _Step(NamedTuple):
    """Text that `pattern` matches becomes `replacement`; None means that the number cannot be recovered."""

    reason: str
    pattern: str
    replacement: str | None = ""


_SEPARATORS: Final = "spaces and punctuation removed"
_SCIENTIFIC: Final = "scientific notation written out"
_PREFIX: Final = "prefix removed"
_COURT: Final = r"\b(RPR|RPM|RCS|R\.C\.S)\b[^0-9]*"
"""A register and its court, with which companies in Belgium and France end or begin the number on their letters."""

_WIDENED: Final = "full-width characters replaced"
_DATE: Final = "this is a date, not a company number: map the column that holds the numbers"

_LOSSLESS: Final = "|".join(rf"([0-9]{{{n}}})E\+?0?{n}" for n in range(6, 14))
"""The exponent is the number of digits after the first; if all of them are shown, no digit was lost."""

_STEPS: Final = (
    _Step("invisible characters removed", r"\p{Cf}|_X000D_"),  # Excel's spelling of a line end
    _Step(_SEPARATORS, r"^\s+|\s+$"),
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
    _Step(_PREFIX, rf"^{_COURT}", "$1 "),
    _Step(_PREFIX, rf"^(.*[0-9][^\p{{L}}0-9]*){_COURT}$", "$2 $1"),
    _Step(_PREFIX, r"\bN\s?[°º]"),
    _Step(_SEPARATORS, r"[\s.,:;#/_()°º\p{Pd}]"),
)

_LABELS: Final = {"KBO": "BE", "BCE": "BE", "CBE": "BE", "RPR": "BE", "RPM": "BE", "KVK": "NL",
                  "SIREN": "FR", "SIRET": "FR", "RCS": "FR",
                  "VAT": None, "BTW": None, "TVA": None, "NUMMER": None, "NUMBER": None, "NR": None}  # fmt: skip
"""Words written before a number, with the country whose numbers they denote."""

_ANY_LABEL: Final = "|".join(_LABELS)
_WIDE: Final = {chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F)}
"""Full-width letters, digits and marks of East Asian keyboards, and the ASCII characters that they stand for."""

CLEANING_REPAIRS: Final = tuple(
    dict.fromkeys((_WIDENED, *(step.reason for step in _STEPS if step.replacement is not None), _PREFIX))
)
"""All repairs of `clean_numbers`; bit n of `repairs` stands for entry n."""

SPELLINGS: Final = sum(1 << CLEANING_REPAIRS.index(reason) for reason in (_SEPARATORS, _PREFIX))
"""Bits of repairs that correct no mistake: people write numbers with dots, spaces and a prefix."""


def clean_numbers(text: pl.Series) -> pl.DataFrame:
    """Extract the bare number from each text, with the repairs made.

    Args:
        text: Company numbers as in the file, null if empty.

    Returns:
        One row per text, in the same order:

        - `body`: upper-case letters and digits without separators, label and country prefix; may be empty.
        - `own_country`: the country that a prefix or label names, or null.
        - `repairs`: bits of `CLEANING_REPAIRS`.
        - `problem`: why no number can be recovered (a date, lost digits), or null.
    """
    plain = text.str.contains(r"^[0-9]+$").fill_null(value=False)
    rows = pl.DataFrame({"row": pl.int_range(len(text), eager=True), "body": text})
    untouched = rows.filter(plain).with_columns(
        own_country=pl.lit(None, pl.String), repairs=pl.lit(0, pl.UInt32), problem=pl.lit(None, pl.String)
    )
    if untouched.height == len(text):
        return untouched.drop("row")
    odd = rows.filter(~plain)
    cleaned = odd.select("row").hstack(_clean(odd["body"].fill_null("")))
    return pl.concat([untouched, cleaned.select(untouched.columns)]).sort("row").drop("row")


def _clean(text: pl.Series) -> pl.DataFrame:
    """Clean texts that contain more than digits."""
    body = pl.col("body")
    label = body.str.extract(rf"^({_ANY_LABEL})").replace_strict(_LABELS, default=None, return_dtype=pl.String)
    frame = pl.LazyFrame({"body": text}).with_columns(repairs=pl.lit(0, pl.UInt32), problem=pl.lit(None, pl.String))
    frame = _replaced(frame, body.str.replace_many(_WIDE), _WIDENED).with_columns(body.str.to_uppercase())
    frame = reduce(_take, _STEPS, frame).with_columns(own_country=label)
    frame = _replaced(frame, body.str.replace(rf"^(?:{_ANY_LABEL})+", ""), _PREFIX)
    frame = frame.with_columns(own_country=pl.coalesce(body.str.extract(r"^(BE|NL|FR)"), "own_country"))
    return _replaced(frame, body.str.replace(r"^(?:(?:BE)+|(?:NL)+|(?:FR)+)", ""), _PREFIX).collect()


def _take(frame: pl.LazyFrame, step: _Step) -> pl.LazyFrame:
    body = pl.col("body")
    if step.replacement is not None:
        return _replaced(frame, body.str.replace_all(step.pattern, step.replacement), step.reason)
    found = pl.when(body.str.contains(step.pattern)).then(pl.lit(step.reason))
    return frame.with_columns(problem=pl.coalesce("problem", found))


def _replaced(frame: pl.LazyFrame, new: pl.Expr, reason: str) -> pl.LazyFrame:
    """Replace the text, and record the repair if it changed."""
    bit = pl.lit(1 << CLEANING_REPAIRS.index(reason), pl.UInt32)
    changed = (new != pl.col("body")).cast(pl.UInt32) * bit
    return frame.with_columns(body=new, repairs=pl.col("repairs") | changed)
