"""Answers with status 200 whose body is none: cut, empty, of another kind, or a bomb."""

import zlib
from functools import lru_cache
from typing import NamedTuple

from firmlake_sandbox.rules import GzipBomb, WrongBody


class Answer(NamedTuple):
    """An answer before it is sent."""

    status: int
    headers: dict[str, str]
    body: bytes


def replace_body(rule: WrongBody, answer: Answer, _bits: int) -> Answer:
    """Put something else in place of the body."""
    if rule.body == "html":
        html = b"<!DOCTYPE html><html><body><h1>We'll be right back</h1></body></html>"
        return Answer(200, {**answer.headers, "content-type": "text/html; charset=utf-8"}, html)
    bodies = {
        "cut": answer.body[: len(answer.body) // 2],
        "empty": b"",
        "null": b"null",
        "error": b'{"status":500,"message":"Internal server error"}',
        "empty_object": b"{}",
        "empty_list": b"[]",
        "nested": b"[" * rule.depth + b"]" * rule.depth,
    }
    return answer._replace(body=bodies[rule.body])


def inflate_body(rule: GzipBomb, answer: Answer, _bits: int) -> Answer:
    """Put a gzip bomb in place of the body."""
    return answer._replace(headers={**answer.headers, "content-encoding": "gzip"}, body=_bomb(rule.megabytes))


@lru_cache(maxsize=2)
def _bomb(megabytes: int) -> bytes:
    """Return `[`, so many megabytes of blanks and `]`, as gzip.

    Flushed in full, each megabyte compresses to the same bytes, so one stands for all; only the checksum needs them.
    """
    blanks = b" " * 1_000_000
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    opening = packer.compress(b"[") + packer.flush(zlib.Z_FULL_FLUSH)
    middle = packer.compress(blanks) + packer.flush(zlib.Z_FULL_FLUSH)
    closing = packer.compress(b"]") + packer.flush()
    checksum = zlib.crc32(b"[")
    for _ in range(megabytes):
        checksum = zlib.crc32(blanks, checksum)
    checksum = zlib.crc32(b"]", checksum)
    size = megabytes * 1_000_000 + 2
    trailer = checksum.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + opening + middle * megabytes + closing + trailer
