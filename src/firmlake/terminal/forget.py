"""The output of `firmlake forget`, and of a search for forgotten subjects."""

from __future__ import annotations

from pathlib import Path

from firmlake.core.text import count_of
from firmlake.forget.forget import Forgetting
from firmlake.forget.proof import Receipt
from firmlake.terminal.echo import echo
from firmlake.terminal.rows import show_rows


def show_forgetting(done: Forgetting, *, is_dry: bool) -> None:
    """Print each place that named a subject, and the copies that are out of reach."""
    if done.places:
        rows = [(str(place.path), place.what, f"{place.row_count:,}") for place in done.places]
        show_rows(("place", "what", "rows"), rows)
    subjects = f"{done.subject_count} {'subject' if done.subject_count == 1 else 'subjects'}"
    places = f"{len(done.places):,} {'place' if len(done.places) == 1 else 'places'}"
    if is_dry:
        echo(f"{places} would be cleaned for {subjects}; nothing was changed")
        if done.names:
            echo(f"{count_of(len(done.names), 'different name')} would go:")
            for name in done.names:
                echo(f"  {name}")
    else:
        finished = f", and {done.finished_count} from an interrupted call" if done.finished_count else ""
        echo(f"{places} cleaned for {subjects}{finished}. Prove it with `firmlake verify --forgotten`")
    echo("Out of reach:")
    for line in done.out_of_reach:
        echo(f"  {line}")


def show_receipt(receipt: Receipt, path: Path | None) -> None:
    """Print what a search read and found."""
    for place, what, count in receipt.found:
        echo(f"{place}: {what}, {count:,}")
    for place, why in receipt.unread:
        echo(f"{place} cannot be read: {why}")
    echo(
        f"{receipt.file_count:,} files, {receipt.byte_count:,} bytes ({receipt.content_byte_count:,} decompressed) "
        f"searched for {len(receipt.tombstones)} forgotten: {len(receipt.found)} places found"
    )
    if path:
        echo(f"Receipt: {path}")
