"""Read a company list once, into one table of lines: each with its company or the reason for none, and its cells.

Companies, refused, repaired and repeated lines are queries on this table, and so is the list that is given back.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec
import polars as pl
import pyarrow.parquet as pq

from firmlake.core.company import COUNTRIES, company_key
from firmlake.core.errors import CompanyListError
from firmlake.core.files import make_folder, sha256_of, sync_folder, write_file
from firmlake.core.settings import IntakeSettings
from firmlake.intake.entries import Entries, read_entries
from firmlake.intake.refusals import refusal
from firmlake.intake.table import Formats, StoredRows, Table, cell

LINES: Final = pl.Schema({
    "line": pl.Int64(),
    **dict.fromkeys(
        ("country", "company_number", "status", "reason", "given", "columns", "kinds"), pl.String()
    ),
})  # fmt: skip
_ROWS: Final = 50_000
"""Lines written at once; as JSON, cells take several times as much memory as in the file."""

_HASH_ROWS: Final = 1_000_000
_EXAMPLES: Final = 3
_KEY: Final = ("country", "company_number")
_COMPRESSED: Final = (".gz", ".zip", ".zst")
_METADATA: Final = b"firmlake"


class ListColumns(msgspec.Struct, frozen=True):
    """What is known of a list beside its lines, as in `TableInfo`; Parquet keeps it with them.

    `names` are those of the kept columns, in file order; `types` and `formats` are by name.
    """

    names: tuple[str, ...] = ()
    types: dict[str, str] = {}
    formats: dict[str, Formats] = {}
    delimiter: str = ""


class Lines(StoredRows):
    """The lines of a list in a temporary Parquet file, and what is known of the list beside them.

    Each has line, country, company_number, status (accepted, refused or blank), reason (of the refusal or repair),
    given (as far as `intake.keep_columns` says), columns (a JSON object with the text of each kept cell by column name)
    and kinds (a letter for each of these cells, see `firmlake.intake.table.ROWS`; null if they have none, and empty if
    the line is refused because it cannot be split into cells).
    """

    def __init__(self, columns: ListColumns) -> None:
        super().__init__()
        self.columns = columns


@dataclass(frozen=True, eq=False)
class CompanyList:
    r"""The companies of one list, with an account of every line.

    `line_count` = `header_count` + companies + refused + `repeated_count` + `blank_count`. Lines joined by a quoted
    field count as one, numbered after the first of them. `line` counts from 1; in XLSX and Parquet it is the row.

    Attributes:
        path: The file.
        companies: country, company_number, line, given. One row per company, from the first line that names it, in file
            order.
        found: line, status (accepted, refused or blank), country, company_number, given, reason (of the refusal or
            repair). One row per line after the header.
        header_count: Lines before the data.
        guesses: One sentence for each guess about the list, with the way to override it.
        lines: Every line with its cells; None if the companies come from elsewhere and `path` is only a name.
    """

    path: Path
    companies: pl.DataFrame
    found: pl.DataFrame
    header_count: int = 0
    guesses: tuple[str, ...] = ()
    lines: Lines | None = None

    @property
    def is_file(self) -> bool:
        """Whether `path` is a file."""
        return self.lines is not None

    @cached_property
    def sha256(self) -> str:
        """Identity of the set of companies; it does not depend on spelling, order, repetitions or refused lines."""
        return identity_of(self.companies)

    @cached_property
    def refused(self) -> pl.DataFrame:
        """line, given, reason. One row per line that names no company known to the service."""
        return self.found.filter(status="refused").select("line", "given", "reason")

    @cached_property
    def repaired(self) -> pl.DataFrame:
        """line, given, country, company_number, reason. One row per line whose number was repaired."""
        repaired = self.found.filter(pl.col("reason").is_not_null(), status="accepted")
        return repaired.select("line", "given", "country", "company_number", "reason")

    @property
    def line_count(self) -> int:
        """Lines of the file."""
        return self.header_count + self.found.height

    @cached_property
    def blank_count(self) -> int:
        """Lines without content."""
        return self.found.filter(status="blank").height

    @cached_property
    def repeated_count(self) -> int:
        """Lines that repeat the company of an earlier line."""
        accepted = self.found.lazy().filter(status="accepted")
        return int(accepted.select(pl.len() - company_key().n_unique()).collect().item())


def read_company_list(path: Path | str, options: IntakeSettings = IntakeSettings()) -> CompanyList:  # noqa: B008 - frozen
    """Read a company list of any format and spelling; each line that cannot be used is refused with a reason.

    Args:
        path: CSV, TSV, plain text or NDJSON (also compressed with gzip), XLSX or Parquet; detected by content.
        options: How to read the list; by default everything is detected.

    Raises:
        CompanyListError: The file cannot be used at all, or every line is refused. Follow the next step.

    References:
        Specification, "Company identifier"; docs/service_gaps.md, "spelling of company numbers".
    """
    path = Path(path)
    entries = read_entries(path, options)
    table = entries.table
    kept = {n: name for n, name in enumerate(table.columns) if options.keeps(name)}
    lines, resolved = Lines(_columns_of(table, kept)), list[pl.DataFrame]()

    def batches() -> Iterator[pl.DataFrame]:
        for batch in entries.batches:
            resolved.append(batch.select("line", "status", "country", "company_number", "given", "reason"))
            for part in batch.iter_slices(_ROWS):
                yield _as_lines(part, entries, kept, options)

    _write(lines.file, lines.columns, batches())
    found = pl.concat(resolved) if resolved else LINES.to_frame()
    companies = _first_lines(found)
    if not companies.height:
        raise nothing_named(path, found.filter(status="refused"), table.header_count, options)
    return CompanyList(path, companies, found, table.header_count, entries.guesses, lines)


def refuse_companies(companies: CompanyList, refused: pl.DataFrame, reason: str) -> CompanyList:
    """Refuse the lines of a list that name one of these companies (country, company_number)."""
    found = companies.found.join(
        refused.select(_KEY).with_columns(is_refused=True), on=_KEY, how="left", maintain_order="left"
    )
    is_kept, nothing = pl.col("is_refused").is_null(), pl.lit(None, pl.String)
    found = found.with_columns(
        pl.when(is_kept).then(pl.col("given", *_KEY)).otherwise(nothing),
        status=pl.when(is_kept).then("status").otherwise(pl.lit("refused")),
        reason=pl.when(is_kept).then("reason").otherwise(pl.lit(reason)),
    ).drop("is_refused")
    return replace(companies, companies=_first_lines(found), found=found)


def choose_from(companies: CompanyList, chosen: pl.DataFrame) -> CompanyList:
    """Keep only some companies of a list (country, company_number); the counts of its lines do not change."""
    kept = companies.companies.join(chosen, on=_KEY, how="semi", maintain_order="left")
    return replace(companies, companies=kept)


def known_companies(companies: pl.DataFrame, name: str) -> CompanyList:
    """Make a list from companies in normal form, each once, instead of a file; its name takes the place of a path."""
    lines = companies.select(*_KEY, line=pl.int_range(1, pl.len() + 1), given="company_number")
    found = lines.select("line", *_KEY, "given", status=pl.lit("accepted"), reason=pl.lit(None, pl.String))
    return CompanyList(Path(name), lines, found)


def nothing_named(
    path: Path, refused: pl.DataFrame, header_count: int, options: IntakeSettings, *, of_contacts: bool = False
) -> CompanyListError:
    """Return the error that refuses a list of which no line names a company, or a contact of one (`of_contacts`)."""
    if not refused.height:
        return refusal("only_header" if header_count else "blank", path=path)
    if not options.keeps_all:  # the message is kept in the data folder
        refused = refused.with_columns(given=pl.lit("not shown"))
    first = refused.head(_EXAMPLES).select(pl.format("line {} ({}): {}", "line", "given", "reason"))
    examples, count = "; ".join(first.to_series()), refused.height
    return refusal("no_contact" if of_contacts else "no_company", path=path, count=count, examples=examples)


def identity_of(companies: pl.DataFrame) -> str:
    r"""Hash a set of companies: the sorted lines `BE 0403227515\n`."""
    digest = hashlib.sha256()
    for country in sorted(COUNTRIES):
        numbers = companies["company_number"].filter(companies["country"] == country).sort()
        for start in range(0, len(numbers), _HASH_ROWS):
            lines = numbers.slice(start, _HASH_ROWS).str.join(f"\n{country} ").item()
            digest.update(f"{country} {lines}\n".encode())
    return digest.hexdigest()


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
    """Store `Lines.batches` as one Parquet file that is named after its content; the same list is stored once."""
    make_folder(folder)
    for rest in folder.glob(".*.part"):  # of a process that was killed; the lock of the data folder lets one write
        rest.unlink(missing_ok=True)
    aside = folder / f".list-{secrets.token_hex(4)}.part"
    write_file(aside, lambda path: _write(path, columns, batches))
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


def _write(path: Path, columns: ListColumns, batches: Iterable[pl.DataFrame]) -> None:
    metadata = {_METADATA: msgspec.json.encode(columns)}
    schema = LINES.to_frame().to_arrow().schema.with_metadata(metadata)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_table(batch.cast(dict(LINES)).to_arrow().replace_schema_metadata(metadata))  # type: ignore[arg-type]


def _columns_of(table: Table, kept: Mapping[int, str]) -> ListColumns:
    types = {kept[n]: kind for n, kind in table.types.items() if n in kept}
    formats = {kept[n]: formats for n, formats in table.formats.items() if n in kept}
    return ListColumns(tuple(kept.values()), types, formats, table.delimiter)


def _as_lines(batch: pl.DataFrame, entries: Entries, kept: Mapping[int, str], options: IntakeSettings) -> pl.DataFrame:
    """Return resolved lines as they are stored. The last cell of a line with too many holds its rest, if it is free."""
    width, rest = entries.table.width, pl.col("cells").list.slice(entries.table.width - 1)
    is_free = width - 1 not in chain.from_iterable(entries.choice.values())
    is_wide = (pl.col("cells").list.len() > width) & pl.col("text").is_not_null() & is_free
    last = pl.when(is_wide).then(rest.list.join(entries.table.delimiter)).otherwise(cell(width - 1))
    cells = [(last if n == width - 1 else cell(n)).alias(name) for n, name in kept.items()]
    kinds = pl.concat_str([pl.col("kinds").str.slice(n, 1) for n in kept]) if kept else pl.lit(None, pl.String)
    is_undivided = pl.col("text").is_not_null() & (pl.col("status") == "refused")
    return batch.select(
        "line",
        "country",
        "company_number",
        "status",
        "reason",
        given=_given(options),
        columns=pl.struct(cells).struct.json_encode() if cells else pl.lit("{}"),
        kinds=pl.when(is_undivided).then(pl.lit("")).otherwise(kinds),
    )


def _given(options: IntakeSettings) -> pl.Expr:
    """Return the given text: of a refused line only if all columns are kept, and nothing if no column is."""
    if options.keeps_none:
        return pl.lit(None, pl.String)
    if options.keeps_all:
        return pl.coalesce("text", "given")
    return pl.when(pl.col("status") != "refused").then("given")


def _first_lines(found: pl.DataFrame) -> pl.DataFrame:
    """Return the first line of each company."""
    named = found.lazy().filter(status="accepted").select(*_KEY, "line", "given")
    return named.filter(company_key().is_first_distinct()).collect()
