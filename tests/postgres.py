"""A PostgreSQL server of its own, from Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_FOUND = max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), default=None)
_NOBODY = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
"""The server refuses to run as root."""


class Postgres:
    """A server on a socket in a folder of its own, where everybody may log in; on a port, only with a password."""

    def __init__(self, home: Path, programs: Path, port: int | None = None) -> None:
        self.home, self._programs, self.port = home, programs, port
        self.url = f"postgresql:///postgres?host={home}&user=postgres"

    def server(self, program: str, *arguments: object) -> None:
        # Not by pipes: the server would keep them open.
        command = [*_NOBODY, str(self._programs / program), "-D", str(self.home / "data"), *map(str, arguments)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)

    def start(self) -> None:
        listen = f"-c listen_addresses=127.0.0.1 -p {self.port}" if self.port else "-c listen_addresses=''"
        options = f"-k {self.home} {listen} -c timezone=UTC"
        self.server("pg_ctl", "-o", options, "-l", self.home / "log", "-w", "start")

    def stop(self) -> None:
        self.server("pg_ctl", "-m", "immediate", "stop")

    def run(self, script: str) -> str:
        """Run a script, and give the lines it prints."""
        flags = [
            "-h",
            str(self.home),
            "-p",
            str(self.port or 5432),
            "-U",
            "postgres",
            "-qAt",
            "-F",
            "|",
            "-v",
            "ON_ERROR_STOP=1",
        ]
        done = subprocess.run(
            [str(self._programs / "psql"), *flags], input=script, text=True, capture_output=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def serve_postgres(port: int | None = None) -> Iterator[Postgres]:
    """Start a server, on a port of loopback if one is given; without Debian's packages the test is skipped."""
    if _FOUND is None:
        pytest.skip("apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="firmlake-pg-") as name:  # pytest's own folders let nobody else in
        if _NOBODY:
            shutil.chown(name, "postgres")
        postgres = Postgres(Path(name), _FOUND.parent, port)
        postgres.server(
            "initdb", "-U", "postgres", "--auth-local=trust", "--auth-host=scram-sha-256", "-E", "UTF8", "--locale=C"
        )
        postgres.start()
        try:
            yield postgres
        finally:
            postgres.stop()
