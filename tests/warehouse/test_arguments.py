"""A macro's arguments mean what they mean where it is called, whatever the tables and columns there are called.

DuckDB puts arguments into a macro as text: one that stands beside a table of the macro's own is looked for there first.
"""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from firmlake.core.errors import UsageError
from firmlake.intake.identifiers import read_company
from firmlake.tables.schemas import TABLES
from firmlake.warehouse.views import definitions

from .figures import Figures

CALLS = {
    "amounts_within": ["[{first_day: DATE '2024-01-01', last_day: DATE '2024-12-31'}]"],
    "beneficial_owners": ["'customers'", "0.5"],
    "benchmark": ["'NL'", "'00000002'"],
    "cagr": ["1"],
    "credit_limits": ["1", "0.1", "0.1"],
    "exposure": ["'customers'", "'limit'"],
    "financials_known_on": ["DATE '2025-06-01'"],
    "group_branches": ["0.5"],
    "group_of": ["'NL'", "'00000002'", "0.5"],
    "group_rollup": ["'NL'", "'00000002'", "0.5"],
    "groups": ["0.5"],
    "holdings_of": ["'NL'", "'00000001'"],
    "last_twelve_months": ["DATE '2025-06-30'"],
    "newest_measures_in": ["'all'"],
    "overdue": ["DATE '2027-01-01'"],
    "owners_of": ["'NL'", "'00000002'"],
    "peers_of": ["'NL'", "'00000002'"],
    "percentiles": ["2024"],
    "place_by_year": ["'NL'", "'00000002'", "'revenue_annual'"],
    "portfolio_as_of": ["TIMESTAMP '2030-01-01'"],
    "prospects": ["'companies'", "1"],
    "real_growth": ["'main.prices'"],
    "sme_status": ["'NL00000002'"],
    "tops_of": ["'NL'", "'00000002'", "0.5"],
    "ultimate_parents": ["'NL'", "'00000002'", "0.5"],
    "watched_figures": ["DATE '2026-01-01'"],
    "zone_migration": ["DATE '2023-12-31'", "DATE '2025-01-01'"],
    **{name: ["'r'"] for name in ("financials_as_of", "generation_at", "runs_as_of")},
}
"""A call of each macro; of those of the past that differ by their table alone, of one."""

SQL = {one.name: one.sql for one in definitions() if one.kind == "macro" or one.name == "generation_at"}
PARAMETERS = {one.name: one.parameters for one in definitions() if one.kind == "macro"}
ABOUT_A_COMPANY = [name for name, parameters in PARAMETERS.items() if "of_country, of_number" in parameters]
WITH_A_THRESHOLD = [name for name, parameters in PARAMETERS.items() if "threshold" in parameters and name in CALLS]
TABLE_OR_ALIAS = re.compile(r"\b(?:FROM|JOIN) (\w+)(?: (\w+))?|\) (\w+)$", re.M)
DICTIONARY = Path(__file__).parents[2] / "docs" / "data_dictionary.md"
COLUMNS = ("id", "country", "run_id", "company_number", "stake", "end_date", "generation")
"""Columns of what the macros ask; those of nearly all first."""


@pytest.fixture(scope="module")
def world():
    made = Figures()
    for company in (1, 2, 3):
        made.owner(company, company - 1, 0.6)
        made.add("lookalikes", company, rank=1, score=0.5, lookalike_country="NL",
                 lookalike_company_number=f"{company + 50:08}")  # fmt: skip
        for year in (2023, 2024):
            made.files(company, f"{year}-12-31", f"{year}-01-01", revenue=year, date_received=f"{year + 1}-02-01")
    for generation, run in enumerate(("r", "s"), 1):
        made.loads(generation, run)
        at = f"2025-{generation:02}-01"
        made.fill("runs", run_id=run, started_at=at, finished_at=at)
    made.list_of("customers", (1, "10"), (3, "20"))
    made.connection.execute(
        "CREATE TABLE prices AS SELECT 'NL' AS country, DATE '2023-06-01' AS on_date, 100 AS price_index"
    )
    made.connection.execute("UPDATE financials_versions SET valid_from = 2 WHERE start_date = '2024-01-01'")
    return made.made()


def call(macro, arguments, tables=()):
    """Call it beside tables whose columns are arguments."""
    called = f"{macro}({', '.join(arguments)})"
    called = f"(SELECT {called} AS number)" if macro == "generation_at" else called
    return f"SELECT called.* FROM {', '.join((*tables, called))} called ORDER BY ALL"


def same(columns):
    """Their value, or null where they are not all the same."""
    return f"CASE WHEN len(list_distinct([{', '.join(columns)}])) = 1 THEN {columns[0]} END"


@pytest.mark.parametrize("macro", CALLS)
@pytest.mark.slow
def test_an_argument_is_never_taken_for_something_inside(world, macro):
    arguments = CALLS[macro]
    expected = world.ask(call(macro, arguments))
    assert expected
    aliases = sorted({word for found in TABLE_OR_ALIAS.findall(SQL[macro]) for word in found if word.islower()})
    qualified = [f'"{alias}".{column}' for alias in aliases for column in COLUMNS[:3]]
    for place, argument in enumerate(arguments):
        if argument in ("'companies'", "'revenue_annual'", "'main.prices'"):
            continue  # the name of a table, or of a measure that decides on the view that is read, is no column
        row = f"(SELECT {', '.join(f'{argument} AS {column}' for column in COLUMNS)})"
        for tables, columns in (([row], COLUMNS), ([f'{row} "{alias}"' for alias in aliases], qualified)):
            hostile = [*arguments[:place], same(columns), *arguments[place + 1 :]]
            assert world.ask(call(macro, hostile, tables)) == expected, hostile


def test_every_macro_is_called_here():
    as_of = {f"{name}_as_of" for name in TABLES}
    assert SQL.keys() - CALLS.keys() <= as_of
    assert CALLS.keys() <= SQL.keys()


@pytest.mark.parametrize("macro", [name for name in ABOUT_A_COMPANY if name != "tops_of"])  # an id is its own top
def test_a_company_that_is_not_held_gives_no_rows(world, macro):
    """As the dictionary says: a macro cannot warn."""
    _, _, *others = CALLS[macro]
    assert world.ask(call(macro, ["'BE'", "'0403170701'", *others])) == []
    assert "For a company that is not held (see companies), a macro returns no rows" in DICTIONARY.read_text("utf-8")


@pytest.mark.parametrize("macro", ABOUT_A_COMPANY)
def test_a_company_is_found_by_its_number_in_any_usual_form(world, macro):
    _, number, *others = CALLS[macro]
    usual = [["'nl '", f"'{number[1:5]}.{number[5:8]} {number[8:]}"], ["'NL'", f"'nl-{number[2:]}"]]
    expected = world.ask(call(macro, ["'NL'", number, *others]))
    assert [world.ask(call(macro, [*company, *others])) for company in usual] == [expected, expected]


@pytest.mark.parametrize(
    ("country", "number"),
    [
        ("BE", "0403.227.515"), ("BE", "403227515"), ("be", "BE 0403 227 515"), ("BE", "1000000009"),
        ("BE", "be403227515"),
        ("NL", "33.011.433"), ("NL", "5032453"), ("NL", "NL33011433"),
        ("FR", "542 051 180"), ("FR", "54205118000066"), ("FR", "FR59542051180"),
        ("FR", "356000000"), ("FR", "35600000000048"), ("FR", "5500014"), ("FR", "05500014"),
        ("FR", "1234567890"), ("NL", "123456789"), ("NL", "NL123456789B01"), ("BE", "2000000000"), ("BE", "nope"),
        ("XX", "33011433"), ("BE", "NL33011433"), ("NL", ""),
    ],
)  # fmt: skip
def test_a_number_means_what_it_means_to_firmlake_company_or_is_an_error(world, country, number):
    """Check digits are not looked at: a number that has wrong ones is on no list."""
    ask = f"SELECT company_asked('{country}', '{number}')"
    try:
        company = read_company(country.upper(), number)
    except UsageError as error:
        if "check digit" in error.message:
            return
        with pytest.raises(duckdb.InvalidInputException, match=f"No company number: {country} {number}"):
            world.ask(ask)
    else:
        assert world.ask(ask) == [("".join(company),)]


@pytest.mark.parametrize("macro", WITH_A_THRESHOLD)
def test_a_threshold_in_per_cent_is_an_error(world, macro):
    with pytest.raises(duckdb.InvalidInputException, match="threshold 25 is above 1"):
        world.ask(call(macro, [*CALLS[macro][:-1], "25"]))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        *((call(macro, [*CALLS[macro][:-1], "-1"]), "threshold -1 is below 0") for macro in WITH_A_THRESHOLD),
        ("FROM cagr(0)", "No number of years: 0. Give one above 0"),
        ("FROM place_by_year('NL', '00000002', 'reveneu')", "No such measure: reveneu. The view measures names all"),
        ("FROM place_by_year('NL', '00000002', 'period_days')", "No such measure: period_days"),
    ],
)  # fmt: skip
def test_an_argument_that_means_nothing_is_an_error_that_says_so(world, asked, says):
    with pytest.raises(duckdb.InvalidInputException, match=says):
        world.ask(asked)


def test_every_measure_has_a_place_by_year(world):
    for (measure,) in world.ask("SELECT DISTINCT measure FROM measures"):
        assert world.ask(f"FROM place_by_year('NL', '00000002', '{measure}')"), measure
