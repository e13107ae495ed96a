"""Upkeep of a data folder on a schedule: prune, archive, verify, metrics, report.

    firmlake.flows.upkeep.upkeep     its entrypoint, for deployments; by hand, use the commands themselves

Each is the command of the same name in a process of its own, with the same locks. If a run holds the data folder, the
upkeep is skipped and comes again at its next time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from firmlake.core.errors import EXIT_DONE, EXIT_LOCKED, FirmlakeError
from firmlake.core.settings import Settings
from job import NO_RUN_YET, end, is_before_first_run, job, read_settings, tell

Command = Literal["prune", "archive", "verify", "metrics", "report"]


@job(hours=12)
def upkeep(
    command: Command = "report",
    target: str = "",
    options: list[str] | None = None,
    config: str | None = None,
    overrides: dict[str, str] | None = None,
) -> str:
    """Carry out one command of upkeep.

    Args:
        command: What to do.
        target: Where `archive` copies to, or the file that `metrics` or `report` writes; empty for metrics.prom or
            report.html in the data folder. An archive without a target is skipped.
        options: Further options of the command, such as `--staged-days=90`.
        config: A settings file. None reads config/firmlake.toml.
        overrides: Settings by dotted key. Prefect stores and shows all parameters: pass no secrets.

    Returns:
        The last line that the command printed, or the file that `metrics` wrote.
    """
    settings = read_settings(config, overrides)
    if command == "archive" and not target:
        return end(
            "", "Skipped: no place to archive to is named. Set LAKE_ARCHIVE and run `python -m firmlake.flows.deploy`"
        )
    if is_before_first_run(settings) and not (command == "metrics" and Path(settings.paths.data).exists()):
        return end("", NO_RUN_YET)
    arguments = _arguments(command, target, settings)
    flags = [*(options or ()), *_settings(config, overrides)]
    done = subprocess.run(  # noqa: S603 - our own command, without a shell
        [sys.executable, "-P", "-m", "firmlake", *arguments, *flags], capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    for line in lines:
        tell(line)
    said = (done.stderr.strip().splitlines() or [""])[-1].removeprefix("firmlake: ")
    if done.returncode == EXIT_LOCKED:
        return end("", f"Skipped: {said}")
    if done.returncode != EXIT_DONE:
        error = FirmlakeError(said or (lines or [""])[-1] or f"{command} ended with {done.returncode}")
        error.exit_code = done.returncode
        raise error
    last = arguments[-1] if command == "metrics" else (lines or ["done"])[-1]
    return end(last, f"{command}: {last}")


def _arguments(command: Command, target: str, settings: Settings) -> list[str]:
    if command == "metrics":
        return ["status", "--metrics", target or str(Path(settings.paths.data) / "metrics.prom")]
    if command == "report":
        return ["report", *(["--to", target] if target else [])]
    return [command, *([target] if target else [])]


def _settings(config: str | None, overrides: Mapping[str, str] | None) -> list[str]:
    flags = [part for key, value in (overrides or {}).items() for part in ("--set", f"{key}={value}")]
    return [*(["--config", config] if config else []), *flags]
