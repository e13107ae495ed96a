"""The examples in docstrings hold; `test_docs` has those of the package itself."""

import doctest
import importlib
from pathlib import Path

import pytest

import firmlake

SOURCE = Path(firmlake.__file__).parents[1]
MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>> " in path.read_text("utf-8") and path.stem[0] != "_"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_examples_hold(path):
    module = importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    assert doctest.testmod(module).failed == 0
