"""The command `forget`: remove a person, a contact or a company from everything that firmlake wrote."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from firmlake.cli.call import Call, can_ask, command
from firmlake.core.errors import EXIT_DONE, EXIT_FAILED, UsageError
from firmlake.core.text import count_of
from firmlake.core.work import lock, utc_now

if TYPE_CHECKING:
    from firmlake.core.company import Company
    from firmlake.core.folders import Folders
    from firmlake.core.settings import Settings
    from firmlake.forget.forget import Forgetting
    from firmlake.privacy.tombstones import Subject


@command
def forget(
    call: Call,
    kind: Literal["person", "contact", "company"] | None = None,
    *subject: str,
    company: tuple[str, str] | None = None,
    file: Path | None = None,
    gone: tuple[str, ...] = (),
    withdraw: bool = False,
    dry_run: bool = False,
    yes: bool = False,
) -> int:
    """Forget a person (NAME), a contact (ID) or a company (COUNTRY NUMBER).

    \b
    firmlake forget person "Jan Peeters"
    firmlake forget person "Jan Peeters" --company BE 0403227515
    firmlake forget contact 4711
    firmlake forget company BE 0403227515

    Without a subject, finish an interrupted call and clean restored files. docs/privacy.md explains what is erased.

    Args:
        company (COUNTRY NUMBER): Forget the person only in the data of this company.
        file (--from): File with one subject on each line; all are forgotten in one pass.
        gone (COPY): Stop looking for this archive, export or database, because it was destroyed. Name it as `forget`
            does.
        withdraw: Withdraw a mistaken forget: later answers and lists keep the subject. What was erased stays erased.
        dry_run: Show every place and name that would be cleaned; change nothing.
        yes: Do not ask if longer names that hold the name of a person would go too.
    """  # noqa: D301 - \b keeps the lines of the examples apart
    agree = None if yes else _agree
    subjects = _read_subjects(file) if file else []
    if kind:
        words = (" ".join(subject),) if kind == "person" else subject
        subjects.append(_read_subject([kind, *words, *(company or ())]))
    settings, folders = call.on_folder()
    if bool(gone) + withdraw + dry_run > 1:
        raise UsageError("--gone, --withdraw and --dry-run exclude each other", "Omit all but one")
    if withdraw:
        return _withdraw(call, settings, folders, subjects)
    from firmlake.forget import forget as forgetting
    from firmlake.terminal.status import forgetting_parts
    from firmlake.warehouse.exported import drop_copy

    with nullcontext() if dry_run else lock(folders, "firmlake forget"):
        for copy in gone:
            drop_copy(folders, copy)
            call.say(f"{copy}: not cleaned and no longer tracked, because of --gone")
        done = forgetting.forget(settings, subjects, utc_now, call.say, is_dry=dry_run, agree=agree)
    content = {"forgotten": not dry_run, "given_up": gone, **_content(done)}
    call.answer(content, forgetting_parts(done, is_dry=dry_run))
    if done.is_complete:
        return EXIT_DONE
    call.say(f"firmlake: Not cleaned: {'; '.join(done.failed)}. Follow each next step, then run `firmlake forget`")
    return EXIT_FAILED


def _content(done: Forgetting) -> dict[str, Any]:
    return {
        "subject_count": done.subject_count,
        "finished_count": done.finished_count,
        "different_names": done.names,
        "places": [{**place._asdict(), "path": str(place.path)} for place in done.places],
        "out_of_reach": done.out_of_reach,
        "is_complete": done.is_complete,
    }


_SHOWN_MAX = 20
_FORMS = "person NAME, person NAME COUNTRY NUMBER, contact ID, or company COUNTRY NUMBER"
_NUMBER_OF_PARTS = {"person": (1, 3), "contact": (1,), "company": (1, 2)}


def _read_subject(parts: Sequence[str]) -> Subject:
    """Read a subject from its parts: its kind, then a name, an id, or a country and a company number.

    The UsageError does not repeat parts that are not valid, because logs keep messages.
    """
    from firmlake.privacy.tombstones import Subject

    kind, *rest = (part.strip() for part in parts)
    if len(rest) not in _NUMBER_OF_PARTS.get(kind, ()) or not all(rest):
        raise UsageError("This is not a person, contact or company", f"Give {_FORMS}")
    if kind == "company" and len(rest) == 1:
        rest = [rest[0][:2], rest[0][2:]]  # as in `firmlake changes --company "BE 0403227515"`
    company = _read_company(*rest[-2:]) if len(rest) > 1 else None
    if kind == "company":
        return Subject("company", "", company)
    return Subject("person", rest[0], company) if kind == "person" else Subject("contact", rest[0])


def _read_subjects(path: Path) -> list[Subject]:
    """Read a file with one subject on each line, its parts separated by commas, semicolons or tabs."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from None
    subjects = []
    for number, line in enumerate(lines, 1):
        delimiter = max(",;\t", key=line.count)
        for parts in csv.reader([line], delimiter=delimiter) if line.strip() else ():
            try:
                subjects.append(_read_subject([part for part in parts if part.strip()]))
            except UsageError as error:
                raise UsageError(f"{path}, line {number}: {error.message}", error.next_step) from None
    return subjects


def _read_company(country: str, number: str) -> Company:
    from firmlake.intake.identifiers import read_company

    try:
        return read_company(country.upper(), number)
    except UsageError:
        raise UsageError("The company number is not valid for this country", f"Give {_FORMS}") from None


def _agree(names: Sequence[str]) -> None:
    """Ask whether all these names are meant, without logging them; UsageError if they are not, or nobody can answer."""
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
    from firmlake.privacy.tombstones import lift

    if not subjects:
        raise UsageError("--withdraw names nobody", "Name a person, contact or company as when it was forgotten")
    with lock(folders, "firmlake forget"):
        count = sum(lift(settings.privacy, folders, subject) for subject in subjects)
    call.answer({"withdrawn_count": count}, [f"Withdrawn: {count:,} of {count_of(len(subjects), 'subject')}"])
    if not (missing := len(subjects) - count):
        return EXIT_DONE
    call.say(
        f"firmlake: Not withdrawn: {count_of(missing, 'subject')}, which no `firmlake forget` named like that. Use the "
        "same name, and --company if you gave it then"
    )
    return EXIT_FAILED
