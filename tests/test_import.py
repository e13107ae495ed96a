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


def test_a_plan_imports_no_library_that_it_does_not_need(tmp_path):
    """Libraries import pandas unasked where it is installed, which takes as long as all else that a small run does."""
    company_list = tmp_path / "list.csv"
    company_list.write_text("country,number\nBE,0403091220\n")
    arguments = ["plan", str(company_list), "--set", "api.base_url=sandbox", "--data", str(tmp_path / "data")]
    command = [sys.executable, "-X", "importtime", "-m", "firmlake", *arguments]
    planned = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "To fetch: 1 compan" in planned.stdout
    assert not {"pandas", "altair", "prefect", "jinja2"} & {
        line.rpartition("|")[2].strip() for line in planned.stderr.splitlines()
    }
