"""The state of a data folder names what is open."""

from __future__ import annotations

import msgspec
import pytest

from firmlake.core.settings import PrivacySettings
from firmlake.privacy.tombstones import Subject, add_tombstones, write_register
from firmlake.report.status import read_status
from support import NOON


@pytest.mark.parametrize("is_done", [False, True])
def test_a_forget_that_did_not_end_is_the_next_step(folders, is_done):
    register, _ = add_tombstones(PrivacySettings(), folders, [Subject("person", "Jan Peeters")], NOON)
    done = tuple(msgspec.structs.replace(one, is_done=is_done) for one in register.tombstones)
    write_register(folders, msgspec.structs.replace(register, tombstones=done))
    assert read_status(folders).next_step.startswith("`firmlake forget` finishes") is not is_done
