"""The register of forgotten subjects: nothing goes on without it once subjects were forgotten."""

from __future__ import annotations

import pytest

from firmlake.core.company import Company
from firmlake.core.errors import DamagedError
from firmlake.core.settings import PrivacySettings
from firmlake.privacy.tombstones import Subject, add_tombstones, lift, read_register, write_register
from support import ACME, BOLT, NOON


def test_a_register_that_is_gone_is_missed_if_there_are_receipts(folders):
    assert read_register(PrivacySettings(), folders) is None
    receipt = folders.state / "receipts" / "20260105T120000Z.json"
    receipt.parent.mkdir(parents=True)
    receipt.write_text("{}")
    with pytest.raises(DamagedError, match=f"{folders.tombstones} is missing"):
        read_register(PrivacySettings(), folders)


@pytest.mark.parametrize(
    ("named", "left"),
    [
        (Subject("person", "PEETERS, Jan"), 4),  # spelled in another way
        (Subject("person", "Jan Peeters", ACME), 4),
        (Subject("person", "Jan Peeters", BOLT), 5),  # forgotten elsewhere, not about this company
        (Subject("contact", "4711"), 4),
        (Subject("contact", "4712"), 5),
        (Subject("company", "", ACME), 4),
        (Subject("company", "", BOLT), 5),
    ],
    ids=str,
)
def test_lifting_takes_the_tombstone_of_this_subject_and_no_other(folders, named, left):
    subjects = [
        Subject("person", "Jan Peeters"),
        Subject("person", "Jan Peeters", ACME),
        Subject("person", "Jozefien Peeters"),
        Subject("contact", "4711"),
        Subject("company", "", Company(*ACME)),
    ]
    register, _ = add_tombstones(PrivacySettings(), folders, subjects, NOON)
    write_register(folders, register)
    assert lift(PrivacySettings(), folders, named) is (left == 4)
    held = read_register(PrivacySettings(), folders)
    assert held
    assert len(held[0].tombstones) == left
