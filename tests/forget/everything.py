"""Reads every byte of a folder, decompressed as far as anybody can: what an adversary would search."""

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


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file as it is, and decompressed."""
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
                for name in book.namelist():
                    yield path, book.read(name)
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
    found = set()
    for path, content in contents(folder):
        for decoded in _decodings(content):
            found |= {path.relative_to(folder).as_posix() for spelling in wanted if spelling in decoded}
    return found


def _decodings(content: bytes) -> set[str]:
    text = content.decode("utf-8", "replace").casefold()
    unquoted = (
        unquote_to_bytes(content).decode("utf-8", "replace").casefold()
    )  # `unquote` takes seconds for a warehouse
    once = _unescaped(text)
    return {text, unquoted, html.unescape(text), once, _unescaped(once)}


def _unescaped(text: str) -> str:
    text = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), text)
    return text.replace('\\"', '"').replace("\\\\", "\\").casefold()
