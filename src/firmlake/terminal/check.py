"""The output of `firmlake check`."""

from __future__ import annotations

from typing import Any

from firmlake.check.finding import VERDICTS, needs_you
from firmlake.core.settings import Settings
from firmlake.core.text import count_of
from firmlake.enrich.check import Checked
from firmlake.enrich.contact import Asking
from firmlake.terminal.echo import echo
from firmlake.terminal.rows import show_table


def describe_asking(settings: Settings, asking: Asking, request_max: int, exposed_max: int) -> str:
    """Describe what a check will ask for and cost, before anything is sent."""
    names = ", ".join(map(str, asking.companies))
    stranger = f", and for {asking.stranger}, which does not exist" if asking.stranger else ""
    return (
        f"Asks {settings.api.base_url} for {names}{stranger}: at most {count_of(asking.credit_count, 'credit')} and "
        f"{request_max} requests. Nothing is changed at the service: lists are only read. If the service charges for "
        f"every request, its headers show that; without such headers it may charge about {exposed_max} credits"
    )


def check_content(checked: Checked) -> dict[str, Any]:
    """Convert a check to plain values for JSON."""
    return {
        "findings": checked.findings, "settings": checked.changes, "request_count": checked.request_count,
        "credits_charged": checked.charged, "run_id": checked.run_id or None,
        "needs_you_count": len(needs_you(checked.findings)),
    }  # fmt: skip


def show_checked(checked: Checked) -> None:
    """Print the findings as a table, then the next steps."""
    show_table(
        ("assumption", "seen", "verdict"),
        [(one.assumption, one.seen, VERDICTS[one.verdict]) for one in checked.findings],
    )
    charged = "credits unknown" if checked.charged is None else f"{count_of(checked.charged, 'credit')} charged"
    echo(
        f"{count_of(checked.request_count, 'request')}, {charged}; "
        f"{count_of(len(checked.changes), 'setting')} to change"
    )
    for one in needs_you(checked.findings):
        echo(f"- {one.assumption}: {one.seen}. {one.next_step}")
