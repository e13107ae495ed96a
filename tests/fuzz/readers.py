"""Everything that reads files or answers, by name, and whole files to begin with."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from firmlake.api.answers import read_answer
from firmlake.core.company import Company
from firmlake.core.errors import FirmlakeError
from firmlake.core.files import read_json
from firmlake.core.settings_layers import load_settings
from firmlake.core.text import redact, redact_whole
from firmlake.intake.lines import read_company_list
from firmlake.landing.run import Outcome, RunPlan
from firmlake.landing.segments import Header, SegmentWriter, read_segment
from firmlake.service_lists.contacts import ContactPlan, Entry, read_plan
from firmlake.tables.stage import Manifest, StagedFile
from support import ACME, DATASETS, NOON, body, found, lookalike, not_found, party, period

from .bounds import limited

ENDINGS = ("csv", "tsv", "xlsx", "parquet", "ndjson", "json", "txt", "zip", "gz")
LIST = "country,company_number,name\nBE,0403.091.220,Ünï\nNL,12345678,\nFR,732829320,x\n"
CORPUS = Path(__file__).with_name("corpus")
"""Files that once came out wrong, in a folder for each reader."""


def feed(reader: str, content: bytes, folder: Path) -> None:
    """Let a reader read this; only documented errors may come out, within the bounds."""
    path = folder / (reader if reader.startswith("list.") else f"{reader}.bin")
    path.write_bytes(_sealed(content) if reader.startswith("sealed ") else content)
    with limited():
        try:
            READERS[reader](path)
        except FirmlakeError as error:
            assert str(error).isprintable()  # noqa: PT017 - there need be no error


def kept(reader: str) -> Iterator[Path]:
    """List what once came out wrong with a reader."""
    return (path for path in sorted((CORPUS / reader).glob("*")) if path.is_file())


def seeds(reader: str, folder: Path) -> list[bytes]:
    """Give whole files that the reader takes, or nearly."""
    kind = reader.removeprefix("sealed ")
    if kind == "segment":
        return [_segment(folder / "seed")]
    if kind == "answer":
        records = {"financials": period(), "lookalikes": lookalike(), "relationships": party()}
        return [body(found(ACME, dataset, records[dataset]), not_found(ACME)) for dataset in DATASETS]
    if kind in ("manifest", "plan"):
        contents = [msgspec.json.encode(content) for content in (_PLANS if kind == "plan" else _MANIFESTS)]
        return contents if reader != kind else [_sealed(content) for content in contents]
    return _TEXTS.get(kind) or [*_LISTS, *_binary_lists()]


# ---------------------------------------------------------------------------------------------------------------------


def _read_segment(path: Path) -> None:
    for landed in read_segment(path):
        _ = landed.body


def _read_answers(path: Path) -> None:
    content = path.read_bytes()
    for dataset in DATASETS:
        with suppress(FirmlakeError):
            read_answer(dataset, content)


def _read_manifest(path: Path) -> None:
    for kind in (RunPlan, Outcome, Manifest):
        with suppress(FirmlakeError):
            read_json(path, kind)


def _redact(path: Path) -> None:
    content = path.read_bytes()
    redact_whole(content)
    redact(content.decode("utf-8", "replace"))


READERS: dict[str, Callable[[Path], Any]] = {
    **{f"list.{ending}": read_company_list for ending in ENDINGS},
    "answer": _read_answers,
    "manifest": _read_manifest,
    "sealed manifest": _read_manifest,
    "plan": read_plan,
    "sealed plan": lambda path: list(read_plan(path).contacts()),
    "redact": _redact,
    "segment": _read_segment,
    "settings": lambda path: load_settings(path, environment={}),
}
"""By name. A file of a "sealed" reader gets the checksum that its content should have, so that this is read too."""
_LISTS = [
    LIST.encode(), LIST.encode("utf-16"), b'a;b\n"', b"\xef\xbb\xbf" + LIST.replace(",", "\t").encode(),
    b'{"country": "BE", "company_number": "0403227515"}\n{"a": [1, {"b": null}]}\n',
    b"BE0403227515\nNL 12345678\n", b"\x00" * 20, b"",
]  # fmt: skip
_TEXTS = {
    "settings": [
        b"[api]\nthreads = 4\n[run]\ndatasets = ['financials']\n",
        b'[contract]\nscales = {"relationships.stake_fraction" = 100}\n[intake]\nkeep_columns = ["all"]\n',
    ],
    "redact": [b'"bad token abc\\/def%2Btok&#47;en=="', b"YWJjL2RlZit0b2svZW49PQ=="],
}
_PLANS = [
    ContactPlan(
        plan_id="20260105T120000Z-0001", made_at=NOON, service="https://gw.example.com", source="contacts.csv",
        list_id=1002, list_name="Klanten", list_type="STATIC", list_company_count=3, list_updated_at=NOON,
        requests=((Entry("BE", "0403227515", ("1", "22")), Entry("NL", "1", ("3",))), (Entry("FR", "1", ("4",)),)),
        already_added=(Entry("BE", "0403091220", ("9",)),), refused=(), repaired_count=0, repeated_count=1,
        firmlake_version="0.1.0",
    )
]  # fmt: skip
_RUN_PLAN = RunPlan(
    run_id="20260105T120000Z-0001", started_at=NOON, list_name="list.csv", list_sha256="0" * 64,
    service="https://gw.example.com", language="EN", datasets=DATASETS, line_count=2, company_count=2, refused_count=0,
    repeated_count=0, fresh_count=0, target_count=2, shard_count=1, firmlake_version="0.1.0", refresh_after_days=30,
    credit_window_days=30,
)  # fmt: skip
_MANIFESTS: list[Any] = [
    _RUN_PLAN,
    Outcome(run_id="20260105T120000Z-0001", outcome="done", finished_at=datetime(2026, 1, 5, tzinfo=UTC)),
    Manifest(
        run_id="20260105T120000Z-0001",
        files=(StagedFile("financials", "financials/shard=00001.parquet", 3, 4567, "0" * 64),),
        segments={"landing/run=1/shard=00001/1.zst": "0" * 64},
    ),
]


def _sealed(content: bytes) -> bytes:
    """Add the checksum that files of firmlake's have; what is no JSON stays as it is."""
    try:
        checksum = hashlib.sha256(msgspec.json.format(content, indent=-1)).hexdigest()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return content
    return b'{"sha256": "%b", "content": %b}' % (checksum.encode(), content)


def _segment(folder: Path) -> bytes:
    header = Header(run_id="r", shard=1, dataset="financials", companies=(Company(*ACME),), fetched_at=NOON)
    with SegmentWriter(folder) as writer:
        writer.append(header, body(found(ACME, "financials", period())))
        writer.append(header, b"[]")
    return writer.path.read_bytes()


def _binary_lists() -> list[bytes]:
    frame = pl.DataFrame({"country": ["BE"], "company_number": ["0403227515"]})
    workbook, parquet, archive = io.BytesIO(), io.BytesIO(), io.BytesIO()
    frame.write_excel(workbook)
    frame.write_parquet(parquet)
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("list.csv", LIST)
    return [workbook.getvalue(), parquet.getvalue(), archive.getvalue()]
