"""Random weeks of a tiny world: each table as of each week is that week's table, and plain Python knows every version.

Companies answer, are not found, fail or are not asked. Rows occur several times, move and come back, and a part of an
answer may be unreadable. Then the rows that the unreadable ones may stand for stay.
"""

from __future__ import annotations

import random
from datetime import date
from typing import Any, NamedTuple

import duckdb
import pytest

from firmlake.core.company import Company
from firmlake.core.folders import Folders
from firmlake.tables.schemas import TABLES
from firmlake.warehouse.generations import list_generations
from support import (
    DAY,
    MINUTE,
    NOON,
    answer,
    found,
    header,
    land,
    make_run,
    not_found,
    party,
    publish_landed,
    query,
    slow,
)
from support import period as record

WEEKS, COMPANIES = 5, [Company("BE", f"04032275{number:02}") for number in range(1, 21)]
RUNS = [f"{NOON + week * 7 * DAY:%Y%m%dT%H%M%SZ}-0000" for week in range(WEEKS)]
FATES = ("not asked", "failed", "not found", "unreadable in part", *["whole"] * 5)
COLUMNS = {"relationships": "related_name, stake_fraction::DOUBLE", "financials": "start_date::VARCHAR, equity::DOUBLE"}


class Version(NamedTuple):
    """A row that a company has or had: its place in the answer, its values, and the runs that opened and closed it."""

    company: str
    values: tuple[Any, ...]
    opened: str
    closed: str | None = None


class Model:
    """What the warehouse should hold of one dataset: the rows of each company in their order, and the closed ones."""

    def __init__(self):
        self.rows, self.closed = {company: [] for company in COMPANIES}, []

    def replace(self, company, run_id, answered, is_partial):
        left, now = list(self.rows[company]), []
        for values in answered:
            same = next((row for row in left if row.values == values), None)
            if same:
                left.remove(same)
            now.append(same or Version(company.company_number, values, run_id))
        for row in left:
            if is_partial and row.values[0] not in {values[0] for values in answered}:
                now.append(row)
            else:
                self.closed.append(row._replace(closed=run_id))
        self.rows[company] = now

    def all_rows(self):
        return [(row.company, *row.values, row.opened) for rows in self.rows.values() for row in rows]


@pytest.fixture(scope="module", params=[1, *slow(2, 3, 4, 5)])
def weeks(request, tmp_path_factory):
    """Publish the weeks: the data folder, the models after all weeks, and each model's rows after each week."""
    folders, chance = Folders(tmp_path_factory.mktemp("versions")), random.Random(request.param)
    models, shown = {dataset: Model() for dataset in COLUMNS}, []
    for week, run_id in enumerate(RUNS):
        at = NOON + week * 7 * DAY
        fates = {company: chance.choice(FATES) for company in COMPANIES}
        asked = [company for company in COMPANIES if fates[company] != "not asked"]
        run = make_run(folders, asked, list(COLUMNS), run_id=run_id, at=at)
        land(run, *(
            _answer(dataset, company, fates[company], model, run_id, at, chance)
            for dataset, model in models.items() for company in asked
        ))  # fmt: skip
        publish_landed(run, at=at + MINUTE, keep=WEEKS)
        shown.append({dataset: model.all_rows() for dataset, model in models.items()})
    return folders, models, shown


def _answer(dataset, company, fate, model, run_id, at, chance):
    """Draw the answer of a company, and tell the model."""
    if fate == "failed":
        return header(dataset, [company], kind="given_up", status=None, error="refused: 422", at=at), b""
    if fate == "not found":
        model.replace(company, run_id, [], is_partial=False)
        return answer(dataset, not_found(company, dataset), at=at)
    values, records = _draw(dataset, chance)
    if fate != "whole":
        place = chance.randint(0, len(records))
        records.insert(place, _UNREADABLE[dataset])
        if dataset == "relationships":  # the owner is there, but nothing is known of it
            values.insert(place, (None, None))
    model.replace(company, run_id, values, is_partial=fate != "whole" and dataset == "financials")
    return answer(dataset, found(company, dataset, *records), at=at, offset=0)


_UNREADABLE = {"relationships": "no record", "financials": record(2024, startDate="never")}


def _draw(dataset, chance):
    """Draw the values of a few records, and the records."""
    if dataset == "financials":
        values = [(f"{year}-01-01", chance.choice((1.0, 2.5))) for year in (2024, 2023, 2022) if chance.random() < 0.7]
        return values, [record(int(start[:4]), solvency__equity=equity) for start, equity in values]
    drawn = [(chance.choice("ABC"), chance.choice((0.25, 0.5, None))) for _ in range(chance.randint(0, 4))]
    return drawn, [party(None, name=name, percentage=stake) for name, stake in drawn]


@pytest.mark.parametrize("dataset", COLUMNS)
def test_each_generation_holds_the_rows_of_its_week_in_their_order(weeks, dataset):
    folders, _, shown = weeks
    query = (
        f"SELECT company_number, {COLUMNS[dataset]}, valid_from_run FROM {dataset} ORDER BY company_number, position"
    )
    for path, now in zip(list_generations(folders), shown, strict=True):
        with duckdb.connect(path, read_only=True) as connection:
            assert connection.execute(query).fetchall() == now[dataset]


@pytest.mark.parametrize("dataset", COLUMNS)
def test_each_week_can_be_asked_for(weeks, dataset):
    folders, _, shown = weeks
    for run_id, now in zip(RUNS, shown, strict=True):
        columns = f"company_number, {COLUMNS[dataset]}, valid_from_run"
        rows = query(folders, f"SELECT {columns} FROM {dataset}_as_of('{run_id}')")
        assert sorted(rows, key=repr) == sorted(now[dataset], key=repr)


@pytest.mark.parametrize("dataset", COLUMNS)
def test_history_has_every_closed_version_once(weeks, dataset):
    folders, models, _ = weeks
    columns = f"company_number, {COLUMNS[dataset]}, valid_from_run, valid_to_run"
    rows = query(folders, f"SELECT {columns} FROM {dataset}_history")
    expected = [(row.company, *row.values, row.opened, row.closed) for row in models[dataset].closed]
    assert sorted(rows, key=repr) == sorted(expected, key=repr)
    assert expected


def test_every_table_as_of_a_week_is_the_table_of_its_generation(weeks):
    folders, _, _ = weeks
    for run_id, path in zip(RUNS, list_generations(folders), strict=True):
        with duckdb.connect(path, read_only=True) as connection:
            for table in (table for table in TABLES.values() if table.volatile is not None):
                columns = ", ".join(column.name for column in table.columns if column.name not in table.volatile)
                rows = f"SELECT {columns}, valid_from_run FROM {table.name}{{}} ORDER BY ALL"
                then = connection.execute(rows.format("")).fetchall()
                assert query(folders, rows.format(f"_as_of('{run_id}')")) == then


def test_a_period_is_known_from_the_day_on_which_it_was_received(weeks):
    folders, _, shown = weeks
    seen = {row[:2] for now in shown for row in now["financials"]}
    for year in (2022, 2023, 2024):
        day = date(year + 1, 7, 1)
        rows = query(folders, f"SELECT company_number, start_date::VARCHAR FROM financials_known_on(DATE '{day}')")
        assert sorted(rows) == sorted(one for one in seen if int(one[1][:4]) <= year)
