"""`import firmlake` prepares the environment for libraries that read it once, when they are imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("given", "threads"), [({}, "1"), ({"POLARS_MAX_THREADS": "2"}, "2")])
def test_polars_has_one_thread_unless_the_environment_says_otherwise(given, threads):
    environment = {name: value for name, value in os.environ.items() if name != "POLARS_MAX_THREADS"} | given
    command = [sys.executable, "-c", "import firmlake, polars; print(polars.thread_pool_size())"]
    asked = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert asked.stdout.strip() == threads
