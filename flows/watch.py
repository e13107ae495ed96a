"""Report a deployed run whose process was ended from outside, such as by a worker that stops, at once.

    python watch.py FLOW_RUN_ID     started by job.py, in a session of its own

Standard input is a pipe from the process of the run. The kernel closes it when that process ends, however it ends. A
process that ends by itself has reported its state before and says so through the pipe.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from time import sleep
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

ENDED = (
    "The process of this run was ended from outside: its worker was stopped or restarted, or memory ran out. What was "
    "fetched is kept. Start the run again; otherwise its next run resumes"
)
_CANCELLED = "Cancelled, and its process has ended. What was fetched is kept; the next run resumes"
_OPEN = ("RUNNING", "PENDING", "PAUSED", "CANCELLING")
"""States that need a process. A run that was suspended or waits for a retry has ended its process by itself."""

_TRIES = 12
_WAIT_SECONDS = 5.0


def report_end(client: SyncPrefectClient, run_id: UUID, wait: Callable[[float], object] = sleep) -> None:
    """Give the run its last state, unless somebody else has given it one.

    It waits before it tries again: the server may be restarting together with the worker, and the worker of a run that
    somebody cancelled reports its end itself.
    """
    from prefect.states import Cancelled, Crashed

    for left in reversed(range(_TRIES)):
        try:
            state = client.read_flow_run(run_id).state
            if state is None or state.type.value not in _OPEN:
                return
            if not state.is_cancelling() or not left:
                make, message = (Cancelled, _CANCELLED) if state.is_cancelling() else (Crashed, ENDED)
                client.set_flow_run_state(run_id, make(message=message), force=True)
                return
        except Exception:
            if not left:
                raise
        wait(_WAIT_SECONDS)


def main() -> None:
    """Wait for the end of the run's process, then report it if nobody has."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # systemd sends it to all processes of the worker's unit
    if sys.stdin.buffer.read():
        return
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        report_end(client, UUID(sys.argv[1]))


if __name__ == "__main__":
    main()
