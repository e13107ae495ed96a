"""A stand-in for the company-data service, for tests, demonstrations and the development of clients.

It serves all eight endpoints of the service on this machine, from a world that is made up as it is asked. Start it
with `python -m firmlake_sandbox`, or from Python:

    with firmlake_sandbox.start(requests_per_minute=0) as sandbox:
        fetch(sandbox.base_url, sandbox.token)
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from firmlake_sandbox.numbers import sample_numbers

__all__ = ["Sandbox", "sample_numbers", "start"]

_PATIENCE_SECONDS = 10.0


class Sandbox(NamedTuple):
    """A running sandbox, at a `base_url` such as `http://127.0.0.1:40123`."""

    base_url: str
    token: str
    pid: int

    def ledger(self, *, summary: bool = False) -> dict[str, Any]:
        """Return what was asked and charged: `summary`, and unless only that is wanted `charges` and `times`."""
        answer: dict[str, Any] = self.control("GET", f"ledger?summary={int(summary)}")
        return answer

    def advance(self, seconds: float, *, rate_seconds: float | None = None) -> None:
        """Move the clocks on: the calendar by `seconds`, the rate limit's by `rate_seconds` or else as much."""
        self.control("POST", "clock", {"seconds": seconds, "rate_seconds": rate_seconds})

    def set_world(self, **options: object) -> None:
        """Move the world, for example to `week=1` or another `seed`."""
        self.control("POST", "world", options)

    def set_options(self, **options: object) -> None:
        """Change options while it runs; those not named stay. `credits` sets the balance."""
        self.control("POST", "options", options)

    def set_faults(self, rules: list[dict[str, Any]]) -> None:
        """Put these fault rules in place of those there are; an empty list ends all faults."""
        self.control("POST", "faults", rules)

    def reset(self) -> None:
        """Forget all that was asked, paid, added and scripted; options and clocks stay."""
        self.control("POST", "reset", {})

    def control(self, method: str, path: str, body: object = None) -> Any:
        """Call a control endpoint; if it refuses with an HTTPError, the answer says why."""
        import urllib.request  # here, because the service itself does not need it

        request = urllib.request.Request(  # noqa: S310 - http://, as the sandbox said
            f"{self.base_url}/_sandbox/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=_PATIENCE_SECONDS) as answer:
            return json.load(answer)


@contextmanager
def start(token: str = "sandbox", **options: object) -> Iterator[Sandbox]:  # noqa: S107 - guards nothing
    """Start a sandbox in a process of its own that ends with this one, even by kill -9, and end it afterwards.

    Several tokens are separated by commas. Options are those of the command line, with underscores:
    `requests_per_minute=0`, `leading_zero=True`. If it does not start, standard error says why.
    """
    flags: list[str] = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            flags += [f"--{flag}={one}" for one in (value if isinstance(value, tuple | list) else (value,))]
    path = os.pathsep.join(filter(None, (str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-P", "-m", "firmlake_sandbox", "--exit-with-parent", *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "FIRMLAKE_SANDBOX_TOKEN": token, "PYTHONPATH": path},
    )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"The sandbox ended with {process.wait()} before it served")
        try:
            yield Sandbox(json.loads(line)["base_url"], token.split(",")[0], process.pid)
        finally:
            process.terminate()
