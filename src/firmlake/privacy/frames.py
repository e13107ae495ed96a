"""Remove forgotten subjects from rows of lists, targets and staged tables.

Rows of a forgotten company are removed. A line of a list is kept without its content, so that every line is still
accounted for.
"""

from __future__ import annotations

import polars as pl

from firmlake.core.company import Company
from firmlake.privacy.cleaning import clean_json
from firmlake.privacy.forgotten import FORGOTTEN, Forgotten
from firmlake.privacy.words import name_words

__all__ = ["LINE_FORGOTTEN", "clean_frame"]

LINE_FORGOTTEN = "its company was forgotten; to fetch the company again, name it with `firmlake company`"
_COMPANY = ("country", "company_number")
_LOOKALIKE = ("lookalike_country", "lookalike_company_number")
_RELATED = ("related_country", "related_company_number")
_OF_RELATED = ("related_name", "related_identifier_name", "related_place")
_OF_NAMES = {"name", "related_name", "related_identifier_name"}
_OURS = {
    *_COMPANY, *_LOOKALIKE, *_RELATED, "run_id", "valid_from_run", "valid_to_run", "request_id", "payload_hash",
    "dataset", "status", "direction", "related_kind", "kind", "effect", "path",
}  # fmt: skip
"""Columns that hold words of firmlake, or are handled row by row."""
_OF_NO_COMPANY = {"list_name", "rule", "says", "condition"}
"""Columns that hold the same text for all companies of a list or an alert rule. It is not data about any of them."""
_NULLABLE = {
    *_OF_RELATED, "name", "place", "value", "record_json", "example", "given", "old_value", "new_value", "extra_json",
    "columns", "fields", "function", "error",
}  # fmt: skip


def clean_frame(frame: pl.DataFrame, forgotten: Forgotten) -> pl.DataFrame:
    """Return a table without forgotten subjects; the same frame if it names none.

    Args:
        frame: A table. The names of its columns tell what its rows are about.
        forgotten: The forgotten subjects.
    """
    if forgotten.has_companies:
        frame = _clean_rows(frame, forgotten)
    for name, kind in frame.schema.items():
        if kind == pl.String and name not in _OURS:
            frame = _clean_column(frame, name, forgotten)
    return frame


# ---------------------------------------------------------------------------------------------------------------------


def _clean_rows(frame: pl.DataFrame, forgotten: Forgotten) -> pl.DataFrame:
    if (about := _names(frame, _COMPANY, forgotten)) is not None:
        frame = _blank(frame, about) if "columns" in frame.columns else frame.filter(~about)
    if (similar := _names(frame, _LOOKALIKE, forgotten)) is not None:
        frame = frame.filter(~similar)
    if (related := _names(frame, _RELATED, forgotten)) is not None:
        gone = [name for name in (*_RELATED, *_OF_RELATED) if name in frame.columns]
        frame = frame.with_columns(pl.when(~related).then(pl.col(name)).alias(name) for name in gone)
        frame = _with_kinds(frame)
    return frame


def _names(frame: pl.DataFrame, columns: tuple[str, str], forgotten: Forgotten) -> pl.Series | None:
    """Tell for each row whether it names a forgotten company in two columns; None if no row does."""
    if not set(columns) <= set(frame.columns):
        return None
    pairs = frame.select(pl.col(columns).cast(pl.String))
    known = [pair for pair in pairs.drop_nulls().unique().rows() if forgotten.has_company(Company(*pair))]
    if not known:
        return None
    table = pl.DataFrame(known, schema=dict.fromkeys(columns, pl.String), orient="row").with_columns(found=True)
    return pairs.join(table, on=columns, how="left", maintain_order="left")["found"].fill_null(value=False)


def _blank(frame: pl.DataFrame, lines: pl.Series) -> pl.DataFrame:
    """Empty a line of a list, except for its number and the reason."""
    values = {"status": "refused", "reason": LINE_FORGOTTEN, "columns": "{}"}
    kept = {"line", "list_name", "run_id", "valid_from_run"}
    return frame.with_columns(
        pl.when(~lines).then(pl.col(name)).otherwise(pl.lit(values.get(name), frame.schema[name])).alias(name)
        for name in frame.columns
        if name not in kept
    )


def _clean_column(frame: pl.DataFrame, name: str, forgotten: Forgotten) -> pl.DataFrame:
    by = [name]
    if forgotten.is_scoped and name not in _OF_NO_COMPANY and set(_COMPANY) <= set(frame.columns):
        by += _COMPANY
    suspects = forgotten.may_name(frame[name].drop_nulls().unique())
    if suspects.is_empty():
        return frame
    changed = {}
    distinct = frame.select(pl.col(by).cast(pl.String)).filter(pl.col(name).is_in(suspects.implode())).unique()
    for text, *company in distinct.rows():
        about = Company(*company) if company and None not in company else None
        cleaned = _clean_value(name, text, about, forgotten)
        if cleaned != text:
            changed[text, *company] = cleaned
            if name in _OF_NAMES:
                words = name_words(text)
                forgotten.names[words] = min(text, forgotten.names.get(words, text))
    if not changed:
        return frame
    table = pl.DataFrame(
        [(*key, new, True) for key, new in changed.items()],
        schema={**dict.fromkeys(by, pl.String), "new": pl.String, "is_changed": pl.Boolean},
        orient="row",
    )
    joined = frame.select(pl.col(by).cast(pl.String)).join(table, on=by, how="left", maintain_order="left")
    new = frame[name].zip_with(joined["is_changed"].is_null(), joined["new"]).alias(name)
    return _with_kinds(frame.with_columns(new)) if name in _OF_RELATED else frame.with_columns(new)


def _clean_value(column: str, text: str, company: Company | None, forgotten: Forgotten) -> str | None:
    if column == "contact_id":
        return forgotten.contact(text) or text
    if text[:1] in ("{", "["):
        return clean_json(text.encode("utf-8", "replace"), forgotten, company).decode()
    cleaned = forgotten.clean(text, company)
    return FORGOTTEN if cleaned is None and column not in _NULLABLE else cleaned


def _with_kinds(frame: pl.DataFrame) -> pl.DataFrame:
    """Mark related parties as anonymous that have neither a number nor a name any more."""
    if "related_kind" not in frame.columns:
        return frame
    named = [name for name in (*_RELATED, "related_name", "related_identifier_name") if name in frame.columns]
    is_bare = pl.all_horizontal(pl.col(named).is_null()) & (pl.col("related_kind") != "unknown")
    return frame.with_columns(
        pl.when(is_bare).then(pl.lit("anonymous")).otherwise(pl.col("related_kind")).alias("related_kind")
    )
