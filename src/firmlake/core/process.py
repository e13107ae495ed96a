"""This process and its children: signals, limits, memory, and children without the token.

During requests, the first signal lets those in flight finish; any other signal stops the work at once.

A file can make a reader hang, fill memory or crash, and a query can read what the process can read. So both happen in a
child that has only the variables of `_PASSED_ON`, and that the kernel ends at its limits. Its parent, which holds the
token, reads the result from a file.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from firmlake.core.errors import EXIT_SIGINT, CompanyListError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOPPING = b"\nStopping; waiting for the requests in flight (again to stop at once)\n"

_stop = threading.Event()
_is_graceful = threading.Event()
_received: list[int] = []
"""The signals that arrived, in order of arrival."""


def catch_signals() -> None:
    """Make the signals that end a process raise KeyboardInterrupt instead, or set the event of `graceful`.

    A signal that the process was started to ignore stays ignored, for example SIGHUP under nohup.
    """

    def receive(number: int, _frame: object) -> None:
        is_first = not _received
        _received.append(number)
        if not (is_first and _is_graceful.is_set()):
            raise KeyboardInterrupt
        _stop.set()
        with suppress(OSError):  # the terminal may have gone with the signal
            os.write(2, _STOPPING)

    def give_again(lost: sys.UnraisableHookArgs) -> None:
        # Python drops exceptions raised in destructors and weak reference callbacks, so the interrupt is raised again.
        if lost.exc_type is KeyboardInterrupt:
            threading.Timer(0.01, signal.raise_signal, [signal.SIGINT]).start()
        else:
            sys.__unraisablehook__(lost)

    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, receive)
    sys.unraisablehook = give_again


def ignore_signals() -> None:
    """Ignore signals from now on: the work is done, and a late signal must not change the exit code."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def was_interrupted() -> bool:
    """Tell whether a signal arrived."""
    return bool(_received)


def exit_code_of_signal() -> int:
    """Return the exit code of a process ended by a signal: 128 plus the signal's number."""
    return 128 + _received[0] if _received else EXIT_SIGINT


@contextmanager
def graceful() -> Iterator[threading.Event]:
    """Yield an event that the first signal sets, so that requests in flight can finish and no new one is sent.

    Outside this block a signal ends the work at once. That is safe, because files are written atomically.
    """
    _stop.clear()
    _is_graceful.set()
    try:
        yield _stop
    finally:
        _is_graceful.clear()


_REFUSED = 3
"""The exit code of a child that says on standard output, as JSON, why it refuses its order, and the next step."""

TOKEN_VARIABLES = "FIRMLAKE_API_TOKEN"  # noqa: S105 - how the names of variables begin
"""Variables of this name, and those that continue it, hold the token or say where it is."""

_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TZ")
_PYTHON = ("PYTHON", "VIRTUAL_ENV")
_SOURCE = str(Path(__file__).parents[2])


def without_token(environment: Mapping[str, str]) -> dict[str, str]:
    """Copy an environment for a process of ours that needs no token."""
    return {name: value for name, value in environment.items() if not name.startswith(TOKEN_VARIABLES)}


@contextmanager
def hidden_token() -> Iterator[None]:
    """Take the token out of this process's environment, for children that a library starts with all of it."""
    hidden = {name: os.environ.pop(name) for name in os.environ.keys() - without_token(os.environ).keys()}
    try:
        yield
    finally:
        os.environ.update(hidden)


def run_guarded(module: str, content: bytes, *, seconds: float, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a module as a program, and wait for its end. Its first step is to call `limit_process`.

    Other accounts cannot see its standard input, `content`, as they could arguments. Its temporary files are in
    `folder`.

    Raises:
        TimeoutError: It took longer than so many seconds, and was ended.
        CompanyListError: It refuses its order.
    """
    inherited = {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith(_PYTHON)}
    places = os.pathsep.join(filter(None, [_SOURCE, inherited.get("PYTHONPATH")]))
    limited = {"POLARS_MAX_THREADS": "1", "MALLOC_ARENA_MAX": "2", "TMPDIR": str(folder), "PYTHONPATH": places}
    try:
        child = subprocess.run(  # noqa: S603 - this interpreter, our module
            [sys.executable, "-P", "-m", module],
            input=content,
            capture_output=True,
            env={**inherited, **limited},
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError from error
    if child.returncode == _REFUSED:
        raise CompanyListError(*msgspec.json.decode(child.stdout, type=tuple[str, str]))
    if child.returncode == -signal.SIGXCPU:
        raise TimeoutError
    return child


def serve(act: Callable[[bytes], bytes]) -> int:
    """Act on the order on standard input, answer on standard output, and return the exit code."""
    try:
        answer, code = act(sys.stdin.buffer.read()), 0
    except CompanyListError as error:
        answer, code = msgspec.json.encode((error.message, error.next_step)), _REFUSED
    sys.stdout.buffer.write(answer)
    return code


def limit_process(*, seconds: int, memory_bytes: int = 0, file_bytes: int = 0) -> None:
    """Let the kernel limit this process; 0 sets no limit.

    Args:
        seconds: Processor time, which also ends a child whose parent was killed.
        memory_bytes: Address space beyond what is in use now.
        file_bytes: Largest file that it may write.
    """
    with suppress(ImportError, ValueError, OSError):  # not every system supports limits
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        if file_bytes:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
        if memory_bytes and (in_use := _memory_bytes(0)) > 0:
            most = in_use + memory_bytes
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


_RARELY = (500_000, 20, 100)
_ARENA_MAX = -8
"""M_ARENA_MAX of glibc's malloc.h."""
_SMALL = 300 * 10**6
_UNITS = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Run the garbage collector rarely: a shard's records form no cycles.

    With the usual thresholds the collector scans hundreds of thousands of records over and over.
    """
    usual = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def share_arena() -> None:
    """Let all threads allocate from one arena of the C library. Call this before they start.

    By default glibc gives each thread its own, and DuckDB cannot use the 15 to 20 MB that threads have freed there.
    Sharing costs no time, because our threads wait for the interpreter's lock anyway.
    """
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """Return to the system what Arrow and the C library cache. Call this before work with a memory limit of its own.

    A small process caches little, and collecting garbage takes longer than a small load.
    """
    if 0 <= _memory_bytes(1) < _SMALL:
        return
    import pyarrow as pa  # not for each command

    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def _memory_bytes(field: int) -> int:
    """Return the address space (0) or resident memory (1) of this process; -1 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[field]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return -1


def greater_limit(*limits: str) -> str:
    """Return the greatest of some memory limits of DuckDB, such as "512MB"."""
    return max(limits, key=lambda limit: int(limit.rstrip(" MGiB")) * _UNITS[limit.lstrip(" 0123456789")])
