"""`firmlake forget person` says which different names would go, and asks before longer ones do."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

from firmlake.cli import firmlake
from firmlake.core.folders import Folders
from support import ACME, party, run_of

from .everything import places_of

JAN, PIET = "Jan Qwertzuiop", "Piet Jan Qwertzuiop"


def publish_names(folders):
    parties = [party(None, name=name) for name in (JAN, "QWERTZUIOP, Jan", PIET, "Somebody else")]
    run_of(folders, 0, {ACME: {"relationships": parties}})


@pytest.fixture
def folders(copy_of) -> Folders:
    return copy_of(publish_names)


def call(folders, *arguments, answer=None):
    ran = CliRunner().invoke(firmlake, [*arguments, "--data", str(folders.data)], input=answer, standalone_mode=False)
    return ran.return_value, ran.stdout, ran.stderr


def test_a_dry_run_counts_the_different_names_whatever_their_spelling(folders):
    code, out, _ = call(folders, "forget", "person", JAN, "--dry-run")
    assert (code, "2 different names would go:" in out, JAN in out, PIET in out) == (0, True, True, True)
    assert "QWERTZUIOP" not in out.split("would go")[1]
    assert "1 different name would go" in call(folders, "forget", "person", PIET, "--dry-run")[1]
    assert sorted(json.loads(call(folders, "forget", "person", JAN, "--dry-run", "--json")[1])["different_names"]) == [
        JAN,
        PIET,
    ]


def test_without_a_terminal_more_names_are_refused_with_the_command_and_nothing_changes(folders, tmp_path):
    code, _, said = call(folders, "forget", "person", JAN, "--log", str(tmp_path / "log"))
    assert code == 2
    assert "2 different names" in said
    assert "--dry-run" in said
    assert "--yes" in said
    assert places_of(folders.data, "Qwertzuiop")
    assert "Qwertzuiop" not in said + (tmp_path / "log").read_text()
    assert not folders.tombstones.exists()


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 2)])
def test_on_a_terminal_it_asks(folders, monkeypatch, typed, code):
    monkeypatch.setattr("firmlake.cli.forget.can_ask", lambda: True)
    ended, _, said = call(folders, "forget", "person", JAN, answer=typed)
    assert ended == code
    assert f"  {PIET}\n" in said
    assert bool(places_of(folders.data, "Qwertzuiop")) == bool(code)


@pytest.mark.parametrize("arguments", [(JAN, "--yes"), (PIET,)])
def test_yes_or_a_name_in_full_needs_no_question(folders, arguments):
    assert call(folders, "forget", "person", *arguments)[0] == 0
    assert places_of(folders.data, arguments[0]) == set()


def test_a_proof_that_fails_says_what_helps_for_each_file(folders, built):
    call(folders, "forget", "person", JAN, "--yes")
    assert call(folders, "verify", "--forgotten")[0] == 0
    note = folders.data / "note.txt"
    note.write_text(f"ask {JAN}")
    code, _, said = call(folders, "verify", "--forgotten")
    assert code == 1
    assert f"firmlake did not write {note}: remove the name there, or the file" in said
    assert "`firmlake forget" not in said
    note.unlink()
    [generation] = folders.warehouse.glob("gen_*")
    generation.chmod(0o600)
    generation.write_bytes(generation.read_bytes() + f" {JAN} ".encode() * 3)
    _, _, said = call(folders, "verify", "--forgotten")
    assert "then `firmlake prune --generations 1" in said
    assert call(folders, "replay")[0] == 0
    assert call(folders, "prune", "--generations", "1")[0] == 0
    assert call(folders, "verify", "--forgotten")[0] == 0
    shutil.copytree(Folders(built(publish_names)).landed, folders.landed, dirs_exist_ok=True)  # restored from a backup
    _, _, said = call(folders, "verify", "--forgotten")
    assert "`firmlake forget" in said
    assert "cleans these files" in said
