"""Segment files: append-only and checksummed, with each answer as received.

    segment  = record*
    record   = index frame | header frame | body frame
    index    = zstd skippable frame: lengths of the next two frames, their CRC-32, and the CRC-32 of the index itself
    header   = zstd frame: one line of JSON (`Header`)
    body     = zstd frame: the body, byte for byte; no frame at all once `firmlake prune` removed it

The index lets a reader skip bodies without inflating them, and reveals damage before a frame is read. Any zstd tool can
print a segment, because zstd ignores skippable frames. A process always opens a new segment and never rewrites an old
one. A crash can truncate only the last record, that of the request in flight. The index has a checksum of its own, so
damaged lengths are never mistaken for such a truncation, which would lose all records after them.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from firmlake.api.exchange import Answer, is_success, read_credits
from firmlake.core.company import Company
from firmlake.core.errors import DamagedError, from_system
from firmlake.core.files import (
    CompressionParameter,
    ZstdError,
    compress,
    decompress,
    make_folder,
    sync_folder,
    write_file,
)

_INDEX = struct.Struct("<IIIQI")  # magic, size of the payload; payload: header length, body length, CRC-32 of both
_CHECKSUM = struct.Struct("<I")
_MAGIC = 0x184D2A57
_PAYLOAD = 20
_INDEX_SIZE = _INDEX.size + _CHECKSUM.size
_COMPRESSION: dict[int, int] = {
    # Level 1: level 3 saves a tenth of the bytes but takes twice the time.
    CompressionParameter.strategy: 1,
    CompressionParameter.window_log: 19,
    CompressionParameter.chain_log: 13,
    CompressionParameter.search_log: 1,
    CompressionParameter.min_match: 7,
    CompressionParameter.target_length: 0,
    # The table then fits into the processor's first cache: a quarter less time for 2 % more bytes.
    CompressionParameter.hash_log: 12,
    CompressionParameter.checksum_flag: 1,
    CompressionParameter.content_size_flag: 1,
}

GIVEN_UP = {"given_up": "failed", "forbidden": "forbidden", "unavailable": "unavailable"}
"""Kinds of headers that give companies up, and the resulting status: the company failed, the token may not ask for it,
or the service does not answer the dataset."""
ENDS = {**GIVEN_UP, "unknown": "not_found"}
"""Kinds of headers after which companies get no further request in this run, and the resulting status. `unknown`: the
service does not know the company, although no answer says so explicitly."""

REQUESTS = ("answer", "no_answer", "probe")
"""Kinds of headers that record a request."""


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The metadata of an answer, or of a missing answer.

    Attributes:
        kind: "answer"; "no_answer" (no complete answer came; `error` says why); "probe" (an earlier request repeated to
            test the service, without companies, or a question of `firmlake check`); or one of `ENDS`, which record a
            decision (`error` says why). `firmlake.service_lists.additions` has kinds of its own.
        companies: Companies of the request, in its order.
        is_free_refresh: Whether all companies of the request were fresh, and free in the last days of their window.
        code: For a kind of `ENDS`, the code of the reason; see `core.errors.Reason`.
        body_sha256: Checksum of the body; empty once the body was pruned.
        original: Keyed hash of the body's checksum before `firmlake forget` changed the body; empty if unchanged.
    """

    kind: str = "answer"
    request_id: str = ""
    run_id: str
    shard: int
    dataset: str
    companies: tuple[Company, ...]
    limit: int | None = None
    offset: int | None = None
    language: str = ""
    is_free_refresh: bool = False
    attempt: int = 1
    status: int | None = None
    error: str = ""
    code: str = ""
    headers: dict[str, str] = {}
    fetched_at: datetime
    duration_seconds: float = 0.0
    body_bytes: int = 0
    body_sha256: str = ""
    original: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the status means success."""
        return is_success(self.status)


def answered(header: Header, answer: Answer) -> Header:
    """Complete the header of a request with the outcome of an attempt."""
    return msgspec.structs.replace(
        header,
        kind="no_answer" if answer.status is None or answer.error else "answer",
        attempt=answer.attempt,
        status=answer.status,
        error=answer.error,
        headers=answer.headers,
        fetched_at=answer.fetched_at,
        duration_seconds=round(answer.duration_seconds, 6),
    )


def credits_in(header: Header, name: str) -> int | None:
    """Read a number of credits from the response header of that name; None if there is none."""
    return read_credits(header.headers.get(name.lower(), ""))


class Landed(NamedTuple):
    """One record of a segment; the property `body` reads and checks the answer.

    Attributes:
        body_frame: The compressed body; empty if it was pruned.
    """

    header: Header
    path: Path
    position: int
    body_frame: bytes

    @property
    def body(self) -> bytes:
        """The body as received. After a DamagedError (pruned, or a wrong checksum), restore the file from a copy."""
        if not self.body_frame:
            raise _damaged(self.path, self.position, "the body was pruned")
        try:
            content = decompress(self.body_frame)
        except ZstdError as error:
            raise _damaged(self.path, self.position, str(error)) from None
        if hashlib.sha256(content).hexdigest() != self.header.body_sha256:
            raise _damaged(self.path, self.position, "the body does not match its checksum")
        return content


class SegmentWriter:
    """Appends to a new segment in a folder; threads may share it. `headers` are those written, in landing order."""

    def __init__(self, folder: Path) -> None:
        self.headers: list[Header] = []
        try:
            make_folder(folder)
            self.path, self._file = _create_next(folder)
            sync_folder(folder)  # a record is durable only if its file's directory entry is
        except OSError as error:
            raise from_system(error, folder) from None
        self._end = 0
        self._lock = threading.Lock()

    def append(self, header: Header, body: bytes = b"") -> Header:
        """Write one record durably; it has landed when this returns its header with the body's length and checksum."""
        header = _sealed(header, body)
        with self._lock:
            self._write(_record(header, body))
            self.headers.append(header)
        return header

    def _write(self, record: bytes) -> None:
        left = memoryview(record)
        try:
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except BaseException as error:  # a signal too: half a record would end the segment
            os.ftruncate(self._file, self._end)  # the file is open for appending, so the next record begins here
            if isinstance(error, OSError):
                raise from_system(error, self.path) from None
            raise
        self._end += len(record)

    def close(self) -> None:
        """Close the file; an empty one is removed."""
        os.close(self._file)
        if self.path.stat().st_size == 0:
            self.path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def rewrite_segment(path: Path, records: Iterable[tuple[Header, bytes | None]]) -> None:
    """Replace a segment atomically by headers, whose length and checksum are set here, and bodies.

    A body that is None is pruned; its header keeps its length. Only `firmlake forget` and `prune` do this; landed
    records never change otherwise.
    """

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            for header, body in records:
                file.write(_record(_sealed(header, body), body))

    write_file(path, write)


def list_segments(folder: Path) -> list[Path]:
    """List the segments of a folder in the order of their creation; other files are ignored."""
    return sorted(path for path in folder.glob("*.zst") if path.stem.isdecimal())


def read_segment(path: Path, content: bytes | None = None) -> Iterator[Landed]:
    """Yield a segment's records in the order they were written; `content` is its bytes, if they were read already.

    A truncated record at the end of the file was left by a crash. It never landed, so it is ignored. The DamagedError
    of a record that does not match its checksum names the file and the byte.
    """
    content = path.read_bytes() if content is None else content
    position = 0
    while position + _INDEX_SIZE <= len(content):
        start = position + _INDEX_SIZE
        index = content[position : position + _INDEX.size]
        magic, payload, header_size, body_size, checksum = _INDEX.unpack(index)
        if (magic, payload) != (_MAGIC, _PAYLOAD) or content[position + _INDEX.size : start] != _CHECKSUM.pack(
            zlib.crc32(index)
        ):
            raise _damaged(path, position, "no record starts here")
        end = start + header_size + body_size
        if end > len(content):
            return
        if zlib.crc32(memoryview(content)[start:end]) != checksum:
            raise _damaged(path, position, "the record does not match its checksum")
        header = _HEADER.decode(decompress(content[start : start + header_size]))
        yield Landed(header, path, position, content[start + header_size : end])
        position = end


_HEADER = msgspec.json.Decoder(Header)


def _sealed(header: Header, body: bytes | None) -> Header:
    if body is None:  # who has the checksum could test a guess at what was pruned
        return msgspec.structs.replace(header, body_sha256="")
    return msgspec.structs.replace(header, body_bytes=len(body), body_sha256=hashlib.sha256(body).hexdigest())


def _record(header: Header, body: bytes | None) -> bytes:
    """Return the bytes of a record."""
    parts = msgspec.json.encode(header) + b"\n", body
    frames = [b"" if part is None else compress(part, options=_COMPRESSION) for part in parts]
    checksum = zlib.crc32(frames[1], zlib.crc32(frames[0]))
    index = _INDEX.pack(_MAGIC, _PAYLOAD, len(frames[0]), len(frames[1]), checksum)
    return b"".join([index, _CHECKSUM.pack(zlib.crc32(index)), *frames])


def _create_next(folder: Path) -> tuple[Path, int]:
    """Create the segment file with the next free number."""
    number = 1 + max((int(path.stem) for path in list_segments(folder)), default=0)
    path = folder / f"{number:05}.zst"
    return path, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)


def _damaged(path: Path, position: int, what: str) -> DamagedError:
    return DamagedError(f"{path}, byte {position}: {what}", "Restore the file from a copy, or remove it and run again")
