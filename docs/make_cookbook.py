"""Make the answers in cookbook.md anew: each query is asked of the sample world and its answer written below it.

firmlake demo && python docs/make_cookbook.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

COOKBOOK = Path(__file__).with_name("cookbook.md")
_QUERY = re.compile(r"```sql\n(.*?)```\n(?:\n\|[^\n]*(?:\n\|[^\n]*)*\n|\nNo rows\.\n)?", re.S)


def answer_all(text: str, ask: Callable[[str], tuple[list[str], list[tuple[Any, ...]]]]) -> str:
    """Write below each query what `ask` gives for it: column names and rows."""
    return _QUERY.sub(lambda found: f"```sql\n{found[1]}```\n\n{_show(*ask(found[1]))}\n", text)


def _show(columns: list[str], rows: list[tuple[Any, ...]]) -> str:
    """Write rows as a Markdown table."""
    if not rows:
        return "No rows."
    lines = [columns, ["---"] * len(columns), *([_text(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(value).replace("|", "\\|").replace("\n", " ")


def _main() -> None:
    path = sys.argv[1] if sys.argv[1:] else "data/sandbox/warehouse/firmlake.duckdb"
    with duckdb.connect(path, read_only=True) as connection:

        def ask(sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
            cursor = connection.execute(sql)
            return [column[0] for column in cursor.description or ()], cursor.fetchall()

        COOKBOOK.write_text(answer_all(COOKBOOK.read_text("utf-8"), ask), "utf-8")


if __name__ == "__main__":
    _main()
