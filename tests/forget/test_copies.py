"""Archives, exports and loaded databases follow a forget at once; one out of reach is named and cleaned later.

No object names anybody then, and each copy is still what its manifest or plan says.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from unittest.mock import Mock

import boto3
import duckdb
import polars as pl
import pytest
from pyiceberg.catalog import load_catalog

from firmlake.core.errors import UsageError
from firmlake.core.files import decompress_frames
from firmlake.core.folders import Folders
from firmlake.delivery.deliver import Request, deliver
from firmlake.delivery.destination import Folder, open_destination
from firmlake.delivery.lakes import LAKES
from firmlake.forget.copies import Copies
from firmlake.forget.forget import forget
from firmlake.forget.proof import prove
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.tombstones import Subject, read_register
from firmlake.rebuild.archive import archive, replay_archive
from firmlake.rebuild.verify import content_hashes
from firmlake.warehouse.exported import drop_copy, known_archives, note_archive
from firmlake.warehouse.generations import open_warehouse
from lake import Lake
from postgres import serve_postgres
from support import BOLT, DAY, export, make_run, publish_landed, query

from .world import NAME, SPELLED, contents, make_weeks, now, places_of, settings_of, week

SUBJECTS = [Subject("person", NAME), Subject("company", "", BOLT)]
GONE = (*SPELLED, BOLT.company_number)


@pytest.fixture
def folders(copy_of) -> Folders:
    return copy_of(make_weeks, 1)


@pytest.fixture
def target(folders, tmp_path):
    """A database that was loaded, and in which others made something of their own."""
    path = tmp_path / "the target.duckdb"
    with duckdb.connect(path) as connection:  # so that a search of the bytes finds what is there
        connection.execute("CREATE SCHEMA ours; CREATE TABLE ours.t AS SELECT 1 AS a; COMMENT ON TABLE ours.t IS 'x'")
        connection.execute("CREATE VIEW ours.v AS FROM ours.t")
    deliver(folders, Request(target=f"duckdb:{path}"), now=lambda: now() - DAY)
    return path


def receipt_of(folders):
    settings = settings_of(folders)
    forgotten = Forgotten(*read_register(settings.privacy, folders))
    return prove(folders, forgotten, now(), Copies(folders, forgotten, settings, now))


@pytest.mark.slow
def test_copies_follow_and_stay_what_they_say(folders, target, tmp_path):
    archive(folders, Folder(tmp_path / "archive"))
    note_archive(folders, str(tmp_path / "archive"))
    for form in ("parquet", "csv"):
        export(folders, Request(format=form), Folder(tmp_path / form))
    copies = {"archive", "parquet", "csv", target.name}
    assert {path.split("/")[0] for path in places_of(tmp_path, *SPELLED)} == {"data", *copies}
    done = forget(settings_of(folders), SUBJECTS, now)
    assert done.is_complete
    assert {place.what for place in done.places} >= {"archive", "export", "load"}
    assert places_of(tmp_path, *GONE) == set()
    assert not re.search(rb"(?i)belacker|24202194", target.read_bytes())
    assert_manifests_hold(tmp_path)
    assert_archive_replays(folders, tmp_path)
    with duckdb.connect(target, read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM firmlake.relationships").fetchone() > (0,)
        assert connection.execute("FROM ours.v").fetchall() == [(1,)]
    assert not deliver(folders, Request(target=f"duckdb:{target}", mode="changes"), now=now).is_new
    assert_receipt_covers(folders, len(copies), tmp_path / "csv")
    whole = json.loads((tmp_path / "csv" / "latest.json").read_text())
    later = make_run(folders, run_id="20260301T120000Z-0009", at=now())
    publish_landed(later, at=now() + DAY, keep=9)
    following = export(folders, Request(format="csv", mode="changes"), Folder(tmp_path / "csv"))
    assert (following.record.mode, following.record.previous) == ("changes", whole["export_id"])


def assert_manifests_hold(folder):
    for latest in folder.glob("*/latest.json"):
        named = json.loads(latest.read_text())
        manifest = latest.parent / named["manifest"]
        assert hashlib.sha256(manifest.read_bytes()).hexdigest() == named["manifest_sha256"]
        for table in json.loads(manifest.read_text())["tables"]:
            for file in table["files"]:
                content = (manifest.parent / file["path"]).read_bytes()
                assert (len(content), hashlib.sha256(content).hexdigest()) == (file["byte_count"], file["sha256"])


def assert_archive_replays(folders, folder):
    other = Folders(folder / "other")
    assert replay_archive(settings_of(other), Folder(folder / "archive"), "a", "a test", now=now).run_count
    with open_warehouse(folders) as one, open_warehouse(other) as two:
        ours, theirs = content_hashes(one), content_hashes(two)
    assert [ours[name] == theirs[name] for name in ("relationships", "financials", "rejects")] == [True] * 3


def assert_receipt_covers(folders, count, exported):
    """A file of an export that names somebody again is found, and the next forget exports anew."""
    receipt, _ = receipt_of(folders)
    assert (len(receipt.copies), receipt.found, receipt.unread) == (count, (), ())
    (exported / "exports" / "more.csv").write_text("x")
    file = next(exported.rglob("relationships*.csv"))
    file.write_text(file.read_text().replace("Somebody", NAME))
    assert {place for place, _, _ in receipt_of(folders)[0].found} == {str(file)}
    assert [place.what for place in forget(settings_of(folders), [], now).places] == ["export"]
    receipt, _ = receipt_of(folders)
    assert (receipt.found, receipt.unread, (exported / "exports" / "more.csv").exists()) == ((), (), False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_tables_with_versions_follow_and_lose_their_past(folders, tmp_path, form, monkeypatch):
    """After a kill between the new version and the end of the old ones, the next forget ends them."""
    out = tmp_path / form
    week(folders, 1)
    export(folders, Request(format=form), Folder(out), now=now)
    week(folders, 2)
    export(folders, Request(format=form, mode="changes"), Folder(out), now=now)
    assert len(places_of(out, *SPELLED)) > 3
    with monkeypatch.context() as patch:
        patch.setattr(LAKES[form], "drop_past", Mock(side_effect=[None, KeyboardInterrupt]))
        with pytest.raises(KeyboardInterrupt):
            forget(settings_of(folders), SUBJECTS, now)
    assert places_of(out, *SPELLED)
    done = forget(settings_of(folders), [], now)
    assert done.is_complete, done.out_of_reach
    assert "export" in {place.what for place in done.places}
    assert places_of(out, *GONE) == set()
    left = sorted(read_versioned(out, form, "relationships").select("country", "company_number", "position").rows())
    assert left == query(folders, "SELECT country, company_number, position FROM relationships ORDER BY ALL")
    week(folders, 3)
    forget(settings_of(folders), [], now)
    again = export(folders, Request(format=form, mode="changes"), Folder(out), now=now)
    assert again.record.mode == "whole"
    assert places_of(out, *GONE) == set()


def read_versioned(out, form, name) -> pl.DataFrame:
    if form == "delta":
        return pl.read_delta(str(out / "delta" / name))
    catalog = load_catalog("firmlake", type="sql", uri=f"sqlite:///{out}/iceberg/catalog.db")
    return pl.DataFrame(pl.from_arrow(catalog.load_table(f"firmlake.{name}").scan().to_arrow()))


@pytest.mark.slow
def test_old_versions_of_objects_go_from_a_bucket(folders, bucket):
    client = boto3.client("s3")
    name, _, prefix = bucket.removeprefix("s3://").partition("/")
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    archive(folders, open_destination(f"{bucket}/archive"))
    note_archive(folders, f"{bucket}/archive")
    export(folders, Request(format="csv"), open_destination(f"{bucket}/export"), now=now)
    for body in (b"1", b"2"):
        client.put_object(Bucket=name, Key="elsewhere", Body=body)
    before = list(versions_of(client, name))
    assert any(b"belacker" in body for _, body in before)
    done = forget(settings_of(folders), SUBJECTS, now)
    assert done.is_complete, done.out_of_reach
    after = list(versions_of(client, name))
    assert not [key for key, body in after if b"belacker" in body.lower() or BOLT.company_number.encode() in body]
    below = [key for key, _ in after if key.startswith(prefix)]
    assert len(below) == len(set(below))
    assert {key for key in before if key[0] == "elsewhere"} == {key for key in after if key[0] == "elsewhere"}


def versions_of(client, bucket):
    """Every version of every object, and its unpacked content."""
    page = client.list_object_versions(Bucket=bucket)
    assert not page["IsTruncated"]
    for each in page["Versions"]:
        held = client.get_object(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])["Body"].read()
        yield each["Key"], decompress_frames(held) if each["Key"].endswith(".zst") else held


@pytest.mark.slow
def test_exports_of_an_earlier_run_alone_are_removed_once_they_name_somebody(folders, tmp_path):
    (run,) = query(folders, "SELECT run_id FROM loads ORDER BY generation LIMIT 1")[0]
    export(folders, Request(format="csv", mode="as_of", as_of=run), Folder(tmp_path / "past"), now=now)
    forget(settings_of(folders), [Subject("person", "Somebody Else")], now)
    assert places_of(tmp_path / "past", *SPELLED)
    done = forget(settings_of(folders), SUBJECTS[:1], now)
    assert done.is_complete
    assert "export" in {place.what for place in done.places}
    assert places_of(tmp_path / "past", *SPELLED) == set()
    assert receipt_of(folders)[0].copies == ()


@pytest.mark.slow
def test_an_export_whose_address_names_the_person_is_cleaned_and_its_record_still_leads_there(folders, tmp_path):
    out = tmp_path / f"for {NAME}"
    export(folders, Request(format="csv", tables=("relationships", "companies")), Folder(out))
    done = forget(settings_of(folders), SUBJECTS[:1], now)
    assert done.is_complete
    assert places_of(out, *SPELLED) == set()
    assert any("names a forgotten subject" in each for each in done.out_of_reach)
    receipt, path = receipt_of(folders)
    ((place, what, _),) = receipt.found
    assert (place.rpartition("/state/")[2].partition("/")[0], what) == ("exports", "address")
    assert receipt.copies == (f"the export in {tmp_path}/for [forgotten]",)
    assert NAME not in path.read_text()
    assert [json.loads(content)["content"]["target"] for _, content in contents(folders.state / "exports")
            if content.startswith(b"{")] == [str(out)]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["no database", None])
def test_a_database_out_of_reach_is_named_until_it_is_cleaned_or_said_to_be_gone(folders, target, tmp_path, damage):
    """It may only be elsewhere for now, so nothing but the operator ends the search for it."""
    moved = target.rename(tmp_path / "moved")
    if damage:
        target.write_text(damage)
    for subjects in (SUBJECTS, []):
        done = forget(settings_of(folders), subjects, now)
        assert not done.is_complete
        [failed] = [line for line in done.out_of_reach if "was not cleaned" in line]
        assert (str(target) if damage else f"There is no file {target}") in failed
        assert "run `firmlake forget`" in failed
    assert places_of(folders.data, *SPELLED) == set()
    assert target.exists() == bool(damage), "looking for it makes no file"
    ran = Lake(folders.data.parent).call("forget")
    assert ran.code == 1
    assert ran.err.splitlines()[-1].startswith("firmlake: Not cleaned: the database"), "cron mails this line"
    if damage:
        moved.replace(target)
        assert forget(settings_of(folders), [], now).is_complete
        assert places_of(tmp_path, *GONE) == set()
        return
    with pytest.raises(UsageError, match="elsewhere") as caught:
        drop_copy(folders, "elsewhere")
    assert shlex.quote(f"duckdb:{target} firmlake") in caught.value.next_step
    (command,) = re.findall("if the copy no longer exists, run `firmlake (.*)`", failed)
    ran = Lake(folders.data.parent).call(*shlex.split(command), "--json")
    assert ran.code == 0
    assert f"{target} firmlake: not cleaned and no longer tracked" in ran.err
    assert ran.content["given_up"] == [f"duckdb:{target} firmlake"]
    assert forget(settings_of(folders), [], now).is_complete


def test_an_archive_that_is_gone_is_tracked_no_longer_and_another_still_is(folders, tmp_path):
    for name in ("a", "b"):
        note_archive(folders, str(tmp_path / name))
    drop_copy(folders, str(tmp_path / "a"))
    assert known_archives(folders) == [str(tmp_path / "b")]


@pytest.mark.slow
def test_a_loaded_server_follows(folders):
    import psycopg

    with serve_postgres() as server:
        deliver(folders, Request(target=server.url), now=now)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("ANALYZE")  # as autovacuum does: the statistics quote values
            connection.execute("CHECKPOINT")
            assert files_of(server, rb"belacker")
            assert forget(settings_of(folders), SUBJECTS, now).is_complete
            for table in ("firmlake.relationships", "pg_stats WHERE schemaname = 'firmlake'"):
                rows = connection.execute(f"SELECT * FROM {table}").fetchall()
                assert rows
                assert not re.search("(?i)belacker", str(rows))
            connection.execute("CHECKPOINT")
            ((statistics,),) = connection.execute("SELECT pg_relation_filepath('pg_statistic')").fetchall()
        assert files_of(server, rb"(?i)belacker") == []
        # PostgreSQL keeps the statistics of a table that is empty now.
        assert files_of(server, rb"24202194") in ([], [server.home / "data" / statistics])


def files_of(server, pattern):
    files = [path for path in (server.home / "data" / "base").rglob("*") if path.is_file()]
    return [path for path in files if re.search(pattern, path.read_bytes())]
