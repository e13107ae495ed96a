"""Explain on one line why DuckDB rejects SQL, with a next step."""

from __future__ import annotations

import duckdb

from firmlake.core.errors import UsageError
from firmlake.core.text import one_line

__all__ = ["explain_rejected"]

_MESSAGE_MAX = 500


def explain_rejected(sql: str, error: duckdb.Error) -> UsageError:
    """Return DuckDB's message with its suggestions, but without the excerpt of the SQL."""
    lines = [line.strip() for line in str(error).partition("\n\nLINE ")[0].splitlines() if line.strip()]
    text = " ".join(f"{line[:-1]}." if line.endswith("!") else line for line in lines).removesuffix(".")
    is_of_list = isinstance(error, duckdb.CatalogException) and "lists." in sql.lower()
    return UsageError(
        f"DuckDB says: {one_line(text, _MESSAGE_MAX)}",
        "`firmlake list show` shows the lists"
        if is_of_list
        else "`DESCRIBE` lists the tables, `DESCRIBE financials` the columns of one",
    )
