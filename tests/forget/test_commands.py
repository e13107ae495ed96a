"""`firmlake forget` says which different names would go, asks before longer ones do, and may be withdrawn."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from firmlake.core.company import Company
from firmlake.core.folders import Folders
from firmlake.privacy.tombstones import Subject, lift
from lake import Lake
from support import ACME, BOLT, party, query, run_of, slow

from .world import NAME, SPELLED, make_weeks, places_of, settings_of, week

JAN, PIET = "Jan Qwertzuiop", "Piet Jan Qwertzuiop"


def publish_names(folders):
    parties = [party(None, name=name) for name in (JAN, "QWERTZUIOP, Jan", PIET, "Somebody else")]
    run_of(folders, 0, {ACME: {"relationships": parties}})


@pytest.fixture
def folders(copy_of) -> Folders:
    return copy_of(publish_names)


def call(folders, *arguments, answer=None):
    return Lake(folders.data.parent).call(*arguments, "--data", str(folders.data), input=answer)


def test_a_dry_run_counts_the_different_names_whatever_their_spelling(folders):
    code, out, _ = call(folders, "forget", "person", JAN, "--dry-run")
    assert (code, "2 different names would go:" in out, JAN in out, PIET in out) == (0, True, True, True)
    assert "QWERTZUIOP" not in out.split("would go")[1]
    assert "1 different name would go" in call(folders, "forget", "person", PIET, "--dry-run")[1]
    names = json.loads(call(folders, "forget", "person", JAN, "--dry-run", "--json")[1])["different_names"]
    assert sorted(names) == [JAN, PIET]
    code, _, said = call(folders, "forget", "person", JAN)
    assert (code, "2 different names would go, beyond repair; nothing was changed" in said) == (2, True)


def test_copies_then_hold_what_was_made_anew_and_no_byte_of_the_name(folders, tmp_path):
    loaded = tmp_path / "loaded.duckdb"
    copies = ("load", f"duckdb:{loaded}", "--table", "relationships"), ("export", str(tmp_path), "--table", "runs")
    for command in (*copies, ("forget", "person", JAN, "--yes")):
        assert call(folders, *command).code == 0
    assert b"qwertzuiop" not in loaded.read_bytes().lower()
    assert [call(folders, *copy).err.partition(":")[0] for copy in copies] == ["Already there"] * 2


@pytest.mark.parametrize(
    "steps",
    [
        [
            ((JAN,), None, 2, "2 different names would go, beyond repair; nothing was changed"),  # without a terminal
            ((JAN,), "n\n", 2, f"  {PIET}\n"),
            ((JAN,), "y\n", 0, f"  {PIET}\n"),
        ],
        [((PIET,), None, 0, "")],  # the name in full
        *slow([((JAN, "--yes"), None, 0, "")]),
    ],
)
@pytest.mark.slow
def test_longer_names_go_only_if_somebody_agrees(folders, tmp_path, monkeypatch, steps):
    log = tmp_path / "log"
    for arguments, typed, code, said in steps:
        monkeypatch.setattr("firmlake.cli.forget.can_ask", lambda typed=typed: typed is not None)
        ended, _, told = call(folders, "forget", "person", *arguments, "--log", str(log), answer=typed)
        assert ended == code
        assert said in told
        assert (bool(places_of(folders.data, arguments[0])), folders.tombstones.exists()) == (bool(code), not code)
        if typed is None:
            assert "Qwertzuiop" not in told + log.read_text()
            assert ("--dry-run" in told and "--yes" in told) == bool(code)


@pytest.mark.slow
def test_a_proof_that_fails_says_what_helps_for_each_file(folders, built):
    assert call(folders, "forget", "person", JAN, "--yes").code == 0
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
    assert "then `firmlake prune --generations 1" in call(folders, "verify", "--forgotten")[2]
    for command in (("replay",), ("prune", "--generations", "1"), ("verify", "--forgotten")):
        assert call(folders, *command)[0] == 0
    backup = Folders(built(publish_names))
    [older] = backup.warehouse.glob("gen_*")
    restored = Path(shutil.copy(older, folders.warehouse))
    assert call(folders, "forget")[0] == 0
    assert not restored.exists()
    shutil.copytree(backup.landed, folders.landed, dirs_exist_ok=True)
    said = call(folders, "verify", "--forgotten")[2]
    assert "`firmlake forget" in said
    assert "cleans these files" in said


@pytest.mark.slow
def test_after_a_withdrawal_later_answers_keep_the_name_and_what_was_erased_stays_so(copy_of):
    folders = copy_of(make_weeks, 1)
    subject = ("forget", "person", NAME)
    assert call(folders, *subject)[0] == 0
    assert "Withdrawn: 1 of 1 subject" in call(folders, *subject, "--withdraw")[1]
    code, _, said = call(folders, *subject, "--withdraw")
    assert (code, "Not withdrawn: 1 subject" in said) == (1, True)
    assert (call(folders, "verify")[0], call(folders, "replay")[0]) == (0, 0)
    assert places_of(folders.data, *SPELLED) == set()
    week(folders, 4)
    assert query(folders, f"SELECT count(*) FROM relationships WHERE related_name = '{NAME}'") == [(2,)]


def test_a_file_names_a_subject_on_each_line(tmp_path):
    folders, path = Folders(tmp_path / "new"), tmp_path / "subjects.csv"
    acme = Company("BE", "0403227515")
    lines = {
        "person;Jan Peeters": Subject("person", "Jan Peeters"),
        'person,"Peeters, An",BE,0403.227.515': Subject("person", "Peeters, An", acme),
        "": None,
        "contact\t4711": Subject("contact", "4711"),
        "company;BE;0403.227.515": Subject("company", "", acme),
        "company;NL 24202194": Subject("company", "", BOLT),
    }
    path.write_text("\n".join(lines))
    folders.data.mkdir()
    assert call(folders, "forget", "--from", str(path))[0] == 0
    assert all(lift(settings_of(folders).privacy, folders, subject) for subject in lines.values() if subject)
    assert (
        call(folders, "forget", "contact", "1").code,
        call(folders, "forget", "contact", "1", "--withdraw").code,
    ) == (0, 0)
    assert call(folders, "forget", "contact", "1", "--withdraw").code == 1, "it is forgotten no longer"
    path.write_text("contact;1\nperson;")
    assert "subjects.csv, line 2: This is not a person" in call(folders, "forget", "--from", str(path)).err
