"""One allowance for all threads, processes and restarts, in simulated time against several kinds of service."""

import math
import os
import random
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from firmlake.api.exchange import Answer
from firmlake.api.requests import Request
from firmlake.api.throttle.stores import FileStore
from firmlake.api.throttle.throttle import Throttle, open_throttle
from firmlake.core.errors import SettingsError
from firmlake.core.settings import ApiSettings

from .simulation import SlidingCounter, SlidingWindow, TokenBucket, VirtualTime

LIMIT = 200
REQUEST = Request("lookalikes", "POST", "/v1/companies/lookalikes")


class Simulation:
    """Threads that send as fast as they may, each with a throttle of its own on one file, as processes have."""

    def __init__(self, file, service, *, way=(0.005, 0.4), back=(0.02, 0.6), headers=None):
        self.time, self.service, self.file = VirtualTime(), service, file
        self.way, self.back, self.headers = way, back, headers or silent
        self.random = random.Random(7)
        self.arrivals: list[tuple[float, bool]] = []

    def run(self, minutes, threads=6):
        end = self.time.now + 60 * minutes
        errors = self.time.run(*[lambda: self._work(end)] * threads)
        assert errors == [None] * threads
        return self

    def _work(self, end):
        throttle = Throttle(FileStore(self.file, self.time.clock_ns), LIMIT)
        while True:
            grant = throttle.acquire(self.time.sleep)
            if self.time.now >= end:
                return
            self.time.sleep(self.random.uniform(*self.way))
            is_allowed = self.service.allows(self.time.now)
            self.arrivals.append((self.time.now, is_allowed))
            headers = {} if is_allowed else self.headers(self.service, self.time.now)
            self.time.sleep(self.random.uniform(*self.back))
            status = 200 if is_allowed else 429
            answer = Answer(REQUEST, 1, status, "", headers, b"", self.time.utc(), 0.1, 0)
            throttle.observe(grant, answer, is_pause=not is_allowed)

    @property
    def refused_share(self):
        return sum(not is_allowed for _, is_allowed in self.arrivals) / len(self.arrivals)

    @property
    def busiest_minute(self):
        times, begin, most = sorted(at for at, _ in self.arrivals), 0, 0
        for end, at in enumerate(times):
            while times[begin] <= at - 60:
                begin += 1
            most = max(most, end - begin + 1)
        return most


def retry_after(service, now):
    return {"retry-after": str(math.ceil(service.reset_seconds(now)))}


def silent(service, now):
    return {}


@pytest.mark.parametrize(
    ("service", "headers", "share_max"),
    [
        pytest.param(SlidingWindow, silent, 0, id="sliding window"),
        pytest.param(SlidingCounter, silent, 0.005, id="sliding counter"),
        pytest.param(lambda: TokenBucket(LIMIT, 10), retry_after, 0.005, id="token bucket, bursts of 10"),
    ],
)
@pytest.mark.slow
def test_ten_minutes_use_the_allowance_and_are_hardly_ever_refused(tmp_path, service, headers, share_max):
    simulation = Simulation(tmp_path / "key", service(), headers=headers).run(minutes=10)
    assert simulation.busiest_minute <= LIMIT
    assert simulation.refused_share <= share_max
    assert sum(is_allowed for _, is_allowed in simulation.arrivals) >= 0.98 * LIMIT * 10


def test_a_restart_goes_on_where_the_last_run_was_killed(tmp_path):
    """Requests under way are never reported back, and the new process knows of them all the same."""
    simulation = Simulation(tmp_path / "key", SlidingWindow()).run(minutes=0.4)
    killed = Throttle(FileStore(tmp_path / "key", simulation.time.clock_ns), LIMIT)
    pending = [killed.acquire(simulation.time.sleep) for _ in range(4)]
    simulation.arrivals += [(simulation.time.now, simulation.service.allows(simulation.time.now)) for _ in pending]
    simulation.run(minutes=3)
    assert simulation.busiest_minute <= LIMIT
    assert simulation.refused_share == 0


@pytest.mark.parametrize("status", [429, 403])
def test_a_refusal_stops_the_other_processes_too(tmp_path, status):
    time = VirtualTime()
    one, other = (Throttle(FileStore(tmp_path / "key", time.clock_ns), LIMIT) for _ in range(2))
    grant = one.acquire(time.sleep)
    one.observe(grant, Answer(REQUEST, 1, status, "", {"retry-after": "30"}, b"", time.utc(), 0.1, 0), is_pause=True)
    before = time.now
    other.acquire(time.sleep)
    assert time.now - before == pytest.approx(30)


def test_a_pause_is_never_longer_than_the_settings_allow(tmp_path):
    """The client ends the run instead, and the next run may find out whether the service thinks better of it."""
    time = VirtualTime()
    throttle = Throttle(FileStore(tmp_path / "key", time.clock_ns), LIMIT, pause_max_seconds=120)
    grant = throttle.acquire(time.sleep)
    answer = Answer(REQUEST, 1, 429, "", {"retry-after": "7200"}, b"", time.utc(), 0.1, 0)
    throttle.observe(grant, answer, is_pause=True)
    before = time.now
    throttle.acquire(time.sleep)
    assert time.now - before == pytest.approx(120)


@pytest.mark.parametrize(
    "headers",
    [
        {"ratelimit-limit": "100", "ratelimit-remaining": "50", "ratelimit-reset": "60"},
        {"ratelimit": '"default";r=50;t=60', "ratelimit-policy": '"default";q=100;w=60'},
        {"x-ratelimit-limit": "100", "x-ratelimit-remaining": "50"},
    ],
)
def test_a_lower_limit_in_the_headers_is_adopted(tmp_path, headers):
    time = VirtualTime()
    throttle = Throttle(FileStore(tmp_path / "key", time.clock_ns), LIMIT)
    before = time.now
    for _ in range(101):
        grant = throttle.acquire(time.sleep)
        throttle.observe(grant, Answer(REQUEST, 1, 200, "", headers, b"", time.utc(), 0.1, 0))
    assert time.now - before >= 60


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data + data, lambda data: b"x"])
def test_a_damaged_file_is_begun_anew_as_if_the_allowance_were_used_up(tmp_path, caplog, damage):
    time = VirtualTime()
    throttle = Throttle(FileStore(tmp_path / "key", time.clock_ns), 3)
    throttle.acquire(time.sleep)
    (tmp_path / "key").write_bytes(damage((tmp_path / "key").read_bytes()))
    before = time.now
    throttle.acquire(time.sleep)
    assert 60 <= time.now - before <= 61
    assert "is damaged" in caplog.text


def test_a_file_or_folder_removed_by_a_cleaner_is_made_again(tmp_path):
    time, folder = VirtualTime(), tmp_path / "folder"
    throttle = Throttle(FileStore(folder / "key", time.clock_ns), 2)
    throttle.acquire(time.sleep)
    (folder / "key").unlink()
    folder.rmdir()
    throttle.acquire(time.sleep)
    assert (folder / "key").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("seconds", [-900, 900])
def test_a_clock_that_goes_back_forgets_nothing_and_costs_no_more_than_a_minute(tmp_path, seconds):
    """As at a restart of the machine, or when the clock of a database server is set back."""
    time = VirtualTime()
    throttle = Throttle(FileStore(tmp_path / "key", time.clock_ns), 2)
    for _ in range(2):
        throttle.acquire(time.sleep)
    time.now += seconds
    before = time.now
    throttle.acquire(time.sleep)
    assert time.now - before == (pytest.approx(61.1, abs=0.01) if seconds < 0 else 0)


def test_files_of_keys_that_are_not_used_any_more_go_after_a_day(tmp_path):
    for name, age in (("old", 90_000), ("young", 80_000)):
        file = tmp_path / f"{name}.throttle"
        file.touch()
        os.utime(file, (file.stat().st_atime, file.stat().st_mtime - age))
    open_throttle(ApiSettings(), "key", tmp_path).acquire(_refuse_to_wait)
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["key", "young"]


TAKE_ALL = """
import sys
from pathlib import Path
from firmlake.api.throttle.throttle import Throttle
from firmlake.api.throttle.stores import FileStore, boot_clock

throttle, taken = Throttle(FileStore(Path(sys.argv[1]), boot_clock), int(sys.argv[2])), 0
while True:
    throttle.acquire(lambda seconds: sys.exit(print(taken)))
    taken += 1
"""


@pytest.mark.slow
def test_four_processes_share_the_allowance(tmp_path):
    """Each takes what it gets without waiting; together they get the limit, in any order of steps."""
    command = [sys.executable, "-c", TAKE_ALL, str(tmp_path / "key"), "2000"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert sum(int(process.communicate(timeout=60)[0]) for process in processes) == 2000


class _MustWaitError(Exception):
    pass


def _refuse_to_wait(seconds):
    raise _MustWaitError


def test_no_limit_means_no_file_and_no_waiting(tmp_path):
    throttle = open_throttle(ApiSettings(requests_per_minute=0), "key", tmp_path / "folder")
    for _ in range(1000):
        throttle.acquire(_refuse_to_wait)
    assert not (tmp_path / "folder").exists()


def test_the_state_of_a_user_is_private(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    open_throttle(ApiSettings(), "key").acquire(_refuse_to_wait)
    assert [path.name for path in tmp_path.glob("*/*")] == ["key.throttle"]
    folder = tmp_path / f"firmlake-{os.getuid()}"
    folder.chmod(0o777)
    with pytest.raises(SettingsError, match="not a folder that only you can write to"):
        open_throttle(ApiSettings(), "key")


def test_a_place_laid_by_somebody_else_is_not_used(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match="not a folder that only you can write to"):
        open_throttle(ApiSettings(), "key", tmp_path / "link")
    (tmp_path / "folder").mkdir(mode=0o700)
    (tmp_path / "folder" / "key.throttle").symlink_to(tmp_path / "precious")
    with pytest.raises(SettingsError, match=r"key\.throttle"):
        open_throttle(ApiSettings(), "key", tmp_path / "folder").acquire(_refuse_to_wait)
    with pytest.raises(SettingsError, match="TMPDIR"):
        open_throttle(ApiSettings(), "key", tmp_path / "missing" / "folder")


def test_who_waits_is_told_why_and_until_when(tmp_path):
    """Another run has used up the allowance; after a refusal requests go one by one."""
    told, waited = [], []

    def stop(seconds):
        waited.append(seconds)
        raise _MustWaitError

    noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
    store = FileStore(tmp_path / "key.throttle", lambda: 10**12)
    other = Throttle(store, 5)
    grants = [other.acquire(_refuse_to_wait) for _ in range(3)]
    mine = Throttle(store, 5, utc_now=lambda: noon)
    for _ in range(2):
        mine.acquire(_refuse_to_wait)
    with pytest.raises(_MustWaitError):
        mine.acquire(stop, told.append)
    assert told == [
        "waiting for the allowance: 5 requests were sent with this key in the last minute; the next request is sent at "
        "12:01:01 UTC"
    ]
    request = Request("financials", "POST", "/v1/companies/financials")
    other.observe(grants[0], Answer(request, 1, 429, "", {"retry-after": "30"}, b"", noon, 0.1, 0), is_pause=True)
    with pytest.raises(_MustWaitError):
        mine.acquire(stop, told.append)
    assert told[1].startswith(
        "waiting because the service refuses further requests for now; the next request is sent at 12:0"
    )
