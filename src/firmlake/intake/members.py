"""The stored lines of a company list: each with its company or its problem, and its cells as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow.parquet as pq

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.company_list import CompanyList
from firmlake.intake.entries import read_entries
from firmlake.intake.table import BLANK, KINDS, Formats, field

__all__ = ["Members", "list_name_of", "open_members", "write_members"]

_SCHEMA = pl.Schema(
    {
        "line": pl.Int64(),
        "country": pl.String(),
        "company_number": pl.String(),
        "status": pl.String(),
        "reason": pl.String(),
        "given": pl.String(),
        "columns": pl.String(),
        "kinds": pl.String(),
    }
)
_ROWS = 50_000
"""Lines written at once; as JSON, cells take several times as much memory as in the file."""

_COMPRESSED = (".gz", ".zip", ".zst")


class Members(NamedTuple):
    """The lines of a list while they are read.

    Attributes:
        columns: Names of the kept columns, in file order.
        types: As `TextTable.types`, but by column name.
        formats: As `TextTable.formats`, but by column name.
        delimiter: See `TextTable.delimiter`.
        batches: Frames with one row per line after the header, in file order: line, country, company_number, status
            (accepted, refused or blank), reason (of the refusal or repair), given, columns (a JSON object with the
            text of each cell by column name), and kinds (a letter for each of these cells, see `TextTable.has_kinds`;
            null if they have none).
    """

    columns: tuple[str, ...]
    types: dict[str, str]
    formats: dict[str, Formats]
    delimiter: str
    batches: Iterator[pl.DataFrame]


def list_name_of(path: Path) -> str:
    """Return the default name of a list: its file name without the ending.

    Example:
        >>> list_name_of(Path("lists/key accounts.csv.gz"))
        'key accounts'
    """
    name = path.name
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return Path(name).stem or "list"


def open_members(companies: CompanyList, options: IntakeSettings) -> Members:
    """Read the lines of a list a second time, now with all cells.

    Args:
        companies: The result of the first reading.
        options: How the list was read, and which columns to keep (`intake.keep_columns`).

    Raises:
        CompanyListError: The file can no longer be read, now or while the batches are read.
    """
    entries = read_entries(companies.path, options, with_cells=True)
    table = entries.table
    kept = {field(n): name for n, name in enumerate(table.columns) if options.keeps(name)}
    types = {kept[field(n)]: kind for n, kind in table.types.items() if field(n) in kept}
    formats = {kept[field(n)]: each for n, each in table.formats.items() if field(n) in kept}
    letters = [pl.col(KINDS).str.slice(n, 1) for n in range(table.width) if field(n) in kept and table.has_kinds]
    kinds = pl.concat_str(letters) if letters else pl.lit(None, pl.String)
    shape = (_shaped(batch, companies.repaired, kept, kinds, options) for batch in entries.batches)
    return Members(tuple(kept.values()), types, formats, table.delimiter, shape)


def write_members(path: Path, members: Members, expected: int) -> None:
    """Write lines as Parquet, a part at a time.

    Args:
        path: The Parquet file.
        members: The result of `open_members`.
        expected: Lines of the list at the first reading, without the header.

    Raises:
        CompanyListError: The list has more or fewer lines now. Run again.
    """
    count = 0
    with pq.ParquetWriter(path, _SCHEMA.to_frame().to_arrow().schema, compression="zstd") as writer:
        for batch in members.batches:
            count += batch.height
            for part in batch.iter_slices(_ROWS):
                writer.write_table(part.to_arrow())
    if count != expected:
        raise CompanyListError(
            f"The list changed while it was read: it had {expected:,} lines, and now has {count:,}", "Run again"
        )


# ---------------------------------------------------------------------------------------------------------------------


def _shaped(
    batch: pl.DataFrame, repaired: pl.DataFrame, kept: dict[str, str], kinds: pl.Expr, options: IntakeSettings
) -> pl.DataFrame:
    is_blank = pl.col("problem").eq_missing(pl.lit(BLANK))
    has_problem = pl.col("problem").is_not_null()
    lines = batch.join(repaired.select("line", repair="reason"), on="line", how="left", maintain_order="left")
    return lines.select(
        "line",
        "country",
        "company_number",
        status=pl.when(is_blank).then(pl.lit("blank")).when(has_problem).then(pl.lit("refused")).otherwise(
            pl.lit("accepted")
        ),
        reason=pl.when(~is_blank).then(pl.coalesce("problem", "repair")),
        given=_given(options),
        columns=_as_json(kept),
        kinds=kinds,
    ).cast(_SCHEMA)  # fmt: skip


def _given(options: IntakeSettings) -> pl.Expr:
    """Return the given text: a whole line only if all columns are kept, and nothing if no column is."""
    if options.keeps_none:
        return pl.lit(None, pl.String)
    if options.keeps_all:
        return pl.coalesce("text", "given")
    return pl.when(pl.col("text").is_null()).then("given")


def _as_json(kept: dict[str, str]) -> pl.Expr:
    if not kept:
        return pl.lit("{}")
    return pl.struct(pl.col(place).alias(name) for place, name in kept.items()).struct.json_encode()
