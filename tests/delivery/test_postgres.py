"""What a server refuses because of objects that others made there is told with a next step that mends it."""

from __future__ import annotations

import pytest

from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.delivery.drivers import open_database
from support import ACME

from .test_load import assert_same, deliver


@pytest.mark.slow
def test_a_foreign_key_that_rejects_a_load_is_to_be_dropped(weeks, place_on_server):
    place = place_on_server
    deliver(weeks(0), place)
    place.ask("ALTER TABLE firmlake.companies ADD UNIQUE (country, company_number)")
    place.ask(
        "CREATE TABLE firmlake.ours AS SELECT country, company_number FROM firmlake.companies "
        f"WHERE company_number = '{ACME.company_number}'"
    )
    place.ask(
        "ALTER TABLE firmlake.ours ADD CONSTRAINT theirs FOREIGN KEY (country, company_number) "
        "REFERENCES firmlake.companies (country, company_number)"
    )
    folders = weeks(1)
    with pytest.raises(FirmlakeError, match="theirs") as caught:
        deliver(folders, place)
    assert "resume" not in caught.value.next_step
    place.ask("ALTER TABLE firmlake.ours DROP CONSTRAINT theirs")
    deliver(folders, place)
    assert_same(folders, place)


@pytest.mark.slow
def test_views_on_a_table_that_must_be_made_again_are_to_be_dropped(weeks, place_on_server):
    place = place_on_server
    folders = weeks(0)
    deliver(folders, place)
    place.ask("ALTER TABLE firmlake.financials ALTER COLUMN revenue TYPE double precision")
    place.ask("CREATE VIEW firmlake.ours AS SELECT revenue FROM firmlake.financials")
    with pytest.raises(FirmlakeError, match="depend on it") as caught:
        deliver(folders, place)
    assert "Drop them" in caught.value.next_step
    place.ask("DROP VIEW firmlake.ours")
    deliver(folders, place)
    assert_same(folders, place)


@pytest.mark.parametrize("secret", ["password", "sslpassword"])
def test_an_address_with_a_password_is_refused_and_not_quoted(secret):
    with pytest.raises(UsageError) as caught, open_database(f"postgres://host/name?{secret}=planted", "x", ""):
        pass
    assert "planted" not in str(caught.value)
