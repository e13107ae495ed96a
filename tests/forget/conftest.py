from __future__ import annotations

from datetime import UTC, datetime

import pytest


@pytest.fixture
def now():
    return lambda: datetime.now(UTC)
