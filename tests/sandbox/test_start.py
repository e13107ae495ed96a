"""The process of the sandbox: its one line, its refusals, and that it ends with whoever started it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest

import firmlake_sandbox
from firmlake_sandbox import __main__ as command
from firmlake_sandbox.options import Options
from firmlake_sandbox.service import CONTROLS
from firmlake_sandbox.twists import FAULTS

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(firmlake_sandbox.__file__).parent.parent)}


def is_alive(pid):
    """Whether a process runs; one that has ended and waits to be collected does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def wait_until_gone(pid):
    deadline = time.monotonic() + 5
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        os.sched_yield()


def test_it_prints_one_line_of_json_and_serves():
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "FIRMLAKE_SANDBOX_TOKEN"}
    pipes = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-m", "firmlake_sandbox"], env=environment, **pipes) as process:
        line = json.loads(process.stdout.readline())
        assert line == {"base_url": line["base_url"], "pid": process.pid}
        assert httpx.get(f"{line['base_url']}/v1/lists", headers={"Authorization": "Bearer sandbox"}).status_code == 200
        process.terminate()
        rest, said = process.communicate(timeout=5)
    assert (process.returncode, rest) == (0, "")
    assert said == "FIRMLAKE_SANDBOX_TOKEN is not set: the token is 'sandbox'\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_even_while_it_answers(number):
    with firmlake_sandbox.start(requests_per_minute=0) as sandbox:
        sandbox.set_faults([{"kind": "hang"}])
        address = sandbox.base_url.removeprefix("http://").split(":")
        with socket.create_connection(address) as hanging:
            hanging.sendall(b"GET /v1/lists HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sandbox\r\n\r\n")
            while not sandbox.ledger(summary=True)["summary"]["requests"]:
                os.sched_yield()
            os.kill(sandbox.pid, number)
            wait_until_gone(sandbox.pid)


REFUSED = {
    **{f"--host={host}": host for host in ("0.0.0.0", "192.168.1.1", "::", "8.8.8.8", "example.com")},
    "--host=0.0.0.0": "loopback", "--credits=-5": "credits", "--nonsense": "--nonsense", "--port=99999": "0-65535",
    "--port={port}": "in use",
    "--dialect=nonsense": "'nonsense' is no dialect",
    "--dialect=page-100 --dialect=page-clamped": "exclude each other: both are about largest page",
}  # fmt: skip
"""Options, and what the line that refuses them says."""


@pytest.mark.parametrize("flags", REFUSED)
def test_what_it_cannot_serve_is_refused_with_a_reason_and_exit_code_2(flags, monkeypatch, capsys):
    monkeypatch.setattr(command, "exit_on_signals", lambda: None)
    with command.bind("127.0.0.2", 0) as taken:
        at = f"127.0.0.2 --port={taken.getsockname()[1]}"
        typed = flags.replace("--port={port}", f"--host={at}").split()
        monkeypatch.setattr(sys, "argv", ["sandbox", *typed])
        with pytest.raises(SystemExit) if "--nonsense" in flags else nullcontext() as ended:
            code = command.main()
    out, err = capsys.readouterr()
    assert (ended.value.code if ended else code, out, REFUSED[flags] in err) == (2, "", True), err


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_has_several_names(host):
    with command.bind(host, 0) as listener:
        assert listener.getsockname()[0].startswith("127.")


def test_help_names_every_option_control_and_fault(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sandbox", "--help"])
    with pytest.raises(SystemExit, match="0"):
        command.main()
    out = capsys.readouterr().out
    options = [f"--{name.replace('_', '-')}" for name in Options.__struct_fields__]
    kinds = [str(rule.__struct_config__.tag) for rule in FAULTS]
    for name in [*options, *kinds, *(path for _, path, _ in CONTROLS), "FIRMLAKE_SANDBOX_TOKEN"]:
        assert name in out
    assert out.startswith("usage: firmlake sandbox "), "as its users call it"


PARENT = """
import sys, firmlake_sandbox
with firmlake_sandbox.start() as sandbox:
    print(sandbox.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("meanwhile", ["", "import os; os.fork(); "])
def test_it_ends_when_its_parent_is_killed(meanwhile):
    """Also where a sibling holds its input open, which inherited the pipe: then the kernel's signal ends it."""
    code = PARENT.replace("sys.stdin.read()", f"{meanwhile}sys.stdin.read()")
    with subprocess.Popen(
        [sys.executable, "-c", code], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
        wait_until_gone(pid)


def test_it_outlives_the_thread_that_started_it_and_starts_within_a_second_of_processor_time():
    started = []
    manager = firmlake_sandbox.start("very-secret")
    thread = threading.Thread(target=lambda: started.append(manager.__enter__()))
    thread.start()
    thread.join()
    (sandbox,) = started
    assert sandbox.ledger()["summary"]["requests"] == 0
    ticks = Path(f"/proc/{sandbox.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    assert sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") < 1
    assert "very-secret" not in Path(f"/proc/{sandbox.pid}/cmdline").read_text()
    manager.__exit__(None, None, None)
    assert not is_alive(sandbox.pid)


def test_a_start_that_fails_says_so():
    with pytest.raises(RuntimeError, match="ended with 2"), firmlake_sandbox.start(credits=-1):
        pass


def test_control_says_why_it_refuses(sandbox):
    with pytest.raises(urllib.error.HTTPError) as refused:
        sandbox.set_options(nonsense=1)
    with refused.value as answer:
        assert b"nonsense" in answer.read()
