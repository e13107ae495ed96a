"""Databases that were loaded follow a forget at once; one that cannot be reached is named, and cleaned by the next."""

from __future__ import annotations

import json
import re
import shlex

import duckdb
import pytest
from click.testing import CliRunner

from firmlake.cli import firmlake
from firmlake.core.errors import UsageError
from firmlake.delivery.deliver import Request, deliver
from firmlake.forget.forget import forget
from firmlake.privacy.tombstones import Subject
from firmlake.warehouse.exported import drop_copy
from postgres import serve_postgres
from support import BOLT, DAY

from .everything import places_of
from .support import NAME, SPELLED, make_weeks, now, settings_of

SUBJECTS = [Subject("person", NAME), Subject("company", "", BOLT)]


@pytest.fixture
def loaded(copy_of, tmp_path):
    folders = copy_of(make_weeks, 1)
    target = tmp_path / "target.duckdb"
    with duckdb.connect(target) as connection:  # so that a search of the bytes finds what is there
        connection.execute("CREATE SCHEMA ours; CREATE TABLE ours.t AS SELECT 1 AS a; COMMENT ON TABLE ours.t IS 'x'")
        connection.execute("CREATE VIEW ours.v AS FROM ours.t")
    deliver(folders, Request(target=f"duckdb:{target}"), now=lambda: now() - DAY)
    return folders, target


@pytest.mark.slow
def test_a_loaded_database_follows_at_once_and_what_others_made_there_stays(loaded, tmp_path):
    folders, target = loaded
    assert places_of(tmp_path, *SPELLED) >= {"target.duckdb"}
    done = forget(settings_of(folders), SUBJECTS, now)
    assert done.is_complete
    assert "load" in {place.what for place in done.places}
    assert places_of(tmp_path, *SPELLED, BOLT.company_number) == set()
    assert not re.search(rb"(?i)belacker|24202194", target.read_bytes())
    with duckdb.connect(target, read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM firmlake.relationships").fetchone() > (0,)
        assert connection.execute("FROM ours.v").fetchall() == [(1,)]
    assert not deliver(folders, Request(target=f"duckdb:{target}", mode="changes"), now=now).is_new


@pytest.mark.slow
def test_a_database_out_of_reach_is_named_and_the_next_forget_cleans_it(loaded, tmp_path):
    folders, target = loaded
    moved = target.rename(tmp_path / "moved")
    target.write_bytes(b"no database")
    done = forget(settings_of(folders), SUBJECTS, now)
    assert not done.is_complete
    [failed] = [line for line in done.out_of_reach if "was not cleaned" in line]
    assert str(target) in failed
    assert "run `firmlake forget`" in failed
    assert places_of(folders.data, *SPELLED) == set()
    ran = CliRunner().invoke(firmlake, ["forget", "--data", str(folders.data)], standalone_mode=False)
    last = ran.stderr.splitlines()[-1]
    assert (ran.return_value, last.startswith("firmlake: Not cleaned: the database")) == (1, True), (
        "cron mails this line"
    )
    moved.replace(target)
    assert forget(settings_of(folders), [], now).is_complete
    assert places_of(tmp_path, *SPELLED, BOLT.company_number) == set()


@pytest.mark.slow
def test_a_database_file_that_is_missing_is_reported_until_it_is_said_to_be_gone(copy_of, tmp_path):
    """It may only be elsewhere for now, so nothing but the operator ends the search for it."""
    folders = copy_of(make_weeks, 1)
    target = tmp_path / "the target.duckdb"
    deliver(folders, Request(target=f"duckdb:{target}"), now=lambda: now() - DAY)
    target.unlink()
    for subjects in (SUBJECTS, []):
        done = forget(settings_of(folders), subjects, now)
        assert not done.is_complete
        (failed,) = (line for line in done.out_of_reach if "was not cleaned" in line)
        assert f"There is no file {target}" in failed
    assert not target.exists(), "looking for it makes no file"
    (command,) = re.findall("if the copy no longer exists, run `firmlake (.*)`", failed)
    with pytest.raises(UsageError, match="elsewhere") as caught:
        drop_copy(folders, "elsewhere")
    assert shlex.quote(f"duckdb:{target} firmlake") in caught.value.next_step
    where = ["--data", str(folders.data), "--json"]
    ran = CliRunner().invoke(firmlake, [*shlex.split(command), *where], standalone_mode=False)
    assert ran.return_value == 0
    assert f"{target} firmlake: not cleaned and no longer tracked" in ran.stderr
    assert json.loads(ran.stdout)["given_up"] == [f"duckdb:{target} firmlake"]
    assert forget(settings_of(folders), [], now).is_complete


@pytest.mark.slow
def test_a_loaded_server_follows(copy_of):
    import psycopg

    folders = copy_of(make_weeks, 1)
    with serve_postgres() as server:
        deliver(folders, Request(target=server.url), now=now)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("ANALYZE")  # as autovacuum does: the statistics quote values
            connection.execute("CHECKPOINT")
            held = [path for path in (server.home / "data" / "base").rglob("*") if path.is_file()]
            assert any(b"belacker" in path.read_bytes() for path in held)
            done = forget(settings_of(folders), SUBJECTS, now)
            assert done.is_complete
            rows = connection.execute("SELECT related_name, extra_json FROM firmlake.relationships").fetchall()
            assert rows
            assert not re.search("(?i)belacker", str(rows))
            quoted = connection.execute("SELECT * FROM pg_stats WHERE schemaname = 'firmlake'").fetchall()
            assert quoted
            assert not re.search("(?i)belacker", str(quoted))
            connection.execute("CHECKPOINT")
            ((statistics,),) = connection.execute("SELECT pg_relation_filepath('pg_statistic')").fetchall()
        held = [path for path in (server.home / "data" / "base").rglob("*") if path.is_file()]
        assert not [path for path in held if re.search(rb"(?i)belacker", path.read_bytes())]
        held.remove(server.home / "data" / statistics)  # PostgreSQL keeps the statistics of a table that is empty now
        assert not [path for path in held if re.search(rb"24202194", path.read_bytes())]
