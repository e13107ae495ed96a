"""Collecting rarely ends with the last who wanted it, whatever the order."""

from __future__ import annotations

import gc

import pytest

from firmlake.memory import collecting_rarely


def test_the_usual_thresholds_come_back_with_the_last():
    usual = gc.get_threshold()
    one, other = collecting_rarely(), collecting_rarely()
    one.__enter__()
    rare = gc.get_threshold()
    assert rare > usual
    other.__enter__()
    one.__exit__(None, None, None)
    assert gc.get_threshold() == rare
    other.__exit__(None, None, None)
    assert gc.get_threshold() == usual


def test_an_error_brings_them_back_too():
    usual = gc.get_threshold()
    with pytest.raises(ValueError, match="x"), collecting_rarely():
        raise ValueError("x")
    assert gc.get_threshold() == usual
