"""Company lists as they are typed (LIST, `--sql`, `--map`) and written back; the commands `match` and `list`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import click

from firmlake.cli.call import Call, command
from firmlake.core.errors import EXIT_DONE, UsageError
from firmlake.core.folders import Folders
from firmlake.core.work import lock, utc_now
from firmlake.terminal.rows import Part
from firmlake.terminal.rows import show as show_parts

if TYPE_CHECKING:
    from firmlake.delivery.list_file import FileBack as FileBack
else:  # annotations are evaluated when commands are made, and this class takes long to import
    FileBack = Any

_MAPPED = {"number": "number_column", "country": "country_column", "contact": "contact_column"}
"""The roles of `--map`, and the intake setting that each of them sets."""


def mapping(call: Call, *, mapped: tuple[str, ...] = ()) -> None:
    """Set the intake settings that `--map` stands for.

    Args:
        mapped (--map ROLE=COLUMN): Column to use as number, country or contact: its name, or its position from 1.
    """
    for role, column in _read_mapping(mapped, _MAPPED, "number='Nr. klant'").items():
        call.override(f"intake.{_MAPPED[role]}", column)


def _read_mapping(mapped: Iterable[str], roles: Collection[str], example: str) -> dict[str, str]:
    """Read the values of `--map`, such as `number=2`, into columns by role."""
    columns = {}
    for text in mapped:
        role, _, column = text.partition("=")
        if role not in roles or not column:
            raise UsageError(
                f"--map {text} is not ROLE=COLUMN", f"ROLE is one of {', '.join(roles)}, for example --map {example}"
            )
        columns[role] = column
    return columns


class GivenList(NamedTuple):
    """A list as it was typed; it need not be a file."""

    call: Call
    name: str
    sql: str

    @contextmanager
    def as_file(self, *, is_kept: bool) -> Iterator[Path]:
        """Give the list as a local file.

        If it `is_kept`, a list from a pipe, query or store stays in the data folder, so that a run can resume.
        """
        if not (self.name or self.sql):
            raise UsageError("LIST is missing", "Name a file, - for standard input, or a query with --sql")
        settings = self.call.settings()
        from firmlake.intake.source import local_list

        folder = Folders.of(settings).inputs if is_kept else None
        with local_list(self.name, self.sql, settings, folder) as path:
            if folder is not None and folder in path.parents:
                self.call.say(f"The list is kept as {path}. To resume with exactly these lines, run that file")
            yield path


def given_list(call: Call, company_list: str = "", *, sql: str = "", _mapped: Annotated[None, mapping]) -> GivenList:
    """Take the list that a command works on.

    Args:
        company_list (LIST): The list.
        sql (QUERY): Use the result of a DuckDB query as the list.
    """
    return GivenList(call, company_list, sql)


def file_back(_call: Call, *, out: Path | None = None, columns: str | None = None) -> FileBack | None:
    """Return the file that a list is written to, and the columns to add; None without `--out`.

    Args:
        out (FILE): Write the list with the figures of its companies to FILE: .xlsx, .csv or .parquet.
        columns (NAME,...): Columns that --out adds to the list; `--columns help` shows all of them.
    """
    if columns == "help":
        from firmlake.delivery.list_file import list_added
        from firmlake.terminal.company_lists import addable_parts

        show_parts(addable_parts(list_added()))
        raise click.exceptions.Exit(EXIT_DONE)
    if out is None and columns:
        raise UsageError("--columns needs --out, because it chooses the columns of that file", "Add --out FILE")
    names = tuple(name.strip() for name in (columns or "").split(",") if name.strip())
    if out is None:
        return None
    from firmlake.delivery.list_file import FileBack

    return FileBack(out, names)


@command
def match(
    call: Call,
    names: Path,
    *,
    registers: tuple[Path, ...],
    out: Path | None = None,
    mapped: tuple[str, ...] = (),
    accept: float = 2.0,
) -> None:
    """Find the company numbers for the companies in NAMES in a register file. Sends no request.

    The register can be the open data of the KBO (denomination.csv, address.csv) or of SIRENE (StockUniteLegale,
    StockEtablissement), an export of the KVK, or any list with numbers and names. Legal forms, accents and punctuation
    are ignored. A company whose name is only similar is listed as a candidate with a score; --accept sets the score
    from which a candidate counts as found.

    Args:
        registers (FILE): File of the register; repeat the option for files that belong together.
        out: File to write: .csv, .parquet or .xlsx. Default: NAMES with the ending .matched.csv.
        mapped (--map ROLE=COLUMN): Column to use as name, place, postcode, vat or country.
        accept (SCORE): Accept similar names with at least this score, 0 to 1. Default: accept none.
    """
    from firmlake.match.match import match_names
    from firmlake.match.register import ROLES

    columns = _read_mapping(mapped, (*ROLES, "country"), "name=Customer")
    out = out or names.with_name(f"{names.name.split('.')[0]}.matched.csv")
    found = match_names(names, registers, out, call.settings(), columns, accept)

    def parts() -> Iterator[Part]:
        yield from found.register
        yield f"{names}: " + ", ".join(f"{role} from column {column!r}" for role, column in found.columns.items())
        for kind, count in sorted(found.counts.items(), key=lambda pair: -pair[1]):
            yield f"{count:>10,}  {kind}"
        yield f"Written: {out}. Check it, fill in company_number where a candidate is right, then run:\n"
        yield f"  `firmlake run {quote(str(out))}`"

    call.answer({"out": out, "lines": found.counts, "register": found.register, "columns": found.columns}, parts())


@command
def show(call: Call, name: str | None = None) -> None:
    """Show all lists. With NAME, show the status of its lines, and which companies joined or left most recently."""
    folders = call.on_folder()[1]
    from firmlake.terminal.company_lists import company_list_parts, company_lists_parts
    from firmlake.warehouse.generations import open_warehouse
    from firmlake.warehouse.list_names import read_list_overview, read_list_status

    with open_warehouse(folders) as connection:
        if name is None:
            lists = read_list_overview(connection)
            call.answer(lists, company_lists_parts(lists))
        else:
            content = read_list_status(connection, name)
            call.answer(content, company_list_parts(content))


@command
def export(
    call: Call, name: str = "", file: Path | None = None, *, out: Path | None = None, columns: str | None = None
) -> None:
    """Write a list to a file. Sends no request.

    FILE (or --out FILE) gets every line of list NAME, with the data of its company.

    Args:
        name (NAME): The list.
        file ([FILE]): The file.
        out (FILE): Write the list with the figures of its companies to FILE: .xlsx, .csv or .parquet.
        columns (NAME,...): Columns that --out adds to the list; `--columns help` shows all of them.
    """
    if file is not None and out is not None:
        raise UsageError(f"Two files are named: {file} and --out {out}", "Name only one")
    wanted = file_back(call, out=out or file, columns=columns)
    if not name:
        raise UsageError("No list is named", "`firmlake list show` shows their names")
    if wanted is None:
        raise UsageError("No file is named", "Add --out FILE: .xlsx, .csv or .parquet")
    settings, folders = call.on_folder()
    from firmlake.delivery.list_file import write_list
    from firmlake.terminal.company_lists import describe_written

    written = write_list(folders, name, wanted, settings.run.duckdb_memory)
    content = {"file": str(written.path), "line_count": written.line_count, "renamed": written.renamed}
    call.tell(content, describe_written(written))


@command
def rename(call: Call, name: str, new_name: str) -> None:
    """Rename list NAME, with its history, to NEW_NAME. Later runs need --list-name, or a file of that name."""
    was = _change(call, "rename", name, new_name)
    needed = f"--list-name {quote(new_name)}"
    said = f"List {was} is now {new_name}. Later runs need {needed}; otherwise they add {was} again"
    call.tell({"list": was, "new_name": new_name}, [said])


@command
def remove(call: Call, name: str) -> None:
    """Remove list NAME, with its history, from the warehouse. The data of its companies stays."""
    was = _change(call, "remove", name, "")
    call.tell({"list": was, "new_name": ""}, [f"List {was} is removed; the data of its companies stays"])


def _change(call: Call, what: str, name: str, new_name: str) -> str:
    settings, folders = call.on_folder()
    from firmlake.rebuild.rename_list import change_name

    with lock(folders, f"firmlake list {what}"):
        return change_name(folders, settings.run, name, new_name, utc_now)


company_list = click.Group(
    "list", commands=[show, export, rename, remove], help="Show, export, rename and remove company lists."
)
