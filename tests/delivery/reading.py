"""What a reader does who follows `latest.json`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from firmlake.delivery.files import Latest
from firmlake.delivery.record import Record
from support import attached


def follow(target: Path) -> tuple[Path, Record] | None:
    """The folder and manifest that `latest.json` names, every file of it checked; None before the first export."""
    if not (target / "latest.json").exists():
        return None
    latest = msgspec.json.decode((target / "latest.json").read_bytes(), type=Latest)
    content = (target / latest.manifest).read_bytes()
    assert hashlib.sha256(content).hexdigest() == latest.manifest_sha256
    folder = (target / latest.manifest).parent
    check(folder, manifest := msgspec.json.decode(content, type=Record))
    return folder, manifest


def check(folder: Path, manifest: Record) -> None:
    """An export is what its manifest says, no more and no less."""
    assert (folder / "_SUCCESS").exists()
    stated = {file.path: file for table in manifest.tables for file in table.files}
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.*") if path.is_file()} == {
        *stated,
        "manifest.json",
    }
    for path, file in stated.items():
        content = (folder / path).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.byte_count, file.sha256)


def exported_rows(folder: Path, table: str) -> list[tuple[Any, ...]]:
    """A table of an export as DuckDB reads it, in the same way."""
    files = f"read_parquet('{folder}/{table}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
    with attached() as cursor:
        return rows(cursor, files)


def rows(connection: duckdb.DuckDBPyConnection, source: str) -> list[tuple[Any, ...]]:
    connection.execute("SET TimeZone = 'UTC'")
    found = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    names = sorted(name for name, *_ in found)
    cast = ", ".join(f"{name}::VARCHAR" if name.endswith("_json") else _plain(name, found) for name in names)
    return connection.execute(f"SELECT {cast} FROM {source} ORDER BY ALL").fetchall()


def _plain(name: str, found: list[Any]) -> str:
    kind = next(each[1] for each in found if each[0] == name)
    return f"{name}::TIMESTAMP" if kind == "TIMESTAMP WITH TIME ZONE" else name
