"""A data folder in which a person is named wherever a service or a list can name one."""

from __future__ import annotations

from firmlake.core.folders import Folders
from firmlake.core.settings import PathSettings, RunSettings, Settings
from support import (
    ACME,
    BOLT,
    CIRC,
    DAY,
    MINUTE,
    NOON,
    answer,
    found,
    land,
    lookalike,
    make_run,
    party,
    period,
    publish_landed,
    publish_list,
)

NAME = "Jozefien Übelacker"
SPELLED = (NAME, "Ubelacker", "Übelacker", "Jozefien")
WEEKS = 3


def now():
    return NOON + 30 * DAY


def settings_of(folders: Folders) -> Settings:
    run = RunSettings(duckdb_memory="100MB", keep_generations=9)
    return Settings(paths=PathSettings(data=str(folders.data)), run=run)


def week(folders: Folders, number: int) -> None:
    """A run in which the person is a parent with a name, in unknown fields, and among the lines that were refused."""
    at = NOON + number * 7 * DAY
    run = make_run(
        folders, run_id=f"2026010{number + 1}T120000Z-000{number}", at=at, refused=[(9, f"{NAME}, +32", "no number")]
    )
    stake = 0.2 + number / 10
    parents = [
        party(None, name=NAME, percentage=stake),
        party(None, name="ÜBELACKER, Jozefien", percentage=0.1, ubo={"note": f"{NAME}, zaakvoerder"}),
        party(BOLT, name="Bolt BV"),
        5,
    ]
    strange = {**found(CIRC, "relationships", party(None, name="Somebody")), "signed": NAME}
    land(run, answer("relationships", found(ACME, "relationships", *parents), found(BOLT, "relationships", parents[0])))
    land(run, answer("relationships", strange))
    for dataset, record in (("financials", period(extra={"auditor": NAME})), ("lookalikes", lookalike(BOLT))):
        land(run, answer(dataset, *(found(company, dataset, record) for company in (ACME, BOLT, CIRC)), offset=0))
    publish_landed(run, at=at + MINUTE, keep=9)


def make_weeks(folders: Folders, count: int = WEEKS) -> Folders:
    """Weekly runs, and a list whose cells, refused lines and reasons name the person."""
    for number in range(count):
        week(folders, number)
    cells = [
        {"Contact": NAME, "Mail": "jozefien.ubelacker@example.com", NAME: "-"},
        {"Contact": "-", "Mail": "-", NAME: "-"},
    ]
    publish_list(folders, [ACME, None], day=28, cells=cells, given=f"0403227515;{NAME}", reason=f"{NAME} is no number")
    return folders
