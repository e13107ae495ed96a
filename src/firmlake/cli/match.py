"""The command `match`: find company numbers for names and VAT numbers in the user's register file."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from firmlake.cli.call import PATH, Call, command
from firmlake.cli.options import read_mapping
from firmlake.terminal.echo import echo


@click.command()
@click.argument("names", metavar="NAMES", type=PATH)
@click.option(
    "--register", multiple=True, required=True, type=PATH, metavar="FILE",
    help="File of the register; repeat the option for files that belong together."
)  # fmt: skip
@click.option(
    "--out", type=PATH, help="File to write: .csv, .parquet or .xlsx. Default: NAMES with the ending .matched.csv."
)
@click.option(
    "--map",
    "mapped",
    multiple=True,
    metavar="ROLE=COLUMN",
    help="Column to use as name, place, postcode, vat or country.",
)
@click.option(
    "--accept",
    type=float,
    default=2.0,
    metavar="SCORE",
    help="Accept similar names with at least this score, 0 to 1. Default: accept none.",
)
@command
def match(
    call: Call, names: Path, register: tuple[Path, ...], out: Path | None, mapped: tuple[str, ...], accept: float
) -> None:
    """Find the company numbers for the companies in NAMES in a register file. Sends no request.

    The register can be the open data of the KBO (denomination.csv, address.csv) or of SIRENE (StockUniteLegale,
    StockEtablissement), an export of the KVK, or any list with numbers and names. Legal forms, accents and punctuation
    are ignored. A company whose name is only similar is listed as a candidate with a score; --accept sets the score
    from which a candidate counts as found.
    """
    from firmlake.match.match import match_names
    from firmlake.match.register import ROLES

    mapping = read_mapping(mapped, (*ROLES, "country"), "name=Customer")
    out = out or names.with_name(f"{names.name.split('.')[0]}.matched.csv")
    found = match_names(names, register, out, call.settings(), mapping, accept)

    def show() -> None:
        for line in found.register:
            echo(line)
        read = ", ".join(f"{role} from column {column!r}" for role, column in found.columns.items())
        echo(f"{names}: {read}")
        for kind, count in sorted(found.counts.items(), key=lambda pair: -pair[1]):
            echo(f"{count:>10,}  {kind}")
        echo(f"Written: {out}. Check it, fill in company_number where a candidate is right, then run:\n")
        echo(f"  `firmlake run {quote(str(out))}`")

    call.answer({"out": out, "lines": found.counts, "register": found.register, "columns": found.columns}, show)
