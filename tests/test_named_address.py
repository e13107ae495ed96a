"""The token goes only to an address that a person named: a settings file in the current folder is read, not trusted."""

from __future__ import annotations

import os
import socket
import sys
from types import SimpleNamespace

import click
import pytest

from firmlake.api.service import check_access
from firmlake.cli import firmlake
from firmlake.core.errors import SettingsError
from firmlake.core.settings_layers import confirm_by, load_settings


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """Stand in a folder whose settings file names a server of a stranger; give the server's socket and the file."""
    for name in [name for name in os.environ if name.startswith("FIRMLAKE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", "canary-tok-ABCDEFGH12345678")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.csv").write_text("BE0403227515\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        file = tmp_path / "config/firmlake.toml"
        file.parent.mkdir()
        file.write_text(f'[api]\nbase_url = "{address}"\n')
        yield SimpleNamespace(socket=server, address=address, file=file)


@pytest.mark.parametrize("command", [["run", "list.csv"], ["company", "BE0403227515"], ["check", "list.csv"]])
def test_a_file_that_was_found_in_the_folder_gets_no_token(command, stranger, capsys):
    assert firmlake.main(command, standalone_mode=False) == 2
    told = capsys.readouterr().err
    assert f"Settings are read from {stranger.file}: api.base_url" in told
    assert "FIRMLAKE_API__BASE_URL" in told
    assert "FIRMLAKE_CONFIG=" in told
    with pytest.raises(BlockingIOError):
        stranger.socket.accept()


def test_commands_that_send_nothing_need_no_confirmation(stranger, capsys):
    assert firmlake.main(["plan", "list.csv"], standalone_mode=False) == 0
    assert firmlake.main(["plan", "list.csv", "--set", "api.base_url=sandbox"], standalone_mode=False) == 0
    with pytest.raises(BlockingIOError):
        stranger.socket.accept()


@pytest.mark.parametrize(
    ("file", "flags", "environment"),
    [
        ("config/firmlake.toml", {}, {}),
        (None, {}, {"FIRMLAKE_CONFIG": "config/firmlake.toml"}),
        (None, {}, {"FIRMLAKE_API__BASE_URL": "{}"}),
        (None, {"api.base_url": "{}"}, {}),
        (None, {"api.base_url": "sandbox"}, {}),
    ],
)
def test_an_address_or_a_file_that_somebody_named_gets_it(file, flags, environment, stranger, tmp_path):
    with pytest.raises(SettingsError, match="token is not sent"):
        check_access(load_settings()[0])
    filled = [{key: value.format(stranger.address) for key, value in each.items()} for each in (flags, environment)]
    check_access(load_settings(tmp_path / file if file else None, *filled)[0])


@pytest.mark.parametrize("answer", [True, False])
def test_a_person_at_a_terminal_is_asked_once(answer, stranger, monkeypatch):
    asked = []
    with confirm_by(lambda question: not asked.append(question) and answer):
        if answer:
            check_access(load_settings()[0])
        else:
            with pytest.raises(SettingsError):
                check_access(load_settings()[0])
    assert len(asked) == 1
    assert stranger.address in asked[0]


def test_the_command_line_asks_on_a_terminal_only(stranger, monkeypatch, capsys):
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda question, **_: False)
    assert firmlake.main(["run", "list.csv"], standalone_mode=False) == 2
    with pytest.raises(BlockingIOError):
        stranger.socket.accept()
