"""Whatever reads files or answers gives a result or a documented error, whatever it is fed, in bounded time and memory.

`pytest -m fuzz` makes new examples for some minutes; the default run tries the seeds and what was once found.
"""

from __future__ import annotations

import io
import resource
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firmlake.api.answers import read_answer
from firmlake.core.errors import FirmlakeError
from firmlake.core.files import read_json
from firmlake.core.redaction import redact, redact_whole
from firmlake.core.run import RunPlan
from firmlake.core.settings_layers import load_settings
from firmlake.intake.company_list import read_company_list
from firmlake.landing.segments import Header, SegmentWriter, read_segment
from firmlake.service_lists.contact_planning import read_plan
from support import ACME, DATASETS, body, found, not_found

EXAMPLES = 400
MEMORY_GROWTH_MAX = 600 * 2**20
LIST = "country,company_number,name\nBE,0403.091.220,Ünï\nNL,12345678,\nFR,732829320,x\n"


def _workbook() -> bytes:
    file = io.BytesIO()
    pl.DataFrame({"country": ["BE"], "company_number": ["0403227515"]}).write_excel(file)
    return file.getvalue()


def _parquet() -> bytes:
    file = io.BytesIO()
    pl.DataFrame({"country": ["BE"], "company_number": ["0403227515"]}).write_parquet(file)
    return file.getvalue()


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("list.csv", LIST)
    return file.getvalue()


def _segment(folder: Path) -> bytes:
    header = Header(run_id="r", shard=1, dataset="financials", companies=(ACME,), fetched_at="2026-01-01T00:00:00Z")
    with SegmentWriter(folder) as writer:
        writer.append(header, body(found(ACME, "financials")))
        writer.append(header, b"[]")
    return writer.path.read_bytes()


SEEDS: dict[str, list[bytes]] = {
    "csv": [LIST.encode(), LIST.encode("utf-16"), b'a;b\n"', b"\xef\xbb\xbf" + LIST.replace(",", "\t").encode()],
    "xlsx": [_workbook()],
    "parquet": [_parquet()],
    "zip": [_zip()],
    "ndjson": [b'{"country": "BE", "company_number": "0403227515"}\n{"a": [1, {"b": null}]}\n'],
    "txt": [b"BE0403227515\nNL 12345678\n", b"\x00" * 20, b""],
    "toml": [b"[api]\nthreads = 4\n[run]\ndatasets = ['financials']\n"],
    "json": [b'{"sha256": "", "content": {}}\n'],
}
ENDINGS = ("csv", "tsv", "xlsx", "parquet", "ndjson", "json", "txt", "zip", "gz")

# What once came out wrong, kept for ever: (what reads it, what it was fed).
CORPUS: list[tuple[str, bytes]] = [
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
]


def _read_segment(path: Path) -> None:
    for landed in read_segment(path):
        _ = landed.body


def _read_answers(path: Path) -> None:
    content = path.read_bytes()
    for dataset in DATASETS:
        with suppress(FirmlakeError):
            read_answer(dataset, content)


def _read_manifest(path: Path) -> None:
    try:
        read_json(path, RunPlan)
    except (msgspec.DecodeError, UnicodeDecodeError):  # documented: the caller names the file
        return


def _redact(path: Path) -> None:
    content = path.read_bytes()
    redact_whole(content)
    redact(content.decode("utf-8", "replace"))


READERS: dict[str, Callable[[Path], Any]] = {
    **{f"list.{ending}": read_company_list for ending in ENDINGS},
    "answer": _read_answers,
    "manifest": _read_manifest,
    "plan": read_plan,
    "redact": _redact,
    "segment": _read_segment,
    "settings": lambda path: load_settings(path, environment={}),
}


@contextmanager
def bounded() -> Iterator[None]:
    """Only documented errors may come out, and memory stays what it was, but for a few hundred MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    try:
        yield
    except FirmlakeError as error:
        assert str(error).isprintable()  # noqa: PT017 - there need be no error
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert after - before < MEMORY_GROWTH_MAX


def feed(reader: str, content: bytes, folder: Path) -> None:
    path = folder / (reader if reader.startswith("list.") else f"{reader}.bin")
    path.write_bytes(content)
    with bounded():
        READERS[reader](path)


@pytest.mark.parametrize(("reader", "content"), CORPUS, ids=lambda part: part if isinstance(part, str) else None)
def test_what_was_found_once_stays_mended(reader, content, tmp_path):
    feed(reader, content, tmp_path)


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


_SEGMENTS: list[bytes] = []


def _seeds(reader: str, folder: Path) -> list[bytes]:
    if reader == "segment":
        _SEGMENTS[:] = _SEGMENTS or [_segment(folder / "seed")]
        return _SEGMENTS
    if reader == "answer":
        return [body(found(ACME, dataset), not_found(ACME)) for dataset in DATASETS]
    if reader == "redact":
        return [b'"bad token abc\\/def%2Btok&#47;en=="', b"YWJjL2RlZit0b2svZW49PQ=="]
    if reader in ("manifest", "plan"):
        return SEEDS["json"]
    return SEEDS["toml"] if reader == "settings" else [seed for seeds in SEEDS.values() for seed in seeds]


@pytest.mark.fuzz
@pytest.mark.timeout(600)
@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_file_is_read_or_named(reader, tmp_path):
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]

    @settings(max_examples=EXAMPLES, suppress_health_check=checks, derandomize=False)
    @given(st.one_of(damaged(_seeds(reader, tmp_path)), st.binary(max_size=300)))
    def run(content: bytes) -> None:
        feed(reader, content, tmp_path)

    run()
