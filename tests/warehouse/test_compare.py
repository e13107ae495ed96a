"""Companies beside their peers: groups, percentiles, distributions and cohorts are those that pandas computes."""

from __future__ import annotations

import random
from collections import Counter

import pandas as pd
import pytest

from firmlake.tables.schemas import TABLES

from .figures import Figures

YEARS = (2022, 2023, 2024)
LEVELS = ("committee and size", "committee", "size", "country", "all")
NOT_STATED = {"country", "company_number", "start_date", "end_date", "dup_no", "position", "extra_json", "fetched_at",
              "run_id", "valid_from_run"}  # fmt: skip


def draw(chance: random.Random, company: int) -> dict[str, object]:
    """What a company states every year; some state no employees or no total assets, and many have equal figures."""
    return {
        "committee": chance.choices((None, "200", "0124", "330"), (3, 10, 4, 1))[0],
        "employee_count": chance.choice((None, 0, 5, 9, 10, 49, 50, 249, 250)),
        "total_assets": chance.choice((None, 2_000_000, 2_000_001, 10_000_000, 43_000_000, 43_000_001)),
        "first_year": chance.choice(YEARS),
    }


@pytest.fixture(scope="module")
def world():
    """Sixty companies, ten of them in one group: the warehouse, and their periods as a data frame."""
    chance, made, rows = random.Random(34), Figures(), []
    for company in range(1, 61):
        drawn = draw(chance, company)
        for year in (year for year in YEARS if year >= drawn["first_year"]):
            values = {
                "employee_count": drawn["employee_count"],
                "total_assets": drawn["total_assets"],
                "equity": chance.randint(-20, 80) * 10_000,
                "revenue": chance.choice((None, chance.randint(1, 40) * 1000)),
                "net_profit": chance.randint(-5, 5) * 100,
            }
            made.files(company, f"{year}-12-31", f"{year}-01-01", **values)
            if drawn["committee"]:
                for position, code in enumerate((drawn["committee"], "999")):
                    made.add("financial_joint_committees", company, start_date=f"{year}-01-01",
                             end_date=f"{year}-12-31", dup_no=0, position=position, code=code)  # fmt: skip
            rows.append({"company": f"{company:08}", "year": year, "committee": drawn["committee"], **values})
    for company in (1, 2):
        made.add("list_members", company, list_name="mine", line=company, status="accepted", given="", columns="{}")
    frame = pd.DataFrame(rows)
    for name in ("employee_count", "total_assets", "revenue"):
        frame[name] = frame[name].astype("Float64")
    frame["equity_fraction"] = (frame["equity"] / frame["total_assets"]).round(6)
    return made.made(), frame


def band(row: pd.Series) -> str | None:
    """The size of a company, by the recommendation of the European Commission."""
    for name, limits in (("employee_count", (9, 49, 249)), ("total_assets", (2e6, 10e6, 43e6))):
        if not pd.isna(row[name]):
            return ("micro", "small", "medium", "large")[sum(row[name] > limit for limit in limits)]
    return None


def keys(row: pd.Series) -> list[tuple[object, ...] | None]:
    """The group of a company at each level, None where it has none."""
    size, committee = band(row), None if pd.isna(row["committee"]) else row["committee"].lstrip("0")
    return [
        ("NL", committee, size) if committee and size else None,
        ("NL", committee, None) if committee else None,
        ("NL", None, size) if size else None,
        ("NL",),
        (),
    ]


@pytest.fixture(scope="module")
def groups(world):
    """Level and members of the group of each company, by plain counting."""
    _, frame = world
    newest = frame.sort_values("year").groupby("company").tail(1)
    of = {row["company"]: keys(row) for _, row in newest.iterrows()}
    sizes = Counter((no, key) for all_keys in of.values() for no, key in enumerate(all_keys) if key is not None)
    chosen = {}
    for company, all_keys in of.items():
        no = next(no for no, key in enumerate(all_keys) if key is not None and (sizes[no, key] >= 10 or no == 4))
        members = {other for other, theirs in of.items() if theirs[no] == all_keys[no]}
        chosen[company] = (no, members, no > next(no for no, key in enumerate(all_keys) if key is not None))
    return chosen


def test_a_group_is_the_narrowest_of_ten_and_says_where_it_was_widened(world, groups):
    made, _ = world
    rows = made.ask("SELECT company_number, level, peer_company_count, is_widened FROM peer_groups")
    assert {company: rest for company, *rest in rows} == {
        company: [LEVELS[no], len(members), wide] for company, (no, members, wide) in groups.items()
    }
    assert len({no for no, *_ in groups.values()}) >= 3
    for company in ("00000001", "00000007"):
        peers = {row[0] for row in made.ask(f"SELECT company_number FROM peers_of('NL', '{company}')")}
        assert peers == groups[company][1] - {company}


@pytest.mark.parametrize("year", [None, 2023])
@pytest.mark.parametrize("measure", ["total_assets", "equity", "equity_fraction", "revenue_annual"])
def test_ranks_and_percentiles_are_those_of_pandas(world, groups, measure, year):
    made, frame = world
    values = frame.rename(columns={"revenue": "revenue_annual"}).sort_values("year")
    values = values.groupby("company").tail(1) if year is None else values[values["year"] == year]
    values = values.set_index("company")[measure].dropna().astype(float)
    expected = {}
    for company, value in values.items():
        among = values[values.index.isin(groups[company][1])]
        lower = (among < value).sum() / (len(among) - 1) if len(among) >= 5 else None
        expected[company] = (value, among.rank(method="min", ascending=False)[company], lower, len(among))
    rows = made.ask(
        "SELECT company_number, value, value_rank, percentile, value_count "
        f"FROM percentiles({year or ''}) WHERE measure = '{measure}'"
    )
    assert {company for company, *_ in rows} == expected.keys() != set()
    for company, *told in rows:
        assert told == pytest.approx(expected[company], abs=1e-9), company


def test_a_benchmark_shows_the_distribution_of_the_same_peers(world, groups):
    made, frame = world
    newest = frame.sort_values("year").groupby("company").tail(1).set_index("company")
    placed = "measure, percentile, value_rank, value_count"
    rows = made.ask(
        f"SELECT asked.company_number, {placed}, [p10, p25, p50, p75, p90] "
        "FROM (SELECT DISTINCT company_number FROM financials) asked, benchmark('NL', asked.company_number)"
    )
    of_equity = {company: (count, told) for company, measure, _, _, count, told in rows if measure == "equity"}
    assert of_equity.keys() == groups.keys()
    for company, (_, members, _) in groups.items():
        equity = newest["equity"][newest.index.isin(members)].astype(float)
        count, told = of_equity[company]
        assert count == len(equity)
        assert told == pytest.approx(equity.quantile([0.1, 0.25, 0.5, 0.75, 0.9]).tolist())
    assert Counter(row[:-1] for row in rows) == Counter(made.ask(f"SELECT company_number, {placed} FROM percentiles()"))


def test_cohorts_are_followed_from_their_first_accounts(world):
    made, frame = world
    first = frame.groupby("company")["year"].min().rename("first")
    joined = frame.join(first, on="company")
    expected = {
        key: (len(part), (part["net_profit"] < 0).mean(), part["equity_fraction"].dropna().astype(float).median())
        for key, part in joined.groupby(["first", "year"])
    }
    rows = made.ask(
        "SELECT first_year, fiscal_year, company_count, loss_fraction, equity_fraction_median, cohort_company_count "
        "FROM cohorts"
    )
    assert {(first, year) for first, year, *_ in rows} == expected.keys()
    for first_year, year, *told, cohort in rows:
        assert told == pytest.approx(expected[first_year, year])
        assert cohort == (first == first_year).sum()


def test_every_field_has_its_fill_rate_in_all_and_on_a_list(world):
    made, frame = world
    fields = {column.name for column in TABLES["financials"].columns} - NOT_STATED
    rows = made.ask("SELECT list_name, fiscal_year, field, filled_count, period_count FROM fill_rates")
    assert {field for _, _, field, _, _ in rows} == fields
    told = {(name, year, field): (filled, periods) for name, year, field, filled, periods in rows}
    for name, part in ((None, frame), ("mine", frame[frame["company"].isin(["00000001", "00000002"])])):
        for year, of_year in part.groupby("year"):
            for field in ("revenue", "employee_count", "equity"):
                assert told[name, year, field] == (of_year[field].count(), len(of_year))
