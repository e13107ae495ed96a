"""The command `prune`: remove old files and expired personal data."""

from __future__ import annotations

from contextlib import nullcontext

import click

from firmlake.cli.call import Call, command
from firmlake.core.clock import utc_now


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@click.option("--generations", metavar="N", help="Number of generations to keep; sets run.keep_generations.")
@click.option(
    "--staged-days",
    type=click.IntRange(min=0),
    help="Also remove staged tables of runs, and kept copies of lists, older than this many days.",
)
@click.option(
    "--landed-days",
    type=click.IntRange(min=0),
    help="Also remove landed answers of runs older than this many days; archive them first.",
)
@command
def prune(call: Call, dry_run: bool, generations: str | None, staged_days: int | None, landed_days: int | None) -> int:
    """Remove old generations, personal data older than `privacy.keep_days`, and with an option other old files.

    Personal data is landed answers, refused lines, contacts, cells of lists, and lookups of single companies. Of every
    run, either the landed answers or the staged tables stay. A generation from which the next load or export of changes
    starts stays too; the output names the target, and says what to do if it no longer exists. A damaged run is named,
    and nothing of it is removed.
    """
    from firmlake.core.folders import Folders
    from firmlake.core.lock import lock
    from firmlake.forget.retention import apply_retention, find_expired, is_lookup
    from firmlake.rebuild.prune import find_pinned, find_removable
    from firmlake.rebuild.prune import prune as remove
    from firmlake.terminal.status import show_removable

    settings = call.settings(run__keep_generations=generations)
    folders, days, now = Folders.existing(settings), settings.privacy.keep_days, utc_now()
    if landed_days is None and days.landing >= 0:
        landed_days = days.landing
    with nullcontext() if dry_run else lock(folders, "firmlake prune"):  # a dry run does not wait for another run
        removable, damaged = find_removable(
            folders,
            now,
            keep_generations=settings.run.keep_generations,
            staged_days=staged_days,
            landed_days=landed_days,
            landed_days_of=lambda run: days.lookups if days.lookups >= 0 and is_lookup(run) else None,
        )
        pinned = find_pinned(folders, keep_generations=settings.run.keep_generations)
        expired = find_expired(folders, days, now)
        if not dry_run:
            remove(folders, removable, now)
            apply_retention(folders, days, settings.run, now)
    content = {
        "removed": not dry_run,
        "byte_count": sum(each.byte_count for each in removable),
        "removable": [each._asdict() for each in removable],
        "pinned": [each._asdict() for each in pinned],
        "expired": [each._asdict() for each in expired],
        "damaged": [(run_id, error.message, error.next_step) for run_id, error in damaged.items()],
    }
    call.answer(content, lambda: show_removable(removable, dry_run, expired, pinned))
    return call.name_damaged(damaged)
