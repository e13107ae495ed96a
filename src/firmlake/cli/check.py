"""The command `check`: compare a service with the assumptions about it."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from firmlake.cli.call import PATH, Call, command
from firmlake.core.clock import utc_now
from firmlake.core.errors import EXIT_DONE, EXIT_FAILED, Stopped

if TYPE_CHECKING:
    from firmlake.core.settings import Settings


@click.command()
@click.argument("company_list", metavar="[LIST]", type=PATH, required=False)
@click.option(
    "--company",
    "named",
    multiple=True,
    metavar="NUMBER",
    help='Request this company, such as "BE 0403.227.515"; repeatable.',
)
@click.option(
    "--companies", "most", type=click.IntRange(1, 100), default=3, show_default=True, metavar="N",
    help="Request at most N companies, including one that does not exist; each costs at most one credit.",
)  # fmt: skip
@click.option("--write", "path", type=PATH, metavar="FILE", help="Write settings that fit the service to FILE.")
@command
def check(call: Call, company_list: Path | None, named: tuple[str, ...], most: int, path: Path | None) -> int:
    """Request a few companies from a service, and compare its behaviour with every assumption about it.

    The companies come from LIST; without LIST they are well-known ones. Answers that were paid for are stored like
    those of a run, so the next run does not buy them again. Nothing is changed in the service.
    """
    from firmlake.api import service
    from firmlake.check.finding import needs_you
    from firmlake.core.folders import Folders
    from firmlake.core.lock import lock
    from firmlake.enrich.check import check as start
    from firmlake.enrich.contact import REQUESTS_MAX, choose_companies, write_settings
    from firmlake.intake.identifiers import read_named_company
    from firmlake.terminal.runs import check_content, describe_asking, show_checked

    settings, origins = call.settings_with_origins()
    service.check_access(settings)
    companies = list(map(read_named_company, named))
    asking = choose_companies(settings, companies, company_list, _budget(settings, most))
    folders = Folders.of(settings)
    with lock(folders, "firmlake check"):
        service.check_service(settings, folders)
        call.say(describe_asking(settings, asking, REQUESTS_MAX))
        checked = start(settings, asking, utc_now)
    if path is not None:
        write_settings(path, {**_kept(settings, origins), **checked.changes}, checked.findings, utc_now())
    call.answer(check_content(checked), lambda: show_checked(checked))
    if path is not None:
        call.say(f"Written: {path}. To use it: `firmlake run LIST --config {quote(str(path))}`")
    return EXIT_FAILED if needs_you(checked.findings) else EXIT_DONE


def _budget(settings: Settings, most: int) -> int:
    """Return the credits that may be spent.

    Raises:
        Stopped: `run.max_credits` is 0. Raise it.
    """
    credits = most if settings.run.max_credits < 0 else min(most, settings.run.max_credits)
    if not credits:
        raise Stopped(
            "run.max_credits = 0 allows no company to be checked",
            "Raise it: a check costs at least one credit, once in 30 days",
        )
    return credits


def _kept(settings: Settings, origins: dict[str, str]) -> dict[str, Any]:
    """Return the settings that the written file keeps: those of the settings file in use, and the address."""
    from firmlake.core.settings import changed_keys, value_of

    is_lasting = {key for key, origin in origins.items() if origin.endswith(".toml")} | {"api.base_url"}
    return {key: value_of(settings, key) for key in changed_keys(settings) if key in is_lasting}
