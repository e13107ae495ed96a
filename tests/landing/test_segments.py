"""Segments: what landed is read back as it was, wherever the file was cut; damage is never read as data."""

from __future__ import annotations

import errno
import os
import threading
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.files import zstd
from firmlake.landing.segments import SegmentWriter, list_segments, read_segment
from support import ACME, BOLT, examples, header

BODIES = [b"", b"[]", b"\x00\xff" * 50, os.urandom(3000), b"x" * 100_000]


def write(folder, *bodies, **values):
    with SegmentWriter(folder) as writer:
        for number, content in enumerate(bodies):
            writer.append(header(request_id=f"r{number}", **values), content)
    return writer.path


def read(path):
    return [(landed.header.request_id, landed.body) for landed in read_segment(path)]


def starts(path):
    """Where each record begins, and where the last one ends."""
    landed = list(read_segment(path))
    return [record.position for record in landed] + [path.stat().st_size]


@examples(50)
@given(bodies=st.lists(st.binary(max_size=400), max_size=5))
def test_any_bytes_are_read_back_as_received(tmp_path_factory, bodies):
    path = write(tmp_path_factory.mktemp("landing"), *bodies)
    assert (read(path) if bodies else []) == [(f"r{number}", content) for number, content in enumerate(bodies)]


def test_all_that_is_known_about_an_answer_is_read_back(tmp_path):
    one = header(
        "lookalikes", [ACME, BOLT], limit=5, offset=10, language="NL", attempt=3, status=503, error="broken: x",
        headers={"x-credits-charged": "2"}, duration_seconds=0.25,
    )  # fmt: skip
    with SegmentWriter(tmp_path) as writer:
        writer.append(one, b"abc")
    [landed] = read_segment(writer.path)
    assert (landed.header.body_bytes, len(landed.header.body_sha256)) == (3, 64)
    for name in one.__struct_fields__:
        if not name.startswith("body_"):
            assert getattr(landed.header, name) == getattr(one, name)


def test_wherever_a_file_is_cut_the_whole_records_before_it_are_read(tmp_path):
    path = write(tmp_path, b"first", b"second" * 20, b"")
    content, ends = path.read_bytes(), starts(path)[1:]
    for size in range(len(content)):
        path.write_bytes(content[:size])
        assert [name for name, _ in read(path)] == [f"r{n}" for n, end in enumerate(ends) if end <= size]


@pytest.mark.slow
def test_every_flipped_byte_is_found(tmp_path):
    """Also in the lengths of a record: they must not make the rest of the file look like a cut."""
    path = write(tmp_path, b"first", b"second", b"third")
    content = bytearray(path.read_bytes())
    for position in range(len(content)):
        for flip in (0x01, 0x80, 0xFF):
            content[position] ^= flip
            path.write_bytes(content)
            with pytest.raises(DamagedError, match=str(path)):
                read(path)
            content[position] ^= flip


def test_damage_names_the_file_and_the_byte(tmp_path):
    path = write(tmp_path, b"first", b"second")
    content, second = bytearray(path.read_bytes()), starts(path)[1]
    content[second + 40] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=f"{path}, byte {second}"):
        read(path)


def test_records_swapped_between_headers_are_found_by_their_checksum(tmp_path):
    """A checksum of the file's frames would not tell; that of the body stands in the header."""
    path = write(tmp_path, b"first", b"other")
    first, other = read_segment(path)
    with pytest.raises(DamagedError, match="does not match its checksum"):
        _ = first._replace(body_frame=other.body_frame).body


def test_any_zstd_tool_prints_a_segment(tmp_path):
    path = write(tmp_path, b'{"a":1}\n', b"[]\n")
    with zstd.open(path) as file:
        text = file.read().decode()
    lines = text.splitlines()
    assert lines[1::2] == ['{"a":1}', "[]"]
    assert '"request_id":"r1"' in lines[2]


def test_each_writer_has_a_file_of_its_own(tmp_path):
    with SegmentWriter(tmp_path) as one, SegmentWriter(tmp_path) as two:
        one.append(header(request_id="one"), b"1")
        two.append(header(request_id="two"), b"2")
        one.append(header(request_id="three"), b"3")
    assert [[name for name, _ in read(path)] for path in list_segments(tmp_path)] == [["one", "three"], ["two"]]


def test_a_file_is_never_opened_again_and_none_is_left_empty(tmp_path):
    before = write(tmp_path, b"first").read_bytes()
    write(tmp_path)
    write(tmp_path, b"second")
    assert [path.name for path in list_segments(tmp_path)] == ["00001.zst", "00002.zst"]
    assert list_segments(tmp_path)[0].read_bytes() == before


def test_other_files_in_the_folder_disturb_nobody(tmp_path):
    path = write(tmp_path, b"first")
    for name in ("00001 (copy).zst", "notes.zst", ".hidden.zst", "00001.zst.bak"):
        (tmp_path / name).write_bytes(path.read_bytes())
    assert list_segments(tmp_path) == [path]
    assert write(tmp_path, b"second").name == "00002.zst"


def test_threads_share_a_writer(tmp_path):
    with SegmentWriter(tmp_path) as writer:

        def work(number):
            for step in range(20):
                writer.append(header(request_id=f"{number}.{step}"), bytes([number]) * step * 100)

        threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = read(writer.path)
    assert len(found) == 80
    for number in range(4):
        own = [(name, content) for name, content in found if name.startswith(f"{number}.")]
        assert own == [(f"{number}.{step}", bytes([number]) * step * 100) for step in range(20)]


def test_a_record_has_landed_only_when_it_is_durable(tmp_path, monkeypatch):
    """fsync comes after the last byte, for the record and for the name of its file."""
    synced = []
    fsync = os.fsync

    def note(handle):
        synced.append((str(Path(f"/proc/self/fd/{handle}").readlink()), os.fstat(handle).st_size))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    folder = tmp_path / "landing" / "shard=00001"
    with SegmentWriter(folder) as writer:
        assert {str(tmp_path), str(tmp_path / "landing"), str(folder)} <= {path for path, _ in synced}
        for _ in range(2):
            writer.append(header(), b"x" * 500)
            assert synced[-1] == (str(writer.path), writer.path.stat().st_size)


def full(write, handle, content):
    raise OSError(errno.ENOSPC, "No space left on device")


def full_after_a_part(write, handle, content):
    write(handle, content[:10])
    raise OSError(errno.EDQUOT, "Disk quota exceeded")


def interrupted(write, handle, content):
    write(handle, content[:10])
    raise KeyboardInterrupt


def not_durable(handle):
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    ("name", "fail", "error"),
    [
        ("write", partial(full, os.write), "No space left on device"),
        ("write", partial(full_after_a_part, os.write), "Disk quota exceeded"),
        ("write", partial(interrupted, os.write), ""),
        ("fsync", not_durable, "Input/output error"),
    ],
)
def test_a_record_that_cannot_be_written_leaves_no_part_and_the_next_one_can_be(tmp_path, name, fail, error):
    """Other threads go on writing after one of them failed: their records must not stand behind a hole."""
    with SegmentWriter(tmp_path) as writer:
        writer.append(header(request_id="before"), b"1")
        said = (
            pytest.raises(FirmlakeError, match=f"{writer.path}: {error}") if error else pytest.raises(KeyboardInterrupt)
        )
        with patch.object(os, name, fail), said:
            writer.append(header(request_id="lost"), b"2")
        writer.append(header(request_id="after"), b"3")
    assert read(writer.path) == [("before", b"1"), ("after", b"3")]


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FirmlakeError, match="file"):
        SegmentWriter(tmp_path / "file" / "landing")
