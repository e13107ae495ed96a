"""Children have no secret and stay within their limits; what was freed goes back to the system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from firmlake.core.process import give_back, greater_limit, hidden_token, run_guarded, without_token


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Make a module that a child can run."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(text: str) -> str:
        (tmp_path / "reader_of_a_stranger.py").write_text(text)
        return "reader_of_a_stranger"

    return make


def test_it_inherits_no_secret(module, tmp_path, monkeypatch):
    for name in ("FIRMLAKE_API_TOKEN", "FIRMLAKE_API_TOKEN_FILE", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD"):
        monkeypatch.setenv(name, "planted-secret")
    read = "import sys; sys.stdout.write(open('/proc/self/environ').read())"
    child = run_guarded(module(read), b"", seconds=60, folder=tmp_path)
    assert b"PATH=" in child.stdout
    assert b"planted-secret" not in child.stdout


def test_a_signal_ends_it_with_the_exit_code_that_shells_give(module, tmp_path):
    text = "import signal, sys; from firmlake.core.process import catch_signals, exit_code_of_signal; catch_signals()\n"
    text += "try: signal.raise_signal(signal.SIGTERM)\nexcept KeyboardInterrupt: sys.exit(exit_code_of_signal())"
    assert run_guarded(module(text), b"", seconds=60, folder=tmp_path).returncode == 143


@pytest.mark.parametrize(
    "name", ["FIRMLAKE_API_TOKEN", "FIRMLAKE_API_TOKEN_FILE", "FIRMLAKE_API_TOKEN_BLOCK", "FIRMLAKE_API_TOKEN_X"]
)
def test_processes_of_ours_get_everything_but_the_token(name, monkeypatch):
    assert without_token({name: "planted-secret", "AWS_REGION": "x"}) == {"AWS_REGION": "x"}
    monkeypatch.setenv(name, "planted-secret")
    with hidden_token():
        assert name not in os.environ
    assert os.environ[name] == "planted-secret"


@pytest.mark.slow
def test_it_is_ended_when_it_takes_too_long(module, tmp_path):
    with pytest.raises(TimeoutError):
        run_guarded(module("while True: pass"), b"", seconds=1, folder=tmp_path)


LIMIT = "from firmlake.core.process import limit_process; limit_process(seconds=60, {}); "


@pytest.mark.skipif(os.name != "posix", reason="limits of the kernel")
@pytest.mark.parametrize(
    "text",
    [
        LIMIT.format("memory_bytes=1 << 28") + "x = bytearray(1 << 30)",
        LIMIT.format("file_bytes=1 << 20") + "import sys; open(sys.stdin.read(), 'wb').write(bytes(2 << 20))",
    ],
)
def test_it_is_ended_at_its_limits(module, tmp_path, text):
    written = tmp_path / "written"
    assert run_guarded(module(text), str(written).encode(), seconds=60, folder=tmp_path).returncode
    assert not written.exists() or written.stat().st_size <= 1 << 20


def test_it_runs_no_module_of_the_current_folder(module, tmp_path, monkeypatch):
    name = module("import json; print(json.dumps('ours'))")
    folder = tmp_path / "of_a_stranger"
    folder.mkdir()
    (folder / "json.py").write_text("raise SystemExit('code of a stranger')")
    monkeypatch.chdir(folder)
    assert run_guarded(name, b"", seconds=60, folder=tmp_path).stdout == b'"ours"\n'


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux says how much memory there is in use")
@pytest.mark.slow
def test_what_was_freed_goes_back_to_the_system():
    """One block that stays at the end keeps all before it. A process below 300 MB gives nothing back."""
    blocks = [bytes(4_000) for _ in range(80_000)]
    stays, held = blocks[-1], _pages()
    blocks.clear()
    give_back()
    assert stays
    assert _pages() < held - 10_000


def _pages():
    return int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.parametrize(
    ("limits", "greatest"),
    [(("400MB", "224MB"), "400MB"), (("400MB", "1 GiB"), "1 GiB"), (("400MB", "390MiB"), "390MiB")],
)
def test_limits_are_compared_by_their_size(limits, greatest):
    assert greater_limit(*limits) == greater_limit(*reversed(limits)) == greatest
