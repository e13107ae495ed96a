"""Errors of libraries become errors of ours, which say what to do next."""

from __future__ import annotations

import subprocess
import sys

import pytest

from firmlake.core.errors import in_our_words

_INTERRUPTED = """
import signal, duckdb
from firmlake.core.errors import InterruptedRunError, in_our_words
def receive(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, receive)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
while True:
    try:
        with in_our_words():
            duckdb.execute("CREATE OR REPLACE TABLE t AS SELECT range, sqrt(range) AS root FROM range(2_000_000)")
    except KeyboardInterrupt:  # the signal arrived between two statements
        continue
    except InterruptedRunError as error:
        print(error)
        break
"""


def test_a_signal_that_arrives_while_duckdb_works_is_an_interrupt_and_no_bug():
    """DuckDB raises a plain RuntimeError then, which Prefect would log with a hundred lines of traceback."""
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, timeout=60, check=False)
    assert "Interrupted. What was fetched is kept; run again to continue" in done.stdout, done.stderr


def test_any_other_error_stays_what_it_is():
    with pytest.raises(RuntimeError, match="a bug"), in_our_words():
        raise RuntimeError("a bug")
