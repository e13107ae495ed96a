"""A folder and a bucket keep the same rules."""

from __future__ import annotations

import io

import pytest

from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.delivery.destination import Folder, open_destination
from support import credentials, slow

from .endpoint import Endpoint


@pytest.fixture(params=["folder", "memory", *slow("bucket", "container")])
def target(request, tmp_path):
    return open_destination(
        str(tmp_path / "out") if request.param == "folder" else request.getfixturevalue(request.param)
    )


def test_a_file_is_replaced_only_by_whom_has_read_it(target):
    assert target.read("latest.json") is None
    assert target.put_if("latest.json", b"1")
    first = target.read("latest.json")
    assert first.content == b"1"
    assert target.put_if("latest.json", b"2", first)
    assert not any(target.put_if("latest.json", b"3", stale) for stale in (first, None))
    assert target.read("latest.json").content == b"2"


def test_files_are_listed_with_their_size(target):
    target.put_if("a/b/1", b"first")
    target.put_if("ab/2", b"")
    assert target.sizes("a") == {"a/b/1": 5}
    assert target.sizes("none") == {}


def test_clearing_a_folder_leaves_the_others(target):
    for path in ("a/x/1", "a/2", "ab/3"):
        target.put(path, io.BytesIO(path.encode()))
    target.clear("a")
    assert [target.read(path) and target.read(path).content for path in ("a/x/1", "a/2", "ab/3")] == [
        None,
        None,
        b"ab/3",
    ]
    target.clear("a")


def test_a_store_that_refuses_is_told_without_its_secrets(monkeypatch):
    endpoint = Endpoint(lambda *_: (404, {}, {"code": "NoSuchBucket"}))
    for name, value in credentials(f"http://127.0.0.1:{endpoint.port}").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(FirmlakeError) as caught:
        open_destination("s3://no-such/prefix").put("x", io.BytesIO(b"1"))
    endpoint.close()
    assert "s3://no-such/prefix" in str(caught.value)
    assert "NoSuchBucket" in str(caught.value)
    assert "planted-secret" not in str(caught.value)


def test_what_is_no_address_of_a_store_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert isinstance(open_destination("some/folder"), Folder)
    assert open_destination(f"file://{tmp_path}/x").url == open_destination("x").url == f"{tmp_path}/x"
    with pytest.raises(UsageError, match="ftp:// is not a supported target"):
        open_destination("ftp://host/x")


@pytest.mark.parametrize("place", ["s3://planted:secret@bucket/x", "az://box/x?sig=secret", "gs://bucket/x#secret"])
def test_an_address_with_credentials_is_refused_because_addresses_are_recorded(place):
    with pytest.raises(UsageError, match="environment variables") as caught:
        open_destination(place)
    assert "secret" not in str(caught.value)
