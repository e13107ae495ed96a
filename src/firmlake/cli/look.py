"""The commands `status` and `report`, which show the state of a data folder and what it holds."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path

from firmlake.cli.call import Call, command
from firmlake.core.files import write_file
from firmlake.core.work import utc_now


@command
def status(call: Call, *, company_list: str = "", metrics: Path | None = None) -> None:
    """Show the last run, what is running, what is unfinished or incomplete and why, and what to do next.

    Args:
        company_list (--list NAME): Only the companies of this list.
        metrics (FILE): Write the status to this file as OpenMetrics text, and print nothing.
    """
    settings, folders = call.on_folder()
    from firmlake.report.status import read_status, render_metrics
    from firmlake.terminal.status import status_parts

    found = read_status(folders, company_list, settings.run)
    if metrics:
        text = render_metrics(found).encode()
        mode = 0o600
        with suppress(OSError):  # if there is no file yet, keep the default
            mode = stat.S_IMODE(metrics.stat().st_mode)

        def write(aside: Path) -> None:
            aside.write_bytes(text)
            aside.chmod(mode)  # keep it readable for the collector, which may be another user

        write_file(metrics, write, folders.readers)
        if not call.as_json:
            return
    call.answer(found, status_parts(found, utc_now()))


@command
def report(call: Call, *, path: Path | None = None, company_list: str = "") -> None:
    """Write a report as one HTML file: the portfolio in charts, movers, changes, groups, findings, runs and cost.

    Args:
        path (--to): File to write. Default: report.html in the data folder.
        company_list (--list NAME): Only the companies of this list; percentiles, ranks and totals count no others.
            Ownership and groups name all owners and members.
    """
    settings, folders = call.on_folder()
    from firmlake.report.page import write_report

    memory = settings.run.duckdb_memory
    path = write_report(folders, utc_now(), path, memory_limit=memory, company_list=company_list, run=settings.run)
    call.answer({"report": str(path)}, [str(path)])
