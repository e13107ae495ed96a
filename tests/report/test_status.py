"""The state of a data folder names what is open."""

from __future__ import annotations

import msgspec
import pytest

from firmlake.core.errors import FirmlakeError
from firmlake.core.settings import PrivacySettings
from firmlake.core.work import record_failure
from firmlake.privacy.tombstones import Subject, add_tombstones, write_register
from firmlake.report.status import read_status
from support import ACME, NOON, make_run


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
