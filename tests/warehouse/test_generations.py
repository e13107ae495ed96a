"""Generations: the link always names a whole file, whoever reads and whatever dies."""

from __future__ import annotations

import shutil
import subprocess
import sys
import weakref
from pathlib import Path

import duckdb
import pytest

from firmlake.core.errors import DamagedError, FirmlakeError, UsageError
from firmlake.warehouse.generations import (
    LINK,
    ask,
    generation_number,
    newest,
    open_warehouse,
    publish,
)
from support import storage_version


def add(folders, value, keep=5):
    """Publish a generation that holds the values so far and one more."""

    def load(connection, number):
        connection.execute("CREATE TABLE IF NOT EXISTS t (value INTEGER, generation INTEGER)")
        connection.execute("INSERT INTO t VALUES (?, ?)", [value, number])

    return publish(folders, load, memory_limit="100MB", keep=keep, start=newest(folders))


def values(folders):
    with open_warehouse(folders) as connection:
        return [value for (value,) in connection.execute("SELECT value FROM t ORDER BY generation").fetchall()]


def names(folders):
    return sorted(path.name for path in folders.warehouse.iterdir())


def test_before_the_first_publish_there_is_nothing_and_a_next_step(folders):
    assert newest(folders) is None
    with pytest.raises(FirmlakeError, match="does not exist yet"), open_warehouse(folders):
        pass


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_each_publish_makes_a_read_only_file_that_a_relative_link_names_and_the_newest_are_kept(folders, keep):
    for value in range(1, 5):
        path = add(folders, value, keep)
        assert newest(folders) == path
        assert generation_number(path) == value
        assert path.stat().st_mode & 0o777 == 0o400
    assert values(folders) == [1, 2, 3, 4]
    assert names(folders) == [LINK, *(f"gen_{number:06}.duckdb" for number in range(5 - min(keep, 4), 5))]
    moved = folders.data.rename(folders.data.with_name("elsewhere"))
    with duckdb.connect(moved / "warehouse" / LINK, read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(4,)]


def test_a_file_that_is_named_by_the_link_alone_survives_every_failure(folders):
    add(folders, 1, keep=1)

    def load(connection, number):
        connection.execute("DELETE FROM t")
        raise KeyboardInterrupt

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            publish(folders, load, memory_limit="100MB", keep=1, start=newest(folders))
    assert values(folders) == [1]
    assert names(folders) == [LINK, "gen_000001.duckdb"]


def test_an_error_that_is_kept_keeps_no_reader_of_the_generation(folders):
    """DuckDB waits for ever when a process opens a generation that a reader without a connection holds."""
    add(folders, 1)
    held = []

    def read(connection):
        reader = connection.sql("FROM t").to_arrow_reader(1)
        mark = set()
        held.append(weakref.ref(mark))
        try:
            raise OSError("no room")
        except OSError as error:
            raise FirmlakeError(f"{error} {len(mark)} {reader.schema}", "") from error

    with pytest.raises(FirmlakeError) as kept, open_warehouse(folders) as connection:
        read(connection)
    assert kept.value.__traceback__
    assert held[0]() is None


def test_a_reader_keeps_the_generation_it_opened(folders):
    """In another process, as analysts do: neither does it stop a publish, nor does its answer change under it."""
    add(folders, 1)
    with subprocess.Popen(
        [sys.executable, "-c", _READER, str(folders.warehouse / LINK)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdout.readline() == "1\n"
        for value in (2, 3, 4):
            add(folders, value, keep=1)
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "1\n"
        reader.stdin.close()
        assert reader.wait(30) == 0
    assert values(folders) == [1, 2, 3, 4]


_READER = """
import sys, duckdb
with duckdb.connect(sys.argv[1], read_only=True) as connection:
    for _ in range(2):
        print(connection.execute("SELECT count(*) FROM t").fetchone()[0], flush=True)
        sys.stdin.readline()
"""


def leave_what_does_not_fit_into_memory(warehouse):
    """DuckDB keeps it in a folder beside the file."""
    spilled = warehouse / ".gen_000003.duckdb.part.tmp"
    spilled.mkdir()
    (spilled / "duckdb_temp_storage_DEFAULT-0.tmp").write_bytes(b"x")
    for suffix in ("", ".wal"):
        (warehouse / f".gen_000003.duckdb.part{suffix}").write_bytes(b"x")
    (warehouse / f".{LINK}.part").symlink_to("nowhere")


def leave_a_generation_that_the_link_never_named(warehouse):
    """Killed after its rename, before the swap: it is whole, but its run was never published."""
    shutil.copyfile(warehouse / "gen_000001.duckdb", warehouse / "gen_000003.duckdb")


def make_the_link_a_file(warehouse):
    (warehouse / LINK).unlink()
    shutil.copyfile(warehouse / "gen_000002.duckdb", warehouse / LINK)


def copy_it_without_its_link(warehouse):
    (warehouse / LINK).unlink()


@pytest.mark.parametrize(
    ("happen", "number"),
    [
        (leave_what_does_not_fit_into_memory, 3),
        (leave_a_generation_that_the_link_never_named, 4),
        (make_the_link_a_file, 3),
        (copy_it_without_its_link, 3),
    ],
)
def test_whatever_became_of_the_folder_the_newest_generation_is_read_and_built_upon(folders, happen, number):
    add(folders, 1)
    add(folders, 2)
    happen(folders.warehouse)
    assert values(folders) == [1, 2]
    path = add(folders, 3)
    assert values(folders) == [1, 2, 3]
    assert (folders.warehouse / LINK).readlink() == Path(path.name) == Path(f"gen_{number:06}.duckdb")
    assert names(folders) == [LINK, *(f"gen_{each:06}.duckdb" for each in range(1, number + 1))]


def test_a_warehouse_is_only_read_by_those_who_open_it(folders):
    add(folders, 1)
    with open_warehouse(folders) as connection, pytest.raises(duckdb.InvalidInputException):
        connection.execute("DELETE FROM t")
    with pytest.raises(UsageError, match="DuckDB says"):
        ask(folders, "DELETE FROM t")


@pytest.mark.parametrize("harm", ["cut", "empty", "garbage", "flipped", "gone"])
def test_a_damaged_generation_is_named_and_neither_built_upon_nor_passed_over_for_an_older_one(folders, harm):
    add(folders, 1)
    path = add(folders, 2)
    content = bytearray(path.read_bytes())
    for position in range(4096, len(content), 512):
        content[position] ^= 1
    path.chmod(0o644)
    path.write_bytes({"cut": content[:4096], "garbage": b"x" * 9999, "flipped": content}.get(harm, b""))
    if harm == "gone":
        path.unlink()
    for use in (values, lambda folders: add(folders, 3)):
        with pytest.raises(DamagedError, match=str(path)) as caught:
            use(folders)
        assert "replay" in caught.value.next_step
    assert names(folders) == [LINK, "gen_000001.duckdb", *[path.name] * (harm != "gone")]


def test_a_file_that_starts_empty_has_the_storage_version_asked_for_and_its_copies_keep_it(folders):
    publish(
        folders,
        lambda connection, _: connection.execute("CREATE TABLE t (value INTEGER, generation INTEGER)"),
        memory_limit="100MB",
        keep=5,
        storage_version="v1.4.0",
    )
    assert storage_version(folders) == "v1.4.0+"
    add(folders, 1)
    assert storage_version(folders) == "v1.4.0+"


def test_what_stayed_is_written_together_again_at_every_eighth_generation(folders):
    def load(connection, number):
        connection.execute("CREATE TABLE IF NOT EXISTS t AS SELECT range AS value FROM range(250_000)")
        connection.execute("DELETE FROM t WHERE value % 8 = ?", [number - 2])

    stored = []
    for _ in range(8):
        path = publish(folders, load, memory_limit="100MB", keep=1, start=newest(folders))
        with duckdb.connect(path, read_only=True) as connection:
            segments = "pragma_storage_info('t') WHERE segment_type <> 'VALIDITY'"
            stored += connection.execute(f"SELECT sum(count)::BIGINT FROM {segments}").fetchone()
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (250_000 - 31_250 * (len(stored) - 1),)
    assert stored == [250_000] * 7 + [31_250]


def test_a_load_that_needs_more_memory_says_which_setting_to_raise(folders):
    def load(connection, number):
        connection.execute("SET temp_directory = ''")
        connection.execute("CREATE TEMP TABLE t AS SELECT range AS value FROM range(5_000_000)")

    with pytest.raises(FirmlakeError) as error:
        publish(folders, load, memory_limit="20MB", keep=5)
    assert "raise run.duckdb_memory above 20MB" in error.value.next_step


def test_a_query_that_needs_more_memory_says_which_setting_to_raise(folders):
    publish(folders, lambda connection, number: None, memory_limit="100MB", keep=1)
    opened = open_warehouse(folders, memory_limit="20MB", of_any_version=True)
    with pytest.raises(FirmlakeError, match="more memory than 20MB") as error, opened as connection:
        connection.execute("SET temp_directory = ''; CREATE TEMP TABLE t AS FROM range(5_000_000)")
    assert "run.duckdb_memory" in error.value.next_step


@pytest.mark.parametrize("can_spill", [True, False])
def test_memory_is_limited_only_where_duckdb_can_spill(folders, monkeypatch, can_spill):
    publish(folders, lambda connection, number: None, memory_limit="100MB", keep=1)
    monkeypatch.setattr("firmlake.warehouse.generations.is_writable", lambda folder: can_spill)
    with open_warehouse(folders, memory_limit="20MB", of_any_version=True) as connection:
        limit = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    assert (limit == [("19.0 MiB",)]) == can_spill


@pytest.mark.parametrize(
    ("message", "is_full"),
    [
        ("Transaction COMMIT succeeded, but the autocheckpoint failed: No space left on device", True),
        ('Could not write file "x": Disk quota exceeded', True),
        ("Could not write all bytes to file", True),
        ('Could not write file "x": Input/output error', False),
        ('Could not write file "x": Read-only file system', False),
    ],
)
def test_a_full_disk_is_told_as_one(folders, message, is_full):
    def load(connection, number):
        raise duckdb.FatalException(message)

    with pytest.raises(FirmlakeError) as caught:
        publish(folders, load, memory_limit="100MB", keep=5)
    assert ("make room on the disk" in caught.value.next_step) == is_full
    assert ("the disk is full" in caught.value.message) == is_full
    assert ("COMMIT" in caught.value.message) <= (not is_full)
    assert newest(folders) is None


def test_a_generation_that_may_not_be_read_or_is_open_for_writing_elsewhere_is_told_with_a_next_step(folders):
    add(folders, 1)
    path = add(folders, 2)
    path.chmod(0o600)
    code = f"import duckdb, sys; held = duckdb.connect({str(path)!r}); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout
        writer.stdout.readline()
        with pytest.raises(FirmlakeError, match=r"cannot be opened: .*lock.* Close what has it open for writing"):
            values(folders)
        writer.kill()
    assert values(folders) == [1, 2]
    path.unlink()
    path.mkdir()  # root may read every file, but no folder as one
    with pytest.raises(FirmlakeError, match=f"{path}: Is a directory"):
        values(folders)
