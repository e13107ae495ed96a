"""The command `forget`: remove a person, a contact or a company from everything that firmlake wrote."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from firmlake.cli.call import Call, can_ask, command
from firmlake.core.clock import utc_now
from firmlake.core.errors import EXIT_DONE, EXIT_FAILED, UsageError

if TYPE_CHECKING:
    from firmlake.core.folders import Folders
    from firmlake.core.settings import Settings
    from firmlake.privacy.tombstones import Subject

__all__ = ["forget"]


@click.command()
@click.argument("kind", required=False, type=click.Choice(["person", "contact", "company"]))
@click.argument("subject", nargs=-1)
@click.option(
    "--company", nargs=2, metavar="COUNTRY NUMBER", help="Forget the person only in the data of this company."
)
@click.option(
    "--from",
    "file",
    type=click.Path(path_type=Path),
    help="File with one subject on each line; all are forgotten in one pass.",
)
@click.option(
    "--gone",
    multiple=True,
    metavar="COPY",
    help="Stop looking for this archive, export or database, because it was destroyed. Name it as `forget` does.",
)
@click.option(
    "--withdraw",
    is_flag=True,
    help="Withdraw a mistaken forget: later answers and lists keep the subject. What was erased stays erased.",
)
@click.option("--dry-run", is_flag=True, help="Show every place and name that would be cleaned; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask if longer names that hold the name of a person would go too.")
@command
def forget(
    call: Call,
    kind: str | None,
    subject: tuple[str, ...],
    company: tuple[str, str] | None,
    file: Path | None,
    gone: tuple[str, ...],
    withdraw: bool,
    **options: bool,
) -> int:
    """Forget a person (NAME), a contact (ID) or a company (COUNTRY NUMBER).

    \b
    firmlake forget person "Jan Peeters"
    firmlake forget person "Jan Peeters" --company BE 0403227515
    firmlake forget contact 4711
    firmlake forget company BE 0403227515

    Without a subject, finish an interrupted call and clean restored files. docs/privacy.md explains what is erased.
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from firmlake.core.folders import Folders
    from firmlake.core.lock import lock
    from firmlake.forget.copies import drop_copy
    from firmlake.forget.forget import forget as start
    from firmlake.forget.forget import read_subject, read_subjects
    from firmlake.terminal.forget import show_forgetting

    dry_run, agree = options["dry_run"], None if options["yes"] else _agree
    subjects = read_subjects(file) if file else []
    if kind:
        words = (" ".join(subject),) if kind == "person" else subject
        subjects.append(read_subject([kind, *words, *(company or ())]))
    settings = call.settings()
    folders = Folders.existing(settings)
    if bool(gone) + withdraw + dry_run > 1:
        raise UsageError("--gone, --withdraw and --dry-run exclude each other", "Omit all but one")
    if withdraw:
        return _withdraw(call, settings, folders, subjects)
    with nullcontext() if dry_run else lock(folders, "firmlake forget"):
        for copy in gone:
            drop_copy(folders, copy)
            call.say(f"{copy}: not cleaned and no longer tracked, because of --gone")
        done = start(settings, subjects, utc_now, call.say, is_dry=dry_run, agree=agree)
    content = {
        "forgotten": not dry_run,
        "given_up": gone,
        "subject_count": done.subject_count,
        "finished_count": done.finished_count,
        "different_names": done.names,
        "places": [{**place._asdict(), "path": str(place.path)} for place in done.places],
        "out_of_reach": done.out_of_reach,
        "is_complete": done.is_complete,
    }
    call.answer(content, lambda: show_forgetting(done, is_dry=dry_run))
    if done.is_complete:
        return EXIT_DONE
    call.say(f"firmlake: Not cleaned: {'; '.join(done.failed)}. Follow each next step, then run `firmlake forget`")
    return EXIT_FAILED


# ---------------------------------------------------------------------------------------------------------------------

_SHOWN_MAX = 20


def _agree(names: Sequence[str]) -> None:
    """Ask whether all these names are meant. The names are not logged.

    Raises:
        UsageError: They are not, or nobody can answer.
    """
    shown = "\n".join(f"  {name}" for name in names[:_SHOWN_MAX])
    more = f"\n  and {len(names) - _SHOWN_MAX:,} more" * (len(names) > _SHOWN_MAX)
    question = f"These {len(names):,} different names would go, beyond repair:\n{shown}{more}\nForget them?"
    if not can_ask():
        raise UsageError(
            f"{len(names):,} different names would go, beyond repair; nothing was changed",
            "Look at them with --dry-run. If all are meant, repeat the command with --yes: "
            "`firmlake forget person NAME --yes`",
        )
    if not click.confirm(question, err=True):
        raise UsageError("Nothing was changed", "Spell the name in full, or add --company COUNTRY NUMBER")


def _withdraw(call: Call, settings: Settings, folders: Folders, subjects: list[Subject]) -> int:
    from firmlake.core.lock import lock
    from firmlake.core.text import count_of
    from firmlake.privacy.tombstones import lift
    from firmlake.terminal.echo import echo

    if not subjects:
        raise UsageError("--withdraw names nobody", "Name a person, contact or company as when it was forgotten")
    with lock(folders, "firmlake forget"):
        count = sum(lift(settings.privacy, folders, subject) for subject in subjects)
    call.answer(
        {"withdrawn_count": count}, lambda: echo(f"Withdrawn: {count:,} of {count_of(len(subjects), 'subject')}")
    )
    if not (missing := len(subjects) - count):
        return EXIT_DONE
    call.say(
        f"firmlake: Not withdrawn: {count_of(missing, 'subject')}, which no `firmlake forget` named like that. Use the "
        "same name, and --company if you gave it then"
    )
    return EXIT_FAILED
