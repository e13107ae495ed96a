"""Make llms.txt from the pages: the title and first sentence of each, for assistants that look for the right one.

python docs/make_llms.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LLMS = ROOT / "llms.txt"

_HEAD = """# firmlake

> Give it a list of companies. It returns the list with accounts, growth and owners, and a DuckDB warehouse to query.

Install the wheel; `firmlake demo` needs no key. From Python: `firmlake.enrich(frame)`. Assistants: `firmlake mcp`.
The meaning of every table, view and column is in the data dictionary; `firmlake query` is read-only and costs nothing.
`firmlake run`, `redrive`, `company` and `check` spend credits: `firmlake plan LIST` states how many.
"""


def make_llms() -> str:
    """Return the text: README first, then each page."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CHANGELOG.md"]
    return "\n".join([_HEAD, "## Docs", "", *map(_line, pages)]) + "\n"


def _line(page: Path) -> str:
    lines = page.read_text("utf-8").splitlines()
    title = lines[0].removeprefix("# ")
    return f"- [{title}]({page.relative_to(ROOT)}): {_first_sentence(lines[1:])}"


def _first_sentence(lines: list[str]) -> str:
    text = " ".join(next(_paragraphs(lines), []))
    text = re.sub(r"\[([^]]+)\]\([^)]+\)|\*\*", lambda found: found[1] or "", text)
    return re.split(r"(?<=[.:])\s", text, maxsplit=1)[0]


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Yield the paragraphs of running text, without headings, tables and code."""
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line.strip() and not line.startswith(("#", "|", "    ", "```", "!", "-", "<")):
            paragraph.append(line.strip())
        elif paragraph:
            yield paragraph
            paragraph = []


if __name__ == "__main__":
    LLMS.write_text(make_llms(), "utf-8")
