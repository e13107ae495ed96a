"""A temporary Prefect server that ends with the process that started it.

Prefect starts such a server itself if none is configured. But it waits only 20 s for it, lets it send statistics, lets
Ctrl-C end it before the flow has reported how it ended, and leaves it running if the flow is killed. This module runs
Prefect's application differently. The server ends when its standard input is closed, which the kernel does however the
starting process ends. It has a session of its own, so signals to the starting process do not reach it. Loopback is open
to every account of the machine, so the server answers only those who know a random string.

    python flows/temporary_server.py < a pipe     prints its address once it serves
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from firmlake.core.process import without_token

if TYPE_CHECKING:
    import uvicorn

_START_SECONDS = 180
"""The first start creates a database: 10 s on a laptop, a minute on a busy machine."""
_STOP_SECONDS = 8
_SETTINGS = Path(__file__).resolve().parents[1] / "config/prefect-server.env"
"""Settings for every server of ours: no telemetry, and batches, so that no record is lost when a server stops."""


def server_settings() -> dict[str, str]:
    """Read what `config/prefect-server.env` sets."""
    lines = _SETTINGS.read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


class TemporaryServer:
    """Prefect's server in a child process. Creating it begins the start; `wait` returns once it serves.

    The log, a file for the output of the server, is replaced. PREFECT_HOME of the environment is the folder of the
    database.
    """

    def __init__(self, log: Path, environment: Mapping[str, str]) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._auth = f"firmlake:{secrets.token_urlsafe(32)}"
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={**server_settings(), **without_token(environment), "PREFECT_SERVER_API_AUTH_STRING": self._auth},
                start_new_session=True,
            )
        self.pid = self._process.pid

    def wait(self) -> dict[str, str]:
        """Wait until the server serves; return the variables of a client, PREFECT_API_URL and PREFECT_API_AUTH_STRING.

        If it did not start (OSError), its log says why.
        """
        assert self._process.stdout
        url = self._process.stdout.readline().decode().strip()
        if not url:
            raise OSError(f"Prefect's temporary server did not start; see {self._log}")
        return {"PREFECT_API_URL": url, "PREFECT_API_AUTH_STRING": self._auth}

    def stop(self) -> None:
        """Stop the server after it has written what it received; takes at most a few seconds."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        try:
            self._process.wait(_STOP_SECONDS + 2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _serve() -> None:
    """Serve until the end of standard input."""
    serving: list[uvicorn.Server] = []
    threading.Thread(target=_end_with_input, args=(serving,), daemon=True).start()
    threading.Thread(target=_end_unless, args=(serving,), daemon=True).start()

    import uvicorn
    from prefect.server.api.server import create_app

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            serving.append(self)
            print(f"http://127.0.0.1:{listener.getsockname()[1]}/api", flush=True)  # noqa: T201 - to who started us

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(ephemeral=True, final=True), log_level="error", timeout_graceful_shutdown=1)
    Server(config).run(sockets=[listener])


def _end_with_input(serving: list[uvicorn.Server]) -> None:
    """Stop the server when its standard input is closed.

    A server that does not serve yet ends at once, which is safe: it creates its database in one transaction.
    """
    while os.read(0, 65_536):
        pass
    if serving:
        serving[0].should_exit = True
        time.sleep(_STOP_SECONDS)
    os._exit(1)


def _end_unless(serving: list[uvicorn.Server]) -> None:
    time.sleep(_START_SECONDS)
    if not serving:
        os._exit(1)


if __name__ == "__main__":
    _serve()
