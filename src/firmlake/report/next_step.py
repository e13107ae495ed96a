"""What to do next about a data folder."""

from __future__ import annotations

from shlex import quote

from firmlake.core.errors import EXITS_OF_SIGNALS
from firmlake.core.failure import LastFailure
from firmlake.landing.run import Outcome, Run
from firmlake.report.state import Status

__all__ = ["REJECTED", "UNLISTED", "choose_next_step"]

UNLISTED = "waiting, on no list"
"""Companies that a budget left out, and that no list names any more: nothing waits for them."""
REJECTED = (
    "the same answer is rejected again, so use `firmlake replay` after an update that reads it, or `firmlake redrive` "
    "once the service sends it right"
)
"""What to do about records that are there but cannot be read."""


def choose_next_step(status: Status, unfinished: list[Run], refused: list[tuple[Run, Outcome]]) -> str:
    """Return what to do next: first what is open, then what failed, then what is left of the last run.

    Args:
        status: The state of the folder, without a next step.
        unfinished: The runs that can go on, oldest first.
        refused: The runs that were refused at publishing, oldest first, with how they ended.
    """
    failure, last = status.failure, status.last_run
    if failure and failure.is_mended:
        failure = None
    if status.running:
        return f"Wait for {status.running}"
    if refused and refused[-1][0].run_id > max((run.run_id for run in unfinished), default=""):
        run, outcome = refused[-1]
        return outcome.next_step or f"{_sentence(run.plan.again)}; within the paid window no company is charged twice"
    first = _first_step(failure, bool(unfinished))
    if unfinished:
        return first + _resume(status, unfinished[-1])
    if status.open_contacts:
        plan, list_id, count = status.open_contacts
        return f"{first}`firmlake contacts apply {quote(str(plan))}` settles {count:,} contacts of list {list_id}"
    if failure and failure.next_step:
        return failure.next_step
    if status.held:
        return "`firmlake query --held SQL` shows what is held back; `firmlake publish --anyway` releases it"
    if last is None:
        return "`firmlake run LIST` fetches a first list; `firmlake demo` tries it without a key"
    if last.next_step:
        return last.next_step
    of_lists = [(each.name, each.last_run.next_step) for each in status.lists if each.last_run]
    steps = [
        *(f"For {name}: {next_step}" for name, next_step in of_lists if next_step),
        *_unpark({kind for kind, *_ in status.parked}),
        *(next_step for *_, next_step in status.damaged),
        *(each.next_step for each in status.undelivered),
        *filter(None, [status.refresh_off]),
    ]
    return next(iter(steps), "Nothing to do")


# ---------------------------------------------------------------------------------------------------------------------


def _unpark(kinds: set[str]) -> list[str]:
    """Return what gets the data of parked companies, in a list; an empty one if none are parked."""
    kinds = kinds - {UNLISTED}
    if kinds == {"rejected records"}:
        return [f"rejects says what does not fit; {REJECTED}"]
    if kinds - {"waiting"}:
        return ["`firmlake redrive` asks again for parked companies; dead_letters and rejects say why they are parked"]
    return ["Run the list of the waiting companies again"] if kinds else []


def _first_step(failure: LastFailure | None, will_resume: bool) -> str:
    """Return what the last failure asks for before anything else; an interruption asks only to resume."""
    is_interruption = will_resume and failure and failure.exit_code in EXITS_OF_SIGNALS
    return f"{failure.next_step}. Then: " if failure and failure.next_step and not is_interruption else ""


def _resume(status: Status, run: Run) -> str:
    damage = next((step for name, _, step in status.damaged if name == run.run_id), "")
    return damage or f"{_sentence(run.plan.again)}: run {run.run_id} resumes where it stopped"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
