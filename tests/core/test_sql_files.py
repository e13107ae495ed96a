"""The SQL file beside a module holds the statements that the module executes, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import firmlake
from firmlake.core.sql import read_queries

ROOT = Path(firmlake.__file__).parent
MODULES = sorted(path for path in ROOT.rglob("*.py") if "read_queries(__file__)" in path.read_text("utf-8"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_statement_of_the_file_is_used_and_every_used_one_is_there(module):
    code, statements = module.read_text("utf-8"), read_queries(str(module))
    assert statements.keys() >= set(re.findall(r"""_SQL\[["'](\w+)["']\]""", code))
    package = "".join(path.read_text("utf-8") for path in module.parent.glob("*.py"))  # some name what another executes
    made = tuple(re.findall(r"""f["'](\w+_of_)\{""", package))  # the rest of the name is a table's
    named = set(re.findall(r"""["'](\w+)["']""", package))
    assert [name for name in statements if name not in named and not name.startswith(made)] == []
    assert all(text.strip() for text in statements.values())
