"""The commands that keep a data folder in order: `publish`, `prune`, `replay` and `verify`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import click
import msgspec

from firmlake.cli.call import Call, command, damaged_content
from firmlake.core.errors import EXIT_DONE, EXIT_FAILED, DamagedError, UsageError
from firmlake.core.text import count_of
from firmlake.core.work import lock, record_failure, utc_now

if TYPE_CHECKING:
    from firmlake.landing.run import Run

_Processes = Annotated[int, click.IntRange(1, 64)]
_Days = Annotated[int | None, click.IntRange(min=0)]


@command
def publish(call: Call, *, anyway: bool = False) -> None:
    """Release the generation that a gate holds back.

    Without --anyway, the rules of paths.gates judge it as they are now, and it is released if it meets them.

    Args:
        anyway: Release it although a gate fails.
    """
    settings, folders = call.on_folder()
    from firmlake.warehouse.gates import judge_held
    from firmlake.warehouse.generations import find_held, list_generations, release
    from firmlake.warehouse.rules import read_gates

    gates = read_gates(settings.paths.gates)
    if not (find_held(folders) or list_generations(folders)):
        call.answer({"released": None}, ["No generation is held back"])
        return
    with lock(folders, "firmlake publish"):
        if not anyway and find_held(folders) and (error := judge_held(folders, gates, settings.run.duckdb_memory)):
            raise error
        released = release(folders)
    said = f"{released} is the newest generation now" if released else "No generation is held back"
    call.answer({"released": released and str(released)}, [said])


@command
def prune(
    call: Call,
    *,
    dry_run: bool = False,
    generations: str | None = None,
    staged_days: _Days = None,
    landed_days: _Days = None,
) -> int:
    """Remove old generations, personal data older than `privacy.keep_days`, and with an option other old files.

    Personal data is landed answers, refused lines, contacts, cells of lists, and lookups of single companies. Of every
    run, either the landed answers or the staged tables stay. A generation from which the next load or export of changes
    starts stays too; the output names the target, and says what to do if it no longer exists. A damaged run is named,
    and nothing of it is removed.

    Args:
        dry_run: Show what would be removed; remove nothing.
        generations (N): Number of generations to keep; sets run.keep_generations.
        staged_days: Also remove staged tables of runs, and kept copies of lists, older than this many days.
        landed_days: Also remove landed answers of runs older than this many days; archive them first.
    """
    settings, folders = call.on_folder({"run.keep_generations": generations})
    from firmlake.forget.retention import apply_retention, find_expired, is_lookup
    from firmlake.rebuild import prune as pruning
    from firmlake.terminal.status import removable_parts

    days, now = settings.privacy.keep_days, utc_now()
    if landed_days is None and days.landing >= 0:
        landed_days = days.landing
    with nullcontext() if dry_run else lock(folders, "firmlake prune"):  # a dry run does not wait for another run
        removable, damaged = pruning.find_removable(
            folders,
            now,
            keep_generations=settings.run.keep_generations,
            staged_days=staged_days,
            landed_days=landed_days,
            landed_days_of=lambda run: days.lookups if days.lookups >= 0 and is_lookup(run) else None,
        )
        pinned = pruning.find_pinned(folders, keep_generations=settings.run.keep_generations)
        expired = find_expired(folders, days, now)
        if not dry_run:
            pruning.prune(folders, removable, now)
            apply_retention(folders, days, settings.run, now)
    content = {
        "removed": not dry_run,
        "byte_count": sum(each.byte_count for each in removable),
        "removable": [each._asdict() for each in removable],
        "pinned": [each._asdict() for each in pinned],
        "expired": [each._asdict() for each in expired],
        "damaged": damaged_content(damaged),
    }
    call.answer(content, removable_parts(removable, dry_run, expired, pinned))
    return call.name_damaged(damaged)


@command
def replay(call: Call, *, processes: _Processes = 1) -> int:
    """Rebuild tables and warehouse from the landed answers. Sends no request.

    Args:
        processes: Number of processes that work in parallel.
    """
    settings, folders = call.on_folder()
    from firmlake.forget.forget import clean_restored
    from firmlake.rebuild import replay as replaying
    from firmlake.tables.leaves import check_contract
    from firmlake.warehouse.gates import why_held

    check_contract(settings.contract)
    with lock(folders, "firmlake replay"):
        if cleaned := clean_restored(folders, settings.privacy):
            call.say(f"Cleaned {cleaned:,} restored files that held forgotten persons or companies")
        runs: list[str] = []

        def tell(run: Run) -> None:
            runs.append(run.run_id)
            call.say(f"Replaying run {run.run_id}")

        made = replaying.replay(
            folders, utc_now, settings.run, on_run=tell, processes=processes, contract=settings.contract
        )
    said = f"{count_of(len(runs), 'run')} replayed into {made}, without a request"
    call.answer({"runs": runs, "warehouse": str(made)}, [said])
    return call.end(why_held(folders))


@command
def verify(call: Call, *, forgotten: bool = False, files: bool = False, processes: _Processes = 1) -> int:
    """Check that landed answers, staged tables and warehouse agree.

    The warehouse is rebuilt from the landed answers and compared. With --files, only checksums are compared: that finds
    damaged and missing files, but not tables that differ from the answers.

    If the landed answers of a run were pruned, only its staged tables are compared with the warehouse; the output
    counts these runs.

    Args:
        forgotten: Check instead that no file contains a forgotten person or company.
        files: Check only that no file has changed since it was written; much faster.
        processes: Number of processes that work in parallel.
    """
    if forgotten and files:
        raise UsageError("--forgotten and --files are different checks", "Choose one of them")
    if forgotten:
        return _prove(call)
    if files:
        return _check_files(call)
    settings, folders = call.on_folder()
    from firmlake.rebuild.verify import verify as check_all
    from firmlake.terminal.status import checks_parts

    with lock(folders, "firmlake verify", is_reader=True):
        runs: list[Run] = []
        checks = check_all(folders, utc_now, settings.run, processes=processes, on_run=runs.append)
    agrees, pruned = all(check.agrees for check in checks), sum(run.is_pruned for run in runs)
    content = {
        "agrees": agrees,
        "runs_from_landed_answers": len(runs) - pruned,
        "runs_from_staged_tables": pruned,
        "tables": [check._asdict() for check in checks],
    }
    call.answer(content, checks_parts(checks, runs))
    if not agrees:
        differs = DamagedError("The warehouse differs from a replay", "Rebuild it with `firmlake replay`")
        record_failure(folders.state, "firmlake verify", differs)
        call.say(f"firmlake: {differs}")
    return EXIT_DONE if agrees else EXIT_FAILED


def _check_files(call: Call) -> int:
    """Compare files with their checksums."""
    settings, folders = call.on_folder()
    from firmlake.rebuild.verify import check_unchanged
    from firmlake.terminal.status import unchanged_parts

    with lock(folders, "firmlake verify --files", is_reader=True):  # its success is none of the whole check
        found = check_unchanged(folders, memory_limit=settings.run.duckdb_memory)
    call.answer({"unchanged": True, **found._asdict()}, unchanged_parts(found))
    return EXIT_DONE


def _prove(call: Call) -> int:
    """Search every byte for forgotten subjects."""
    settings, folders = call.on_folder()
    from firmlake.forget.copies import Copies
    from firmlake.forget.proof import list_ours, prove
    from firmlake.privacy.forgotten import open_forgotten
    from firmlake.terminal.status import receipt_parts

    held = open_forgotten(settings.privacy, folders)
    if held is None:
        raise UsageError(
            "Nothing has been forgotten yet", "Use `firmlake forget` to remove a person, a contact or a company"
        )
    with lock(folders, "firmlake verify --forgotten", is_reader=True):
        copies = Copies(folders, held, settings, utc_now)
        receipt, path = prove(folders, held, utc_now(), copies)
    content = {**msgspec.structs.asdict(receipt), "receipt": path and str(path)}
    call.answer(content, receipt_parts(receipt, path))
    if not held.register.is_done:
        call.say("firmlake: `firmlake forget` was interrupted. Run it again to finish.")
    elif receipt.found:
        in_format = {path for path, what, _ in receipt.found if what != "bytes"}
        cleaned = in_format & set(map(str, list_ours(folders)))
        cleaned |= {path for path, *_ in receipt.found if not path.startswith(str(folders.data))}  # copies
        call.say(f"firmlake: A forgotten subject was found. {' '.join(_to_clean(receipt.found, cleaned))}")
    return EXIT_DONE if not receipt.found and not receipt.unread and held.register.is_done else EXIT_FAILED


def _to_clean(found: Sequence[tuple[str, str, int]], cleaned: Collection[str]) -> Iterator[str]:
    """Yield the next steps that remove the names from the places found: path, kind and number of each.

    `cleaned` are the paths that `firmlake forget` would clean.
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
