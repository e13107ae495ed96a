"""A data folder, a list, and the command line on them, for tests with another service."""

from __future__ import annotations

import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

import firmlake_sandbox
from firmlake.cli import firmlake
from firmlake.core.folders import Folders
from support import query

COUNT = 30


class Desk:
    """A data folder, a list and the command line on them."""

    def __init__(self, folder, service):
        self.service, self.folders, self.list = service, Folders(folder / "data"), folder / "list.csv"
        self.write(COUNT)
        (folder / "firmlake.toml").touch()
        self.environment = {
            "FIRMLAKE_API__BASE_URL": service.base_url,
            "FIRMLAKE_API_TOKEN": "canary",
            "FIRMLAKE_API__REQUESTS_PER_MINUTE": "0",
            "FIRMLAKE_API__RETRY_WAIT_MAX_SECONDS": "0.01",
            "FIRMLAKE_PATHS__DATA": str(self.folders.data),
            "FIRMLAKE_CONFIG": str(folder / "firmlake.toml"),
            "COLUMNS": "300",
            "NO_COLOR": "1",
        }

    def write(self, count):
        self.write_companies(firmlake_sandbox.sample_numbers(count))

    def write_companies(self, numbers):
        self.list.write_text("country,company_number\n" + "".join(f"{c},{n}\n" for c, n in numbers))

    def call(self, *arguments):
        """Give the exit code, what was printed and what was said."""
        out, err = io.StringIO(), io.StringIO()
        with patch.dict(os.environ, self.environment), redirect_stdout(out), redirect_stderr(err):
            code = firmlake.main([*arguments], standalone_mode=False)
        return code, out.getvalue(), err.getvalue()

    def run(self, *options):
        return self.call("run", str(self.list), *options)

    def statuses(self):
        return set(query(self.folders, "SELECT DISTINCT dataset, status FROM company_state"))

    def status(self):
        return json.loads(self.call("status", "--json")[1])
