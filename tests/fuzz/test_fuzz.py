"""Whatever reads files or answers gives a result or a documented error, whatever it is fed, in bounded time and memory.

`pytest -m fuzz` makes new examples for some minutes; the default run tries what was once found.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .bounds import MEMORY_BYTES, OutOfTimeError, limited
from .readers import CORPUS, READERS, feed, kept, seeds

EXAMPLES = 400

FOUND: list[tuple[str, bytes]] = [
    ("answer", b'[{"identifier": {"country": "BE", "companyNumber": "\\ud800"}}]'),
    ("answer", b"[" * 5000),
    ("answer", b'[{"identifier": {"country": "NL", "country": "BE", "companyNumber": "403227515"}, "data": []}]'),
    ("answer", b'[{"identifier":{"country":"BE","companyNumber":"1"},"data":[' + b"9" * 5000 + b"]}]"),
    ("redact", b"\\" * 4000 + b"u0061"),
    ("settings", b"[api]\nthreads = " + b"9" * 5000),
    ("settings", b"api.threads.x = 1"),
    ("settings", b"a" * 9 + b" = 2026-13-45"),
    ("list.csv", b"\xff\xfe\x00"),
    ("list.csv", b'country,company_number\n"BE'),
    ("list.xlsx", b"PK\x05\x06" + b"\x00" * 18),
    ("list.parquet", b"PAR1PAR1"),
    ("list.ndjson", b"{" * 3000),
    ("plan", b'{"sha256": 1}'),
    ("plan", b"[" * 3000),
    ("segment", b"\x57\x2a\x4d\x18" + b"\x00" * 40),
    *((reader, path.read_bytes()) for reader in READERS for path in kept(reader)),
]
"""What once came out wrong, kept for ever: (what reads it, what it was fed). Longer files are in `corpus/`."""


@pytest.mark.parametrize(("reader", "content"), FOUND, ids=lambda part: part if isinstance(part, str) else None)
def test_what_was_found_once_stays_mended(reader, content, tmp_path):
    feed(reader, content, tmp_path)


def test_the_corpus_belongs_to_readers():
    assert {path.name for path in CORPUS.iterdir() if path.is_dir()} <= READERS.keys()


def test_the_kernel_ends_a_call_that_takes_too_much_memory():
    with pytest.raises(MemoryError), limited():
        bytearray(2 * MEMORY_BYTES)


@pytest.mark.fuzz
def test_the_kernel_ends_a_call_that_takes_too_long():
    with pytest.raises(OutOfTimeError), limited():
        sum(iter(lambda: 1, 0))  # calls Python, where a signal is seen


@st.composite
def damaged(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A whole file that is cut, spliced, repeated, or of which some bytes are others."""
    content = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(content)))
        end = draw(st.integers(at, min(len(content), at + 40)))
        how = draw(st.sampled_from(["replace", "cut", "repeat", "special"]))
        if how == "replace":
            content[at:end] = draw(st.binary(max_size=12))
        elif how == "cut":
            del content[at:end]
        elif how == "repeat":
            content[at:end] = bytes(content[at:end]) * draw(st.integers(2, 40))
        else:
            content[at:at] = draw(st.sampled_from([b"\x00", b'"', b"\\", b"[", b"{", b"\xff", b"\r", b"=", b"9" * 30]))
    return bytes(content)


@pytest.mark.fuzz
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_file_is_read_or_named(reader, tmp_path):
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]

    @settings(max_examples=EXAMPLES, suppress_health_check=checks, derandomize=False)
    @given(st.one_of(damaged(seeds(reader, tmp_path)), st.binary(max_size=300)))
    def run(content: bytes) -> None:
        feed(reader, content, tmp_path)

    run()
