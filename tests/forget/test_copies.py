"""Archives and exports follow a forget: no object names anybody, and each is still what its manifest or plan says."""

from __future__ import annotations

import hashlib
import json
import zipfile

import pytest

from firmlake.core.folders import Folders
from firmlake.exports.destination import Folder
from firmlake.exports.export import Request, export
from firmlake.forget.copies import note_archive
from firmlake.forget.forget import forget
from firmlake.privacy.tombstones import Subject
from firmlake.rebuild.archive import archive
from firmlake.rebuild.union import replay_archive
from firmlake.rebuild.verify import content_hashes
from firmlake.warehouse.generations import open_warehouse
from support import BOLT

from .everything import places_of
from .support import NAME, SPELLED, make_weeks, now, settings_of


@pytest.fixture
def copied(folders, tmp_path):
    make_weeks(folders, 1)
    archive(folders, Folder(tmp_path / "archive"))
    note_archive(folders, str(tmp_path / "archive"))
    for form in ("parquet", "csv", "xlsx"):
        export(folders, Request(format=form), Folder(tmp_path / form))
    return folders


@pytest.mark.slow
def test_archives_and_exports_follow(copied, tmp_path):
    assert {path.split("/")[0] for path in places_of(tmp_path, *SPELLED)} == {
        "data",
        "archive",
        "parquet",
        "csv",
        "xlsx",
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
    assert all(zipfile.ZipFile(book).testzip() is None for book in tmp_path.glob("xlsx/**/*.xlsx"))
    other = Folders(tmp_path / "other")
    assert replay_archive(settings_of(other), Folder(tmp_path / "archive"), "a", "a test", now=now).damaged == {}
    with open_warehouse(copied) as one, open_warehouse(other) as two:
        ours, theirs = content_hashes(one), content_hashes(two)
    assert {name: ours[name] for name in ("relationships", "financials", "rejects")} == {
        name: theirs[name] for name in ("relationships", "financials", "rejects")
    }
