"""A body is inflated as it arrives, and none can fill the memory."""

import gzip
import tracemalloc
import zlib

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.api.connection import BodyError, in_utf8, receive

MIB = 1_048_576
PACKED = gzip.compress(b"x" * 100)
BOMB = gzip.compress(bytes(64 * MIB))


class Pieces(httpx.SyncByteStream):
    def __init__(self, data, size):
        self.pieces = [data[at : at + size] for at in range(0, len(data), size)]

    def __iter__(self):
        yield from self.pieces


def body_of(data, encoding="", size=65_536, wire_bytes_max=32 * MIB, body_bytes_max=64 * MIB, **headers):
    response = httpx.Response(200, headers={"Content-Encoding": encoding, **headers}, stream=Pieces(data, size))
    parts = []
    receive(response, parts, wire_bytes_max, body_bytes_max)
    return b"".join(parts)


@given(data=st.binary(max_size=5000), size=st.integers(1, 500), pack=st.sampled_from(["gzip", "deflate", "identity"]))
def test_what_was_packed_comes_out_however_it_is_cut_into_pieces(data, size, pack):
    packed = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}[pack](data)
    assert body_of(packed, pack, size) == data


@pytest.mark.parametrize("encoding", ["", "utf-8", "UTF8", "iso-8859-1"])
def test_a_charset_in_the_header_for_compression_does_no_harm(encoding):
    assert body_of(b"[]", encoding) == b"[]"


@pytest.mark.parametrize(
    ("data", "options", "reason"),
    [
        (b"\x1f\x8bgarbage", {"encoding": "gzip"}, "damaged"),
        (b'{"plain":1}', {"encoding": "gzip"}, "damaged"),
        (b"[]", {"Content-Length": "2000", "wire_bytes_max": 1024}, "declares 2000 bytes"),
        (bytes(9 * 1024), {"size": 1024, "wire_bytes_max": 2048}, "more than 2048 bytes"),
        (gzip.compress(bytes(4096)), {"encoding": "gzip", "body_bytes_max": 2048}, "inflates to more than 2048 bytes"),
        (BOMB, {"encoding": "gzip"}, "100 times its size"),
    ],
    ids=["garbage", "not packed", "declares too much", "too long", "too long inside", "a bomb"],
)
def test_a_body_that_cannot_be_used_is_let_go(data, options, reason):
    tracemalloc.start()
    with pytest.raises(BodyError, match=reason):
        body_of(data, **options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * MIB


@pytest.mark.parametrize("encoding", ["gzip, gzip", "zstd", "br"])
def test_what_is_packed_as_nobody_asked_stays_packed(encoding):
    twice = gzip.compress(BOMB)
    tracemalloc.start()
    assert body_of(twice, encoding) == twice
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * MIB


@pytest.mark.parametrize("charset", ["ISO-8859-1", "latin1", "windows-1252", "utf-16", "UTF-16LE"])
def test_a_text_in_a_declared_charset_becomes_utf8(charset):
    assert in_utf8('["Liège"]'.encode(charset), charset).decode() == '["Liège"]'


@pytest.mark.parametrize("charset", [None, "utf-8"])
def test_a_text_of_one_byte_for_each_character_becomes_utf8_although_nobody_says_so(charset):
    assert in_utf8('["Océan", "Liège"]'.encode("cp1252"), charset).decode() == '["Océan", "Liège"]'


@pytest.mark.parametrize(
    ("content", "charset"),
    [
        ("Liège".encode(), "iso-8859-1"),
        ("Liège, Oc".encode() + b"\xe9an", None),
        (b"\x81", None),
        (b"\xff", "utf-16"),
        (b"\xff", "punycode"),
        (b"\xff", "no charset"),
    ],
    ids=["utf-8 all the same", "damaged utf-8", "no character", "not even that", "not in use", "unknown"],
)
def test_any_other_text_stays_as_it_came(content, charset):
    assert in_utf8(content, charset) == content
