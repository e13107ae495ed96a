import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import firmlake_sandbox
from firmlake_sandbox.__main__ import bind
from firmlake_sandbox.options import Options
from firmlake_sandbox.service import CONTROLS
from firmlake_sandbox.twists import FAULTS

SOURCE = Path(firmlake_sandbox.__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE)}
COMMAND = [sys.executable, "-m", "firmlake_sandbox"]


def run(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run to its end, which is soon where it does not serve."""
    return subprocess.run(
        [*COMMAND, *flags], env=ENVIRONMENT | environment, capture_output=True, text=True, timeout=20, check=False
    )


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be collected does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 5
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        os.sched_yield()


def test_it_prints_one_line_of_json_and_serves() -> None:
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "FIRMLAKE_SANDBOX_TOKEN"}
    with subprocess.Popen(
        COMMAND, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        line = json.loads(process.stdout.readline())
        assert line.keys() == {"base_url", "pid"}
        assert line["pid"] == process.pid
        headers = {"Authorization": "Bearer sandbox"}
        with urllib.request.urlopen(urllib.request.Request(line["base_url"] + "/v1/lists", headers=headers)) as answer:
            assert answer.status == 200
        process.terminate()
        began = time.monotonic()
        rest, said = process.communicate(timeout=5)
        assert time.monotonic() - began < 2  # 0.02 s on a machine at rest
        assert process.returncode == 0
        assert rest == ""
        assert said == "FIRMLAKE_SANDBOX_TOKEN is not set: the token is 'sandbox'\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_even_while_it_answers(number: signal.Signals) -> None:
    with firmlake_sandbox.start(requests_per_minute=0) as sandbox:
        sandbox.set_faults([{"kind": "hang"}])
        hanging = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys, urllib.request; urllib.request.urlopen(sys.argv[1])",
                sandbox.base_url + "/v1/lists",
            ],
            stderr=subprocess.DEVNULL,
        )
        os.kill(sandbox.pid, number)
        wait_until_gone(sandbox.pid)
        hanging.wait(timeout=10)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "::", "8.8.8.8", "example.com"])
def test_it_binds_to_loopback_alone(host: str) -> None:
    with pytest.raises(ValueError, match=host):
        bind(host, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost"])
def test_loopback_has_several_names(host: str) -> None:
    with bind(host, 0) as listener:
        assert listener.getsockname()[0].startswith("127.")


def test_another_host_is_refused_with_a_reason() -> None:
    ended = run("--host=0.0.0.0")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "loopback" in ended.stderr


def test_options_out_of_range_are_refused() -> None:
    ended = run("--credits=-5")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "credits" in ended.stderr
    assert run("--nonsense").returncode == 2


def test_a_port_that_is_taken_is_refused() -> None:
    with firmlake_sandbox.start() as sandbox:
        ended = run(f"--port={sandbox.base_url.rpartition(':')[2]}")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "in use" in ended.stderr


def test_help_names_every_option_control_and_fault() -> None:
    ended = run("--help")
    assert ended.returncode == 0
    options = [f"--{name.replace('_', '-')}" for name in Options.__struct_fields__]
    kinds = [str(rule.__struct_config__.tag) for rule in FAULTS]
    controls = [path for _, path, _ in CONTROLS]
    for name in [*options, *kinds, *controls, "FIRMLAKE_SANDBOX_TOKEN"]:
        assert name in ended.stdout


def test_it_starts_within_a_second_of_processor_time() -> None:
    with firmlake_sandbox.start() as sandbox:
        ticks = Path(f"/proc/{sandbox.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        assert sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") < 1


PARENT = """
import sys, firmlake_sandbox
with firmlake_sandbox.start() as sandbox:
    print(sandbox.pid, flush=True)
    sys.stdin.read()
"""


def test_it_ends_when_its_parent_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
        wait_until_gone(pid)


def test_it_ends_when_its_parent_is_killed_though_another_process_holds_its_input() -> None:
    """A sibling that inherited the pipe keeps it open; the kernel's signal ends the sandbox all the same."""
    sibling = PARENT.replace("sys.stdin.read()", "import os; os.fork(); sys.stdin.read()")
    with subprocess.Popen(
        [sys.executable, "-c", sibling], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        parent.kill()
        wait_until_gone(pid)


def test_it_outlives_the_thread_that_started_it() -> None:
    import threading

    started: list[firmlake_sandbox.Sandbox] = []
    manager = firmlake_sandbox.start("secret")
    thread = threading.Thread(target=lambda: started.append(manager.__enter__()))
    thread.start()
    thread.join()
    assert started[0].ledger()["summary"]["requests"] == 0
    manager.__exit__(None, None, None)
    assert not is_alive(started[0].pid)


def test_the_token_is_on_no_command_line() -> None:
    with firmlake_sandbox.start("very-secret") as sandbox:
        assert "very-secret" not in Path(f"/proc/{sandbox.pid}/cmdline").read_text()


def test_a_start_that_fails_says_so() -> None:
    with pytest.raises(RuntimeError, match="ended with 2"), firmlake_sandbox.start(credits=-1):
        pass


def test_control_says_why_it_refuses() -> None:
    with firmlake_sandbox.start() as sandbox:
        with pytest.raises(urllib.error.HTTPError) as refused:
            sandbox.set_options(nonsense=1)
        with refused.value as answer:
            assert b"nonsense" in answer.read()
