"""Split lines into records and fields; quotation marks may enclose delimiters and line ends.

A field that begins with a quotation mark ends at the next mark that is not doubled (RFC 4180). A mark elsewhere in a
field is an ordinary character.
"""

from __future__ import annotations

from typing import Final

import polars as pl

__all__ = ["is_well_formed", "join_quoted_lines", "split_fields", "unquoted"]

_ENCLOSED: Final = r'(?:[^"]|"")*'


def _escaped(delimiter: str) -> str:
    return f"\\x{{{ord(delimiter):x}}}"


def join_quoted_lines(lines: pl.DataFrame, delimiter: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Join lines that a quoted field spans.

    Each line either keeps the state (inside or outside a quoted field), toggles it, or sets it. These three operations
    compose, so the state after every line follows from running counts, without a loop.

    Args:
        lines: `line` and `text`; the first line begins outside a quoted field.
        delimiter: The character between fields.

    Returns:
        The records, with the first line of each as `line`, and the lines of a last record that is still open.
    """
    text = pl.col("text")
    if not lines.select(text.str.contains('"', literal=True).any()).item():
        return lines, lines.clear()
    d = _escaped(delimiter)
    closed = rf'{_ENCLOSED}"(?:[^"{d}][^{d}]*)?'
    anything = rf'(?:"{closed}|[^"{d}][^{d}]*|)'
    opens = text.str.contains(rf'^(?:{anything}{d})*"{_ENCLOSED}$')
    stays = text.str.contains(rf'^{_ENCLOSED}$|^{closed}(?:{d}{anything})*{d}"{_ENCLOSED}$')
    states = lines.select(opens=opens, stays=stays).select(
        "opens", turned=(pl.col("opens") & ~pl.col("stays")).cum_sum() % 2 == 1, sets=pl.col("opens") == pl.col("stays")
    )
    base = pl.when("sets").then(pl.col("opens") ^ pl.col("turned")).forward_fill().fill_null(value=False)
    inside = states.select(inside=base ^ pl.col("turned"))["inside"]
    if not inside.any():
        return lines, lines.clear()
    lines = lines.with_columns(record=(~inside.shift(1, fill_value=False)).cum_sum())
    is_open = pl.col("record") == (lines["record"][-1] if inside[-1] else 0)
    joined = (
        lines.filter(~is_open).group_by("record", maintain_order=True).agg(pl.col("line").first(), text.str.join("\n"))
    )
    return joined.drop("record"), lines.filter(is_open).drop("record")


def is_well_formed(delimiter: str) -> pl.Expr:
    """Return whether every quoted field of `text` ends at its closing mark.

    `"a" b` is harmless on one line. Over several lines it means that an open mark swallowed the following lines.
    """
    d = _escaped(delimiter)
    one = rf'(?:"{_ENCLOSED}"|[^"{d}\n][^{d}\n]*|)'
    return pl.col("text").str.contains(rf"^{one}(?:{d}{one})*$")


def split_fields(text: pl.Series, delimiter: str) -> pl.Series:
    """Split records into lists of fields, still with their quotation marks; see `unquoted`."""
    if not text.str.contains('"', literal=True).any():
        return text.str.split(delimiter)
    d = _escaped(delimiter)
    led = pl.select(pl.lit(delimiter) + text).to_series()
    return led.str.extract_all(rf'{d}(?:"{_ENCLOSED}"[^{d}]*|[^{d}]*)').list.eval(pl.element().str.slice(1))


def unquoted(field: pl.Expr) -> pl.Expr:
    """Return the text of a field without quotation marks."""
    enclosed = field.str.replace(rf'^"({_ENCLOSED})"', "$1").str.replace_all('""', '"', literal=True)
    return pl.when(field.str.starts_with('"')).then(enclosed).otherwise(field)
