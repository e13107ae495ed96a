"""The lines of a company list, read once into one Parquet file: each with its company or its problem, and its cells.

Companies, refused, repaired and repeated lines are queries on this file, and so is the list that is given back.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import polars as pl
import pyarrow.parquet as pq

from firmlake.core.files import make_folder, sha256_of, sync_folder, write_file
from firmlake.core.settings import IntakeSettings
from firmlake.intake.entries import count_assumed, read_entries, tell_assumed
from firmlake.intake.identifiers import REPAIRS
from firmlake.intake.table import BLANK, KINDS, Formats, TextTable, field

LINES: Final = pl.Schema(
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
_ROWS: Final = 50_000
"""Lines written at once; as JSON, cells take several times as much memory as in the file."""

_COMPRESSED: Final = (".gz", ".zip", ".zst")
_METADATA: Final = b"firmlake"


class ListColumns(msgspec.Struct, frozen=True):
    """What is known of a list beside its lines; Parquet keeps it with them.

    Attributes:
        names: Names of the kept columns, in file order.
        types: As `TextTable.types`, but by column name.
        formats: As `TextTable.formats`, but by column name.
        delimiter: See `TextTable.delimiter`.
    """

    names: tuple[str, ...] = ()
    types: dict[str, str] = {}
    formats: dict[str, Formats] = {}
    delimiter: str = ""


class Lines:
    """The lines of a list in a temporary Parquet file, which goes when nothing refers to it.

    Each has line, country, company_number, status (accepted, refused or blank), reason (of the refusal or repair),
    given, columns (a JSON object with the text of each kept cell by column name), kinds (a letter for each of these
    cells, see `TextTable.has_kinds`; null if they have none) and text (the whole line if it cannot be split).

    Attributes:
        columns: What is known of the list beside its lines.
        header_count: Lines before the data.
        guesses: One sentence for each guess about the list, with the way to override it.
    """

    def __init__(self, path: Path, options: IntakeSettings) -> None:
        """Read a list.

        Raises:
            CompanyListError: The file cannot be used. Follow the next step.
        """
        folder = tempfile.mkdtemp(prefix="firmlake-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._file, self._options = Path(folder) / "lines.parquet", options
        entries = read_entries(path, options, with_cells=True)
        table, assumed = entries.table, []
        kept = {field(n): name for n, name in enumerate(table.columns) if options.keeps(name)}
        letters = [pl.col(KINDS).str.slice(n, 1) for n in range(table.width) if field(n) in kept and table.has_kinds]
        kinds = pl.concat_str(letters) if letters else pl.lit(None, pl.String)
        schema = pl.Schema({**LINES, "text": pl.String()})
        with pq.ParquetWriter(self._file, schema.to_frame().to_arrow().schema, compression="zstd") as writer:
            for batch in entries.batches:
                assumed.append(count_assumed(batch.filter(pl.col("problem").is_null())))
                for part in batch.iter_slices(_ROWS):
                    writer.write_table(_as_lines(part, kept, kinds).cast(dict(schema)).to_arrow())  # type: ignore[arg-type]
        self.guesses = (*entries.guesses, *tell_assumed(assumed, table.columns)) if assumed else entries.guesses
        self.columns, self.header_count = _columns_of(table, kept), table.header_count

    def query(self, status: str) -> pl.LazyFrame:
        """Return the lines with a status, in file order."""
        return pl.scan_parquet(self._file, glob=False).filter(status=status)

    def batches(self) -> Iterator[pl.DataFrame]:
        """Yield the lines without text, and with what was given only as far as `intake.keep_columns` says."""
        with pq.ParquetFile(self._file) as stored:
            for group in range(stored.num_row_groups):
                rows = pl.DataFrame(pl.from_arrow(stored.read_row_group(group)))
                yield rows.with_columns(given=_given(self._options)).select(list(LINES))


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


def store_lines(folder: Path, columns: ListColumns, batches: Iterable[pl.DataFrame]) -> Path:
    """Store the lines of a list as one Parquet file that is named after its content; the same list is stored once.

    Args:
        folder: Where lists are stored.
        columns: What is known of the list beside its lines.
        batches: The lines, as `Lines.batches` gives them.

    Returns:
        The file. `read_columns` reads what is known beside its lines.
    """
    metadata = {_METADATA: msgspec.json.encode(columns)}
    schema = LINES.to_frame().to_arrow().schema.with_metadata(metadata)
    make_folder(folder)
    aside = folder / f".list-{secrets.token_hex(4)}.part"

    def write(path: Path) -> None:
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_table(batch.cast(dict(LINES)).to_arrow().replace_schema_metadata(metadata))  # type: ignore[arg-type]

    write_file(aside, write)
    stored = aside.replace(folder / f"{sha256_of(aside)}.parquet")
    sync_folder(folder)
    return stored


def lines_of(companies: pl.DataFrame) -> pl.DataFrame:
    """Return companies that come from no file as the lines of a list."""
    none = pl.lit(None, pl.String)
    values = {"status": pl.lit("accepted"), "reason": none, "given": none, "columns": pl.lit("{}"), "kinds": none}
    return companies.select("line", "country", "company_number", **values)


def read_columns(stored: Path) -> ListColumns:
    """Read what is known of a stored list beside its lines."""
    return msgspec.json.decode(pq.read_schema(stored).metadata[_METADATA], type=ListColumns)


def _columns_of(table: TextTable, kept: Mapping[str, str]) -> ListColumns:
    return ListColumns(
        tuple(kept.values()),
        {kept[field(n)]: kind for n, kind in table.types.items() if field(n) in kept},
        {kept[field(n)]: formats for n, formats in table.formats.items() if field(n) in kept},
        table.delimiter,
    )


def _as_lines(batch: pl.DataFrame, kept: Mapping[str, str], kinds: pl.Expr) -> pl.DataFrame:
    is_blank = pl.col("problem").eq_missing(pl.lit(BLANK))
    status = pl.when(is_blank).then(pl.lit("blank")).when(pl.col("problem").is_null()).then(pl.lit("accepted"))
    named = [pl.col(place).alias(name) for place, name in kept.items()]
    return batch.select(
        "line",
        "country",
        "company_number",
        status=status.otherwise(pl.lit("refused")),
        reason=pl.when(~is_blank).then(pl.coalesce("problem", _reasons(batch["repairs"]))),
        given="given",
        columns=pl.struct(named).struct.json_encode() if named else pl.lit("{}"),
        kinds=kinds,
        text="text",
    )


def _reasons(repairs: pl.Series) -> pl.Series:
    """Return the text for each set of repairs, null for none; a list has few different sets."""
    texts = {
        bits: "; ".join(text for n, text in enumerate(REPAIRS) if bits >> n & 1) or None for bits in repairs.unique()
    }
    return repairs.replace_strict(texts, return_dtype=pl.String).cast(pl.String)  # keeps the type of an empty series


def _given(options: IntakeSettings) -> pl.Expr:
    """Return the given text: of a refused line only if all columns are kept, and nothing if no column is."""
    if options.keeps_none:
        return pl.lit(None, pl.String)
    if options.keeps_all:
        return pl.coalesce("text", "given")
    return pl.when(pl.col("status") != "refused").then("given")
