"""The commands `replay` and `verify`, which read the landed answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from firmlake.cli.call import Call, command
from firmlake.core.clock import utc_now
from firmlake.core.errors import EXIT_DONE, EXIT_FAILED, DamagedError, UsageError
from firmlake.terminal.echo import echo

if TYPE_CHECKING:
    from firmlake.landing.run import Run

_in_processes = click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of processes that work in parallel.",
)


@click.command()
@_in_processes
@command
def replay(call: Call, processes: int) -> int:
    """Rebuild tables and warehouse from the landed answers. Sends no request."""
    from firmlake.core.folders import Folders
    from firmlake.core.lock import lock
    from firmlake.forget.forget import clean_restored
    from firmlake.rebuild.replay import replay as rebuild
    from firmlake.tables.leaves import check_contract
    from firmlake.warehouse.gates import why_held

    settings = call.settings()
    check_contract(settings.contract)
    folders = Folders.existing(settings)
    with lock(folders, "firmlake replay"):
        if cleaned := clean_restored(folders, settings.privacy):
            call.say(f"Cleaned {cleaned:,} restored files that held forgotten persons or companies")
        runs: list[str] = []

        def tell(run: Run) -> None:
            runs.append(run.run_id)
            call.say(f"Replaying run {run.run_id}")

        made = rebuild(
            folders,
            utc_now,
            memory_limit=settings.run.duckdb_memory,
            keep=settings.run.keep_generations,
            on_run=tell,
            processes=processes,
            storage_version=settings.run.storage_version,
            contract=settings.contract,
        )
    count = f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}"
    call.answer(
        {"runs": runs, "warehouse": str(made)},
        lambda: echo(f"{count} replayed into {made}, without a request"),
    )
    if error := why_held(folders):
        call.say(f"firmlake: {error}")
        return error.exit_code
    return EXIT_DONE


@click.command()
@click.option("--forgotten", is_flag=True, help="Check instead that no file contains a forgotten person or company.")
@click.option("--files", is_flag=True, help="Check only that no file has changed since it was written; much faster.")
@_in_processes
@command
def verify(call: Call, forgotten: bool, files: bool, processes: int) -> int:
    """Check that landed answers, staged tables and warehouse agree.

    The warehouse is rebuilt from the landed answers and compared. With --files, only checksums are compared: that finds
    damaged and missing files, but not tables that differ from the answers.

    If the landed answers of a run were pruned, only its staged tables are compared with the warehouse; the output
    counts these runs.
    """
    from firmlake.core.failure import record_failure
    from firmlake.core.folders import Folders
    from firmlake.core.lock import lock
    from firmlake.rebuild.verify import verify as check_all
    from firmlake.terminal.status import show_checks

    if forgotten and files:
        raise UsageError("--forgotten and --files are different checks", "Choose one of them")
    if forgotten:
        return _prove(call)
    if files:
        return _check_files(call)
    settings = call.settings()
    folders = Folders.existing(settings)
    with lock(folders, "firmlake verify", is_reader=True):
        runs: list[Run] = []
        memory = settings.run.duckdb_memory
        checks = check_all(folders, utc_now, memory_limit=memory, processes=processes, on_run=runs.append)
    agrees, pruned = all(check.agrees for check in checks), sum(run.is_pruned for run in runs)
    content = {
        "agrees": agrees,
        "runs_from_landed_answers": len(runs) - pruned,
        "runs_from_staged_tables": pruned,
        "tables": [check._asdict() for check in checks],
    }
    call.answer(content, lambda: show_checks(checks, runs))
    if not agrees:
        differs = DamagedError("The warehouse differs from a replay", "Rebuild it with `firmlake replay`")
        record_failure(folders.state, "firmlake verify", differs)
        call.say(f"firmlake: {differs}")
    return EXIT_DONE if agrees else EXIT_FAILED


def _check_files(call: Call) -> int:
    """Compare files with their checksums."""
    from firmlake.core.folders import Folders
    from firmlake.core.lock import lock
    from firmlake.rebuild.verify import check_unchanged
    from firmlake.terminal.status import show_unchanged

    settings = call.settings()
    folders = Folders.existing(settings)
    with lock(folders, "firmlake verify --files", is_reader=True):  # its success is none of the whole check
        found = check_unchanged(folders, memory_limit=settings.run.duckdb_memory)
    call.answer({"unchanged": True, **found._asdict()}, lambda: show_unchanged(found))
    return EXIT_DONE


def _prove(call: Call) -> int:
    """Search every byte for forgotten subjects."""
    import msgspec

    from firmlake.core.folders import Folders
    from firmlake.core.lock import lock
    from firmlake.forget.copies import Copies
    from firmlake.forget.proof import list_ours, prove
    from firmlake.privacy.forgotten import open_forgotten
    from firmlake.terminal.forget import show_receipt

    settings = call.settings()
    folders = Folders.existing(settings)
    held = open_forgotten(settings.privacy, folders)
    if held is None:
        raise UsageError(
            "Nothing has been forgotten yet", "Use `firmlake forget` to remove a person, a contact or a company"
        )
    with lock(folders, "firmlake verify --forgotten", is_reader=True):
        copies = Copies(folders, held, settings, utc_now)
        receipt, path = prove(folders, held, utc_now(), copies)
    content = {**msgspec.structs.asdict(receipt), "receipt": path and str(path)}
    call.answer(content, lambda: show_receipt(receipt, path))
    if not held.register.is_done:
        call.say("firmlake: `firmlake forget` was interrupted. Run it again to finish.")
    elif receipt.found:
        in_format = {path for path, what, _ in receipt.found if what != "bytes"}
        cleaned = in_format & set(map(str, list_ours(folders)))
        cleaned |= {path for path, *_ in receipt.found if not path.startswith(str(folders.data))}  # copies
        call.say(f"firmlake: A forgotten subject was found. {' '.join(_to_clean(receipt.found, cleaned))}")
    return EXIT_DONE if not receipt.found and not receipt.unread and held.register.is_done else EXIT_FAILED


def _to_clean(found: Sequence[tuple[str, str, int]], cleaned: Collection[str]) -> Iterator[str]:
    """Yield the next steps that remove the names from the places found.

    Args:
        found: Path, kind and number of each place.
        cleaned: The paths that `firmlake forget` would clean.
    """
    addresses = {path for path, what, _ in found if what == "address"}
    paths = {path for path, *_ in found} - addresses
    generations = {path for path in paths - {*cleaned} if path.endswith(".duckdb")}
    if paths & {*cleaned}:
        yield "`firmlake forget` cleans these files."
    if generations:
        yield "`firmlake replay`, then `firmlake prune --generations 1`, replaces generations whose free space has it."
    if others := paths - {*cleaned} - generations:
        yield f"firmlake did not write {', '.join(sorted(others))}: remove the name there, or the file."
    if addresses:
        yield f"The address of a copy in {', '.join(addresses)} names one: move the copy, and remove its address there."
