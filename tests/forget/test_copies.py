"""Archives and exports follow a forget: no object names anybody, and each is still what its manifest or plan says."""

from __future__ import annotations

import hashlib
import json
from unittest.mock import Mock

import boto3
import polars as pl
import pytest
from pyiceberg.catalog import load_catalog

from firmlake.core.files import decompress_frames
from firmlake.core.folders import Folders
from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder, open_destination
from firmlake.delivery.lakes import LAKES
from firmlake.forget.copies import Copies
from firmlake.forget.forget import forget
from firmlake.forget.proof import prove
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.tombstones import Subject, read_register
from firmlake.rebuild.archive import archive, replay_archive
from firmlake.rebuild.verify import content_hashes
from firmlake.warehouse.exported import note_archive
from firmlake.warehouse.generations import open_warehouse
from support import BOLT, DAY, export, make_run, publish_landed, query

from .everything import contents, places_of
from .support import NAME, SPELLED, make_weeks, now, settings_of, week


@pytest.fixture
def copied(folders, tmp_path):
    make_weeks(folders, 1)
    archive(folders, Folder(tmp_path / "archive"))
    note_archive(folders, str(tmp_path / "archive"))
    for form in ("parquet", "csv"):
        export(folders, Request(format=form), Folder(tmp_path / form))
    return folders


@pytest.mark.slow
def test_archives_and_exports_follow(copied, tmp_path):
    assert {path.split("/")[0] for path in places_of(tmp_path, *SPELLED)} == {
        "data",
        "archive",
        "parquet",
        "csv",
    }
    done = forget(settings_of(copied), [Subject("person", NAME), Subject("company", "", BOLT)], now)
    assert {place.what for place in done.places} >= {"archive", "export"}
    assert places_of(tmp_path, *SPELLED, BOLT.company_number) == set()
    for latest in tmp_path.glob("*/latest.json"):
        named = json.loads(latest.read_text())
        manifest = latest.parent / named["manifest"]
        assert hashlib.sha256(manifest.read_bytes()).hexdigest() == named["manifest_sha256"]
        for table in json.loads(manifest.read_text())["tables"]:
            for file in table["files"]:
                content = (manifest.parent / file["path"]).read_bytes()
                assert (len(content), hashlib.sha256(content).hexdigest()) == (file["byte_count"], file["sha256"])
    other = Folders(tmp_path / "other")
    assert replay_archive(settings_of(other), Folder(tmp_path / "archive"), "a", "a test", now=now).damaged == {}
    with open_warehouse(copied) as one, open_warehouse(other) as two:
        ours, theirs = content_hashes(one), content_hashes(two)
    assert {name: ours[name] for name in ("relationships", "financials", "rejects")} == {
        name: theirs[name] for name in ("relationships", "financials", "rejects")
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_tables_with_versions_follow_and_lose_their_past(folders, tmp_path, form, monkeypatch):
    """After a kill between the new version and the end of the old ones, the next forget ends them."""
    out = tmp_path / form
    for number in range(2):
        week(folders, number)
    export(folders, Request(format=form), Folder(out), now=now)
    week(folders, 2)
    export(folders, Request(format=form, mode="changes"), Folder(out), now=now)
    assert len(places_of(out, *SPELLED)) > 3
    with monkeypatch.context() as patch:
        patch.setattr(LAKES[form], "drop_past", Mock(side_effect=[None, KeyboardInterrupt]))
        with pytest.raises(KeyboardInterrupt):
            forget(settings_of(folders), [Subject("person", NAME), Subject("company", "", BOLT)], now)
    assert places_of(out, *SPELLED)
    done = forget(settings_of(folders), [], now)
    assert done.is_complete, done.out_of_reach
    assert "export" in {place.what for place in done.places}
    assert places_of(out, *SPELLED, BOLT.company_number) == set()
    left = sorted(read_versioned(out, form, "relationships").select("country", "company_number", "position").rows())
    assert left == query(folders, "SELECT country, company_number, position FROM relationships ORDER BY ALL")
    week(folders, 3)
    forget(settings_of(folders), [], now)
    again = export(folders, Request(format=form, mode="changes"), Folder(out), now=now)
    assert again.record.mode == "whole"
    assert places_of(out, *SPELLED, BOLT.company_number) == set()


def read_versioned(out, form, name) -> pl.DataFrame:
    if form == "delta":
        return pl.read_delta(str(out / "delta" / name))
    catalog = load_catalog("firmlake", type="sql", uri=f"sqlite:///{out}/iceberg/catalog.db")
    return pl.DataFrame(pl.from_arrow(catalog.load_table(f"firmlake.{name}").scan().to_arrow()))


@pytest.mark.slow
def test_changes_build_on_the_whole_export_of_a_forget_and_a_receipt_covers_the_copies(copied, tmp_path):
    settings = settings_of(copied)
    forget(settings, [Subject("person", NAME)], now)
    forgotten = Forgotten(*read_register(settings.privacy, copied))
    receipt, _ = prove(copied, forgotten, now(), Copies(copied, forgotten, settings, now))
    assert (len(receipt.copies), receipt.found, receipt.unread) == (3, (), ())
    (tmp_path / "csv" / "exports" / "more.csv").write_text("x")
    file = next((tmp_path / "csv").rglob("relationships*.csv"))
    file.write_text(file.read_text().replace("Somebody", NAME))
    receipt, _ = prove(copied, forgotten, now(), Copies(copied, forgotten, settings, now))
    assert {place for place, _, _ in receipt.found} == {str(file)}
    assert [place.what for place in forget(settings, [], now).places] == ["export"]
    receipt, _ = prove(copied, forgotten, now(), Copies(copied, forgotten, settings, now))
    assert (receipt.found, receipt.unread, (tmp_path / "csv" / "exports" / "more.csv").exists()) == ((), (), False)
    whole = json.loads((tmp_path / "csv" / "latest.json").read_text())
    later = make_run(copied, run_id="20260301T120000Z-0009", at=now())
    publish_landed(later, at=now() + DAY, keep=9)
    done = export(copied, Request(format="csv", mode="changes"), Folder(tmp_path / "csv"))
    assert (done.record.mode, done.record.previous) == ("changes", whole["export_id"])


@pytest.mark.slow
def test_old_versions_of_objects_go_from_a_bucket(folders, bucket):
    client = boto3.client("s3")
    name, _, prefix = bucket.removeprefix("s3://").partition("/")
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    make_weeks(folders, 1)
    archive(folders, open_destination(f"{bucket}/archive"))
    note_archive(folders, f"{bucket}/archive")
    export(folders, Request(format="csv"), open_destination(f"{bucket}/export"), now=now)
    client.put_object(Bucket=name, Key="elsewhere", Body=b"1")
    client.put_object(Bucket=name, Key="elsewhere", Body=b"2")
    before = list(versions_of(client, name))
    assert any(b"belacker" in body for _, body in before)
    done = forget(settings_of(folders), [Subject("person", NAME), Subject("company", "", BOLT)], now)
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
        if each["Key"].endswith(".zst"):
            held = decompress_frames(held)
        yield each["Key"], held


def test_an_export_whose_address_names_the_person_is_cleaned_and_its_record_still_leads_there(folders, tmp_path):
    week(folders, 0)
    out = tmp_path / f"for {NAME}"
    export(folders, Request(format="csv", tables=("relationships", "companies")), Folder(out))
    settings = settings_of(folders)
    done = forget(settings, [Subject("person", NAME)], now)
    assert done.is_complete
    assert places_of(out, *SPELLED) == set()
    assert any("names a forgotten subject" in each for each in done.out_of_reach)
    forgotten = Forgotten(*read_register(settings.privacy, folders))
    receipt, path = prove(folders, forgotten, now(), Copies(folders, forgotten, settings, now))
    ((place, what, _),) = receipt.found
    assert (place.rpartition("/state/")[2].partition("/")[0], what) == ("exports", "address")
    assert receipt.copies == (f"the export in {tmp_path}/for [forgotten]",)
    assert NAME not in path.read_text()
    assert [json.loads(content)["content"]["target"] for _, content in contents(folders.state / "exports")
            if content.startswith(b"{")] == [str(out)]  # fmt: skip
