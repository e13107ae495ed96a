"""One allowance for several machines, in a real PostgreSQL server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from firmlake.api.throttle.stores import open_store
from firmlake.api.throttle.throttle import Throttle
from firmlake.core.errors import SettingsError, ThrottleStoreError
from postgres import serve_postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LIMIT = 200


@pytest.fixture(scope="module")
def server():
    with serve_postgres() as postgres:
        yield postgres


@pytest.fixture
def make(server, request):
    """Make throttles of one key, each as another machine would."""
    made = []

    def make(limit=LIMIT, address=server.url):
        made.append(Throttle(open_store(address, request.node.name), limit))
        return made[-1]

    yield make
    for throttle in made:
        throttle.close()


class _MustWaitError(Exception):
    def __init__(self, seconds):
        self.seconds = seconds


def refuse_to_wait(seconds):
    if seconds:  # the first try again after a lost connection comes at once
        raise _MustWaitError(seconds)


def take_all(throttle):
    count = 0
    while True:
        try:
            throttle.acquire(refuse_to_wait)
        except _MustWaitError:
            return count
        count += 1


def start(code, *arguments):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


TAKE_ALL = """
import sys
from firmlake.api.throttle.throttle import Throttle
from firmlake.api.throttle.stores import open_store

throttle, taken = Throttle(open_store(sys.argv[1], sys.argv[2]), int(sys.argv[3])), 0
def wait(seconds):
    throttle.close()
    sys.exit(print(taken))
while True:
    throttle.acquire(wait)
    taken += 1
"""

STAND_STILL = """
import sys, time
from firmlake.api.throttle.stores import open_store

with open_store(sys.argv[1], sys.argv[2]).hold() as held:
    held.content = b"what it wanted to write"
    print("held", flush=True)
    time.sleep(60)
"""


def test_processes_that_begin_at_once_get_the_limit_together(server):
    """The table is made by whoever comes first, and each takes what it gets without waiting."""
    server.run("DROP TABLE IF EXISTS firmlake_throttle")
    processes = [start(TAKE_ALL, server.url, "begin", 1000) for _ in range(4)]
    assert sum(int(process.communicate(timeout=60)[0]) for process in processes) == 1000


def test_a_lost_connection_is_made_again_at_once(make, server):
    throttle = make()
    throttle.acquire(refuse_to_wait)
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'firmlake'")
    throttle.acquire(refuse_to_wait)
    assert take_all(make()) == LIMIT - 2


def test_a_server_that_is_away_stops_the_run_and_knows_everything_when_it_is_back(make, server):
    throttle, waits = make(), []
    for _ in range(5):
        throttle.acquire(refuse_to_wait)
    server.stop()
    try:
        with pytest.raises(ThrottleStoreError, match=r"PostgreSQL at .+ cannot be used") as error:
            throttle.acquire(waits.append)
    finally:
        server.start()
    assert sum(waits) == 30
    assert error.value.exit_code == 4
    assert take_all(throttle) == LIMIT - 5


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_ends_or_stands_still_with_the_row_lets_go_of_it(end, make, server, request):
    throttle = make()
    throttle.acquire(refuse_to_wait)
    process = start(STAND_STILL, server.url, request.node.name)
    assert process.stdout.readline() == "held\n"
    os.kill(process.pid, end)
    throttle.acquire(refuse_to_wait)
    process.kill()
    process.communicate()
    assert take_all(throttle) == LIMIT - 2


def test_a_login_without_rights_is_told_what_it_lacks(make, server):
    make().acquire(refuse_to_wait)  # makes the table, in whatever order the tests run
    server.run("CREATE ROLE nobody LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with pytest.raises(SettingsError, match="permission denied for table firmlake_throttle"):
        make(address=server.url.replace("user=postgres", "user=nobody")).acquire(refuse_to_wait)


def test_an_account_that_is_refused_stops_the_run(make, server):
    with pytest.raises(ThrottleStoreError, match='role "stranger" does not exist'):
        make(address=server.url.replace("user=postgres", "user=stranger")).acquire(lambda seconds: None)
