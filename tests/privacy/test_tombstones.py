"""The register of forgotten subjects: nothing goes on without it once subjects were forgotten."""

from __future__ import annotations

import pytest

from firmlake.core.errors import DamagedError
from firmlake.core.settings import PrivacySettings
from firmlake.privacy.tombstones import read_register


def test_a_register_that_is_gone_is_missed_if_there_are_receipts(folders):
    assert read_register(PrivacySettings(), folders) is None
    receipt = folders.state / "receipts" / "20260105T120000Z.json"
    receipt.parent.mkdir(parents=True)
    receipt.write_text("{}")
    with pytest.raises(DamagedError, match=f"{folders.tombstones} is missing"):
        read_register(PrivacySettings(), folders)
