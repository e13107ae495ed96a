"""Status and metrics: what runs, what is open, what is parked and why, how old the data is, and what to do next."""

from __future__ import annotations

import re
from types import SimpleNamespace

import msgspec
import pytest

from firmlake.core.errors import FirmlakeError
from firmlake.core.settings import PrivacySettings
from firmlake.core.work import lock, record_failure
from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder
from firmlake.privacy.tombstones import Subject, add_tombstones, write_register
from firmlake.report.status import REDRIVE, ListStatus, choose_next_step, read_status, render_metrics
from firmlake.warehouse.incomplete import Incomplete
from support import ACME, BOLT, CIRC, NOON, answer, export, found, header, land, lookalike, make_run, publish_landed


@pytest.mark.parametrize("is_done", [False, True])
def test_a_forget_that_did_not_end_is_the_next_step(folders, is_done):
    register, _ = add_tombstones(PrivacySettings(), folders, [Subject("person", "Jan Peeters")], NOON)
    done = tuple(msgspec.structs.replace(one, is_done=is_done) for one in register.tombstones)
    write_register(folders, msgspec.structs.replace(register, tombstones=done))
    assert read_status(folders).next_step.startswith("`firmlake forget` finishes") is not is_done


@pytest.mark.parametrize(("exit_code", "is_told"), [(129, False), (130, False), (143, False), (1, True)])
def test_after_an_interruption_status_says_once_to_run_again(folders, exit_code, is_told):
    """What ended the run in another way comes first."""
    make_run(folders, [ACME], ["lookalikes"])
    error = FirmlakeError("It ended", "Look first")
    error.exit_code = exit_code
    record_failure(folders.state, "firmlake run l.csv", error)
    next_step = read_status(folders).next_step
    assert next_step.startswith("Look first. Then: ") is is_told
    assert next_step.endswith("resumes where it stopped")


@pytest.mark.parametrize(
    ("last", "lacking", "step"),
    [
        ("others", (), "For customers: mend it"),
        (REDRIVE, (), "Nothing to do"),
        (REDRIVE, ("Customers",), "For customers"),
    ],
)
def test_what_a_list_left_to_do_is_told_until_a_redrive_has_mended_it(folders, last, lacking, step):
    run = SimpleNamespace(list_name=last, outcome="done", next_step="", is_charged_too_much=False)
    status = msgspec.structs.replace(
        read_status(folders),
        last_run=run,
        lists=[ListStatus("customers", {"next_step": "mend it"}, None, [], 3)],
        incomplete=[Incomplete(name, "lookalikes", "failed", 1, "") for name in lacking],
    )
    assert choose_next_step(status, [], []).startswith(step)


LINE = re.compile(r'(# (TYPE|HELP) firmlake_[a-z_]+ .+|firmlake_[a-z_]+(\{([a-z_]+="[^"\n]*",?)+\})? [-+.e\d]+)')


@pytest.fixture
def status(folders, tmp_path):
    run = make_run(folders, [ACME, BOLT], ["lookalikes"], waiting=[CIRC])
    land(
        run,
        answer("lookalikes", found(ACME, "lookalikes", lookalike()), headers={"x-credits-remaining": "41"}),
        (header("lookalikes", [BOLT], kind="given_up", status=None, error="refused: 422"), b""),
    )
    publish_landed(run, "stopped")
    run.finish("stopped", "out of credits", NOON)
    export(folders, Request(tables=("runs",)), Folder(tmp_path / 'a "b"'), now=lambda: NOON)
    with lock(folders, "a test"):
        return read_status(folders)


def test_status_says_what_is_parked_and_why(status):
    parked = {kind: (reason, count) for kind, reason, count in status.parked}
    assert parked == {"failed": ("refused: 422", 1), "waiting, on no list": ("out of credits", 1)}
    assert status.running.startswith("a test")
    assert status.disk_free_bytes > 0
    assert [each.exported_at for each in status.exports] == [NOON]


def test_metrics_are_well_formed_and_say_the_same(status):
    *lines, last = render_metrics(status).splitlines()
    assert last == "# EOF"
    assert [line for line in lines if not LINE.fullmatch(line.replace('\\"', ""))] == []
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values["firmlake_running"] == "1"
    assert values['firmlake_companies{dataset="lookalikes",status="failed"}'] == "1"
    assert float(values["firmlake_newest_answer_timestamp_seconds"]) == NOON.timestamp()
    assert int(values['firmlake_disk_bytes{folder="warehouse"}']) == status.disk_bytes["warehouse"]
    [exported] = [name for name in values if name.startswith("firmlake_last_export")]
    assert exported.endswith('a \\"b\\""}')


def test_an_empty_folder_has_metrics_too(folders):
    lines = render_metrics(read_status(folders)).splitlines()
    assert "firmlake_running 0" in lines
    assert not [line for line in lines if "answer_timestamp" in line]
