"""What CONTRIBUTING.md and docs/architecture.md state about the code and ruff has no rule for."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULE_LINES, FUNCTION_LINES, LOOSE_MODULES = 600, 60, 6


def test_modules_have_at_most_600_lines_and_functions_60():
    too_long = []
    for path in (path for folder in ("src", "flows") for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text()
        if text.count("\n") > MODULE_LINES:
            too_long.append(f"{path.relative_to(ROOT)}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                if (lines := node.end_lineno - node.lineno + 1) > FUNCTION_LINES:
                    too_long.append(f"{path.relative_to(ROOT)}: {node.name} has {lines} lines")
    assert not too_long


def test_modules_live_in_packages():
    loose = [path.name for path in (ROOT / "src/firmlake").glob("*.py") if not path.name.startswith("__")]
    assert len(loose) <= LOOSE_MODULES


def test_every_module_that_a_page_names_exists():
    named = {
        f"{page.name}: {name}": name
        for page in (ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"))
        for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page.read_text())
    }
    roots = (ROOT / "src/firmlake", ROOT / "src", ROOT)
    assert not [place for place, name in named.items() if not any((root / name).exists() for root in roots)]


def test_the_architecture_lists_every_package():
    packages = {path.parent.name for path in (ROOT / "src/firmlake").glob("*/__init__.py")}
    page = (ROOT / "docs/architecture.md").read_text().partition("## The packages")[2].partition("## Where")[0]
    assert packages == set(re.findall(r"`([a-z_]+)/`", page))
