"""What comes from outside cannot draw on a terminal: one place prints, and it spells out what a terminal would obey."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from firmlake.terminal.echo import echo_data, echo_json
from firmlake.terminal.rows import show_table
from support import slow

ROOT = Path(__file__).parents[1]
EVIL = "\x1b]0;title\x1b\\\x1b[31m\u202egnp.exe\u200f\x9b2J"
"""Sets the title of the window, colours, turns the reading direction, clears the screen."""


PRINTING = ("print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write")


def is_harmless(text: str) -> bool:
    return all(character.isprintable() or character == "\n" for character in text)


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "firmlake", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_list_of_which_every_line_is_refused_cannot_draw_on_stderr(tmp_path):
    lines = ["country,company_number", f"BE,{EVIL}", f"XX{EVIL},1", *(f"BE,0000 {n} is no number" for n in range(30))]
    (tmp_path / "list.csv").write_text("\n".join(lines), "utf-8")
    done = run("plan", "list.csv", "--set", "api.base_url=sandbox", cwd=tmp_path)
    assert done.returncode == 2
    assert is_harmless(done.stdout + done.stderr), done.stderr
    assert "\\x1b]0;title" in done.stderr, "who reads it sees what stands there"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", EVIL],
        ["plan", "x.csv", "--set", f"{EVIL}=1"],
        [EVIL],
        *slow(
            ["run", "x.csv", "--config", EVIL],
            ["export", f"{EVIL}/x"],
            ["query", f"SELECT 1 AS {EVIL}"],
            ["status", "--data", EVIL],
            ["company", "BE", EVIL],
            ["run", f"--{EVIL}"],
            ["changes", "--kind", EVIL],
            ["contacts", "apply", EVIL],
            ["status", "--json", "--data", EVIL],
        ),
    ],
    ids=lambda arguments: " ".join(arguments).replace(EVIL, "EVIL"),
)
def test_an_argument_cannot_draw_on_a_terminal(arguments, tmp_path):
    done = run(*arguments, cwd=tmp_path)
    assert is_harmless(done.stdout + done.stderr), done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_that_holds_a_line_feed_cannot_forge_a_line_of_ours(tmp_path):
    done = run("run", "x\nfirmlake: all is well.csv", cwd=tmp_path)
    assert len(done.stderr.splitlines()) == 1


def test_names_and_columns_of_a_table_are_spelled_out(capsys):
    show_table([EVIL], [[EVIL], ["Café\u00a0de la Gare"]], EVIL)
    shown = capsys.readouterr().out
    assert is_harmless(shown)
    assert "Café de la Gare" in shown


def test_json_says_the_same_and_cannot_draw(capsys):
    echo_json({EVIL: f"{EVIL} \U000e0001 é 会社"})
    shown = capsys.readouterr().out
    assert is_harmless(shown)
    assert "é 会社" in shown
    assert json.loads(shown) == {EVIL: f"{EVIL} \U000e0001 é 会社"}


def test_data_for_a_program_stay_as_they_are_and_a_terminal_gets_them_spelled_out(capsys, monkeypatch):
    echo_data(f"{EVIL}\n")
    assert capsys.readouterr().out == f"{EVIL}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    echo_data(f"{EVIL}\n")
    assert is_harmless(capsys.readouterr().out)


def test_data_whose_lines_end_with_a_carriage_return_are_readable_on_a_terminal(capsys, monkeypatch):
    echo_data("a,b\r\n1,2\r\n")
    assert capsys.readouterr().out == "a,b\r\n1,2\r\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    echo_data("a,b\r\n1,\r2\r\n")
    assert capsys.readouterr().out == "a,b\n1,\\x0d2\n"


def test_one_place_prints():
    """Everything else goes through it; a table of rich's is cleaned where it is filled."""
    allowed = {
        "terminal/echo.py": {"echo", "secho", "stdout.write"},
        "intake/source.py": {"stderr.write"},  # to the process that started it
        "enrich/shards.py": {"stderr.write"},  # a text of our own, just before it ends a process that hangs
    }
    found = []
    for path in sorted((ROOT / "src/firmlake").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                module = str(path.relative_to(ROOT / "src/firmlake"))
                is_ours = name.partition(".")[2] in allowed.get(module, set())
                if (
                    name in ("print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write")
                    and not is_ours
                ):
                    found.append(f"{module}:{node.lineno}")
    assert found == []
