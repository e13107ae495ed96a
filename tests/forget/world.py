"""A data folder in which a person is named wherever a service or a list can name one, and a search for the name.

The search reads every byte, decompressed and decoded as far as anybody can: what an adversary would do.
"""

from __future__ import annotations

import gzip
import html
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote_to_bytes

import duckdb
import pyarrow.parquet as pq

from firmlake.core.files import decompress_frames
from firmlake.core.folders import Folders
from firmlake.core.settings import PathSettings, RunSettings, Settings
from firmlake.rebuild.verify import verify
from support import (
    ACME,
    BOLT,
    CIRC,
    DAY,
    MINUTE,
    NOON,
    answer,
    found,
    land,
    lookalike,
    make_run,
    party,
    period,
    publish_landed,
    publish_list,
)

NAME = "Jozefien Übelacker"
SPELLED = (NAME, "Ubelacker", "Übelacker", "Jozefien")


def now():
    return NOON + 30 * DAY


def settings_of(folders: Folders) -> Settings:
    run = RunSettings(duckdb_memory="100MB", keep_generations=9)
    return Settings(paths=PathSettings(data=str(folders.data)), run=run)


def agrees(folders: Folders) -> bool:
    return all(check.agrees for check in verify(folders, now))


def week(folders: Folders, number: int) -> None:
    """A run in which the person is a parent with a name, in unknown fields, and among the lines that were refused."""
    at = NOON + number * 7 * DAY
    run = make_run(
        folders, run_id=f"2026010{number + 1}T120000Z-000{number}", at=at, refused=[(9, f"{NAME}, +32", "no number")]
    )
    stake = 0.2 + number / 10
    parents = [
        party(None, name=NAME, percentage=stake),
        party(None, name="ÜBELACKER, Jozefien", percentage=0.1, ubo={"note": f"{NAME}, zaakvoerder"}),
        party(BOLT, name="Bolt BV"),
        5,
    ]
    strange = {**found(CIRC, "relationships", party(None, name="Somebody")), "signed": NAME}
    land(run, answer("relationships", found(ACME, "relationships", *parents), found(BOLT, "relationships", parents[0])))
    land(run, answer("relationships", strange))
    for dataset, record in (("financials", period(extra={"auditor": NAME})), ("lookalikes", lookalike(BOLT))):
        land(run, answer(dataset, *(found(company, dataset, record) for company in (ACME, BOLT, CIRC)), offset=0))
    publish_landed(run, at=at + MINUTE, keep=9)


def make_weeks(folders: Folders, count: int) -> Folders:
    """Weekly runs, and a list whose cells, refused lines and reasons name the person."""
    for number in range(count):
        week(folders, number)
    cells = [
        {"Contact": NAME, "Mail": "jozefien.ubelacker@example.com", NAME: "-"},
        {"Contact": "-", "Mail": "-", NAME: "-"},
    ]
    publish_list(folders, [ACME, None], day=28, cells=cells, given=f"0403227515;{NAME}", reason=f"{NAME} is no number")
    return folders


# --- the search -------------------------------------------------------------------------------------------------------


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every name of a file, and every file as it is and decompressed."""
    for path in sorted(folder.rglob("*")):
        yield path, str(path.relative_to(folder)).encode()
        if not path.is_file() or path.is_symlink():
            continue
        content = path.read_bytes()
        yield path, content
        if path.suffix == ".zst":
            yield path, decompress_frames(content)
        elif path.suffix == ".gz":
            yield path, gzip.decompress(content)
        elif path.suffix == ".xlsx":
            with zipfile.ZipFile(path) as book:
                yield from ((path, book.read(name)) for name in book.namelist())
        elif path.suffix == ".parquet":
            table = pq.read_table(path, partitioning=None)
            yield path, json.dumps(table.to_pylist(), default=str, ensure_ascii=False).encode()
        elif path.suffix == ".duckdb":
            with duckdb.connect(path, read_only=True) as connection:
                for name in connection.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall():
                    rows = connection.execute('FROM "{}"."{}"'.format(*name)).fetchall()
                    yield path, json.dumps(rows, default=str, ensure_ascii=False).encode()
                yield path, str(connection.execute("SELECT sql FROM duckdb_views()").fetchall()).encode()


def places_of(folder: Path, *spellings: str) -> set[str]:
    """Where one of the spellings stands, decoded in any usual way; case does not count."""
    wanted = [spelling.casefold() for spelling in spellings]
    return {
        path.relative_to(folder).as_posix()
        for path, content in contents(folder)
        if any(spelling in decoded for decoded in _decodings(content) for spelling in wanted)
    }


def _decodings(content: bytes) -> Iterator[str]:
    readable = b"\n".join(_READABLE.findall(content))
    text = readable.decode("utf-8", "replace").casefold()
    yield text
    yield html.unescape(text)
    yield unquote_to_bytes(readable).decode("utf-8", "replace").casefold()  # `unquote` takes seconds for a warehouse
    yield (once := _unescaped(text))
    yield _unescaped(once)


_READABLE = re.compile(rb"[\t\n\r -~\x80-\xff]{5,}")


def _unescaped(text: str) -> str:
    text = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), text)
    return text.replace('\\"', '"').replace("\\\\", "\\").casefold()
