"""A body is inflated as it arrives, and none can fill the memory."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.api.connection import Body, BodyError, in_utf8

MIB = 1_048_576
PACKED = gzip.compress(b"x" * 100)
BOMB = gzip.compress(bytes(64 * MIB))


def receive(chunks, encoding="", declared=None, wire_bytes_max=32 * MIB, body_bytes_max=64 * MIB):
    body = Body(encoding, wire_bytes_max, body_bytes_max)
    body.receive(chunks, declared)
    return body.content()


def pieces(data, size):
    return [data[at : at + size] for at in range(0, len(data), size)]


@given(
    data=st.binary(max_size=5000), size=st.integers(1, 500), pack=st.sampled_from([gzip.compress, zlib.compress, bytes])
)
def test_what_was_packed_comes_out_however_it_is_cut_into_pieces(data, size, pack):
    encoding = {gzip.compress: "gzip", zlib.compress: "deflate", bytes: "identity"}[pack]
    assert receive(pieces(pack(data), size), encoding) == data


def test_gzip_may_hold_several_members():
    assert receive(pieces(gzip.compress(b"one ") + gzip.compress(b"two"), 7), "GZIP ") == b"one two"


def test_a_large_body_comes_out_whole():
    data = b"".join(b'{"revenue":%d.25,"n":%d}' % (n * 7919, n) for n in range(200_000))
    assert receive(pieces(gzip.compress(data, 1), 65536), "gzip") == data


@pytest.mark.parametrize(
    ("packed", "reason"),
    [(PACKED[:-1], "cut"), (b"\x1f\x8bgarbage", "damaged"), (b'{"plain":1}', "damaged")],
    ids=["cut", "garbage", "not packed"],
)
def test_a_packed_body_that_is_cut_or_damaged_is_no_body(packed, reason):
    with pytest.raises(BodyError, match=reason):
        receive([packed], "gzip")


def test_a_cut_body_keeps_what_there_is_of_it():
    body = Body("gzip", MIB, MIB)
    with pytest.raises(BodyError, match="cut"):
        body.receive([PACKED[:-1]])
    assert body.content() == b"x" * 100


def test_an_encoding_nobody_asked_for_is_kept_as_it_came():
    body = Body("br", MIB, MIB)
    with pytest.raises(BodyError, match="the encoding br, which was not asked for"):
        body.receive([b"packed"])
    assert body.content() == b"packed"


@pytest.mark.parametrize("charset", ["utf-8", "UTF8", "iso-8859-1"])
def test_a_charset_in_the_header_for_compression_does_no_harm(charset):
    assert receive([b"[]"], charset) == b"[]"


def test_a_body_that_declares_too_much_is_not_begun():
    def chunks():
        raise AssertionError("read")
        yield b""

    with pytest.raises(BodyError, match="declares 2000 bytes"):
        receive(chunks(), declared="2000", wire_bytes_max=1024)


def test_a_body_that_is_too_long_is_let_go_at_once():
    with pytest.raises(BodyError, match="more than 2048 bytes"):
        receive((bytes(1024) for _ in range(9)), wire_bytes_max=2048)
    with pytest.raises(BodyError, match="inflates to more than 2048 bytes"):
        receive([gzip.compress(bytes(4096))], "gzip", body_bytes_max=2048)


@pytest.mark.parametrize("chunk_size", [1000, 1_000_000])
def test_a_bomb_ends_after_some_megabytes(chunk_size):
    tracemalloc.start()
    with pytest.raises(BodyError, match="100 times its size"):
        receive(pieces(BOMB, chunk_size), "gzip")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * MIB


def test_an_empty_body_is_a_body():
    assert receive([], "gzip") == b""


@pytest.mark.parametrize("charset", ["ISO-8859-1", "latin1", "windows-1252", "utf-16", "UTF-16LE"])
def test_a_text_in_a_declared_charset_becomes_utf8(charset):
    assert in_utf8('["Liège"]'.encode(charset), charset).decode() == '["Liège"]'


@pytest.mark.parametrize(
    ("content", "charset"),
    [
        ("Liège".encode(), "iso-8859-1"),
        ("Liège".encode("latin-1"), None),
        ("Liège".encode("latin-1"), "utf-8"),
        (b"\xff", "utf-16"),
        (b"\xff", "punycode"),
        (b"\xff", "no charset"),
    ],
    ids=["utf-8 all the same", "untold", "told to be utf-8", "not even that", "not in use", "unknown"],
)
def test_any_other_text_stays_as_it_came(content, charset):
    assert in_utf8(content, charset) == content
