from __future__ import annotations

from collections.abc import Callable

import pytest

from firmlake.core.folders import Folders
from firmlake.core.settings import PrivacySettings
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.tombstones import Subject, add_tombstones
from support import NOON


@pytest.fixture
def forget(folders: Folders) -> Callable[..., Forgotten]:
    """Make what knows that these subjects are forgotten; nothing is written but the key."""
    return lambda *subjects: Forgotten(*add_tombstones(PrivacySettings(), folders, subjects, NOON))


def person(name: str, company=None) -> Subject:
    return Subject("person", name, company)
