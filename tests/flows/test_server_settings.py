"""The settings that are shipped for a Prefect server are settings of Prefect's, and take what they are given."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_prefect_knows_every_setting_and_takes_its_value(prefect_settings, flow_modules, monkeypatch):
    from prefect.settings import Settings

    from temporary_server import server_settings

    shipped = server_settings()
    for name, value in shipped.items():
        monkeypatch.setenv(name, value)
    taken = Settings().to_environment_variables(exclude_unset=True)
    assert shipped.keys() - {"DO_NOT_TRACK"} <= taken.keys()
