"""The examples in docstrings hold."""

import doctest
import importlib
import pkgutil

import pytest

import firmlake.intake

MODULES = [module.name for module in pkgutil.iter_modules(firmlake.intake.__path__, "firmlake.intake.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
