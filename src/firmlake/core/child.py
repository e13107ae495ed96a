"""Child processes: without the token, and for files of strangers with limits of time, memory and file size.

A file can make a reader hang, fill memory or crash, and a query can read what the process can read. So both happen in a
process that has only the variables of `_PASSED_ON`, and that the kernel ends at its limits. Its parent, which holds the
token, reads the result from a file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from firmlake.core.errors import CompanyListError

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

    Args:
        module: Its full name.
        content: Its standard input. Other accounts cannot see it, as they could arguments.
        seconds: Longest duration.
        folder: Its folder for temporary files.

    Raises:
        TimeoutError: It took too long, and was ended.
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
    """Let the kernel limit this process.

    Args:
        seconds: Processor time, which also ends a child whose parent was killed.
        memory_bytes: Address space beyond what is in use now; 0 sets no limit.
        file_bytes: Largest file that it may write; 0 sets no limit.
    """
    with suppress(ImportError, ValueError, OSError):  # not every system supports limits
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        if file_bytes:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
        if memory_bytes:
            in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (in_use + memory_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))
